// SPDX-License-Identifier: MIT
// Launches: clusters one after the other, the blocks of a cluster on threads of their own, the threads of a
// block as fibers that take turns in an order which the seed decides (EMULATOR_SEED).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "tests/support/emulator/emulator_inside.h"

enum { STUCK_SECONDS = 20, PAGE = 4096 };

#ifndef MAP_32BIT // of x86-64 alone, where kernels are emulated
#define MAP_32BIT 0
#endif

_Thread_local struct block *emulator_block;

typedef void run_fn(const void *args);
typedef char *enter_fn(const struct emulated *table);

uint32_t emulator_random(void)
{
    uint64_t *state = &emulator_block->random;
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

void emulator_event(void)
{
    atomic_fetch_add_explicit(&emulator_block->cluster->events, 1, memory_order_release);
}

void emulator_fail(const char *what)
{
    const struct block *block = emulator_block;
    fprintf(stderr, "emulator: %s, block %u %u %u", block->launch->name, block->index.x,
            block->index.y, block->index.z);
    if (block->running)
        fprintf(stderr, ", thread %u", block->running->self.thread.x);
    fprintf(stderr, ": %s\n", what);
    abort();
}

static const struct emulated_self *self(void)
{
    return &running()->self;
}

static void *shared(void)
{
    return emulator_block->shared;
}

static uint32_t cluster_rank(void)
{
    return emulator_block->rank;
}

static uint32_t cluster_size(void)
{
    return (uint32_t)emulator_block->cluster->size;
}

const struct emulated emulator_table = {
    .self = self,
    .shared = shared,
    .shared_address = emulator_shared_address,
    .shared_pointer = emulator_shared_pointer,
    .of_block = emulator_of_block,
    .warp = emulator_warp,
    .barrier = emulator_barrier,
    .barrier_arrive = emulator_barrier_arrive,
    .any = emulator_any,
    .cluster_arrive = emulator_cluster_arrive,
    .cluster_wait = emulator_cluster_wait,
    .cluster_rank = cluster_rank,
    .cluster_size = cluster_size,
    .give_way = emulator_yield,
    .event = emulator_event,
    .copy = emulator_copy,
    .copy_group_end = emulator_copy_group_end,
    .copy_wait = emulator_copy_wait,
    .mbarrier_init = emulator_mbarrier_init,
    .mbarrier_arrive = emulator_mbarrier_arrive,
    .mbarrier_landed = emulator_mbarrier_landed,
    .mbarrier_wait = emulator_mbarrier_wait,
    .mbarrier_ended = emulator_mbarrier_ended,
    .engine = emulator_engine,
    .product = emulator_product,
    .product_group_end = emulator_product_group_end,
    .product_wait = emulator_product_wait,
    .fail = emulator_fail,
};

void emulator_yield(void)
{
    struct fiber *fiber = running();
    if (_setjmp(fiber->at) == 0)
        _longjmp(emulator_block->scheduler, 1);
}

void emulator_wait_for(const char *what)
{
    struct fiber *fiber = running();
    fiber->state = FIBER_WAITS;
    fiber->waits_for = what;
    emulator_yield();
}

// What a thread of the host has for the fibers of its blocks: their stacks, and where fibers whose thread has
// ended wait for the thread of a block to come, so that each is made once (two system calls).
struct home {
    char *stacks;
    struct {
        bool is;
        jmp_buf at;
    } parked[MOST_THREADS];
};

static _Thread_local struct home *home;

static void leave_home(void)
{
    munmap(home->stacks, (size_t)MOST_THREADS * STACK_BYTES);
    free(home);
    home = NULL;
}

static void find_home(void)
{
    if (home)
        return;
    home = calloc(1, sizeof *home);
    char *stacks = mmap(NULL, (size_t)MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!home || stacks == MAP_FAILED)
        emulator_fail("no memory for stacks");
    home->stacks = stacks;
}

// One thread of a block, to its end.
static void run_thread(void)
{
    struct block *block = emulator_block;
    struct fiber *fiber = block->running;
    ((run_fn *)(uintptr_t)block->launch->kernel)(block->launch->args);
    emulator_copy_wait(0);
    fiber->state = FIBER_ENDED;
    struct warp *warp = warp_of(fiber);
    warp->alive &= ~(1u << fiber->self.lane);
    block->alive--;
    emulator_event();
    emulator_warp_left(warp);
    emulator_barrier_left();
}

static void fiber_main(void)
{
    const ptrdiff_t i = emulator_block->running - emulator_block->fibers;
    for (;;) {
        run_thread();
        home->parked[i].is = true;
        if (_setjmp(home->parked[i].at) == 0)
            _longjmp(emulator_block->scheduler, 1);
    }
}

static void begin_fiber(int32_t i)
{
    if (home->parked[i].is) {
        home->parked[i].is = false;
        _longjmp(home->parked[i].at, 1);
    }
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = home->stacks + (size_t)i * STACK_BYTES;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, fiber_main, 0);
    setcontext(&context);
}

static void run_fiber(struct block *block, int32_t i)
{
    struct fiber *fiber = &block->fibers[i];
    block->running = fiber;
    if (_setjmp(block->scheduler) == 0) {
        if (fiber->begun)
            _longjmp(fiber->at, 1);
        fiber->begun = true;
        begin_fiber(i);
    }
    block->running = NULL;
}

static void say_who_waits(const struct block *block)
{
    const char *last = "";
    for (int32_t i = 0; i < block->num_threads; i++) {
        const struct fiber *fiber = &block->fibers[i];
        const char *what = fiber->state == FIBER_ENDED   ? "ended"
                           : fiber->state == FIBER_WAITS ? fiber->waits_for
                                                         : "polls";
        if (strcmp(what, last) != 0)
            fprintf(stderr, "emulator: block %u: threads from %d on: %s\n", block->index.x, i,
                    what);
        last = what;
    }
}

// Nobody got anywhere: another block of the cluster may.
static void stand_still(struct block *block, struct timespec *since, uint64_t *seen)
{
    struct timespec now;
    uint64_t events = atomic_load_explicit(&block->cluster->events, memory_order_acquire);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (events != *seen) {
        *seen = events;
        *since = now;
    }
    if (block->cluster->size == 1 || now.tv_sec - since->tv_sec > STUCK_SECONDS) {
        say_who_waits(block);
        emulator_fail("nobody can go on");
    }
    sched_yield();
}

static void schedule(struct block *block)
{
    struct timespec since;
    uint64_t seen = 0;
    clock_gettime(CLOCK_MONOTONIC, &since);
    while (block->alive > 0) {
        uint64_t before = atomic_load(&block->cluster->events);
        int32_t i = (int32_t)(emulator_random() % (uint32_t)block->num_threads);
        bool backwards = emulator_random() & 1;
        for (int32_t n = 0; n < block->num_threads; n++) {
            if (block->fibers[i].state == FIBER_READY)
                run_fiber(block, i);
            if (backwards)
                i = i > 0 ? i - 1 : block->num_threads - 1;
            else
                i = i + 1 < block->num_threads ? i + 1 : 0;
        }
        if (atomic_load(&block->cluster->events) == before && !emulator_engine_step() &&
            block->alive > 0)
            stand_still(block, &since, &seen);
    }
    while (emulator_engine_step())
        ;
}

static void begin_block(struct block *block)
{
    const struct emulated_index t = block->launch->block;
    block->num_threads = block->alive = (int32_t)(t.x * t.y * t.z);
    block->fibers = calloc((size_t)block->num_threads, sizeof *block->fibers);
    for (int32_t i = 0; i < block->num_threads; i++) {
        struct fiber *fiber = &block->fibers[i];
        fiber->block = block;
        fiber->self = (struct emulated_self){.thread = {(uint32_t)i, 0, 0},
                                             .block = block->index,
                                             .threads = t,
                                             .blocks = block->launch->grid,
                                             .lane = i % 32};
        block->warps[i / 32].alive |= 1u << i % 32;
    }
}

// Dynamic shared memory below 2^32, full of what no kernel wrote, with nothing behind it.
static char *take_shared(size_t bytes)
{
    size_t pages = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    char *area = mmap(NULL, pages + PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (area == MAP_FAILED)
        emulator_fail("no memory below 2^32");
    mprotect(area + pages, PAGE, PROT_NONE);
    memset(area, 0xd5, pages);
    return area + pages - (bytes + 1023) / 1024 * 1024;
}

static void give_shared(char *shared, size_t bytes)
{
    size_t pages = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    munmap(shared + (bytes + 1023) / 1024 * 1024 - pages, pages + PAGE);
}

static void end_block(struct block *block)
{
    for (int32_t i = 0; i < block->num_threads; i++)
        free(block->fibers[i].copies);
    for (int32_t i = 0; i < MOST_WARPS; i++)
        free(block->warps[i].products);
    free(block->fibers);
}

static void *run_block(void *argument)
{
    struct block *block = argument;
    emulator_block = block;
    enter_fn *enter = (enter_fn *)(uintptr_t)dlsym(block->launch->handle, "emulated_enter");
    block->marker = enter(&emulator_table);
    // Blocks of a cluster begin when all know where their memory lies.
    atomic_fetch_add(&block->cluster->begun, 1);
    while (atomic_load(&block->cluster->begun) < block->cluster->size)
        sched_yield();
    find_home();
    begin_block(block);
    schedule(block);
    end_block(block);
    if (block->rank > 0) // on a thread that ends
        leave_home();
    emulator_block = NULL;
    return NULL;
}

static void run_cluster(const struct emulator_launch *launch, struct emulated_index first,
                        struct block *blocks, uint64_t seed)
{
    struct cluster cluster = {.size = (int32_t)launch->cluster};
    pthread_t threads[MOST_CLUSTER];
    pthread_mutex_init(&cluster.lock, NULL);
    for (int32_t i = 0; i < cluster.size; i++) {
        struct block *block = &blocks[i];
        *block = (struct block){.launch = launch, .cluster = &cluster, .rank = (uint32_t)i};
        block->index = (struct emulated_index){first.x + (uint32_t)i, first.y, first.z};
        block->random = seed + (uint64_t)i * 977;
        block->shared = take_shared(launch->shared_bytes);
        cluster.blocks[i] = block;
    }
    for (int32_t i = 1; i < cluster.size; i++)
        pthread_create(&threads[i], NULL, run_block, &blocks[i]);
    run_block(&blocks[0]);
    for (int32_t i = 1; i < cluster.size; i++)
        pthread_join(threads[i], NULL);
    for (int32_t i = 0; i < cluster.size; i++)
        give_shared(blocks[i].shared, launch->shared_bytes);
    pthread_mutex_destroy(&cluster.lock);
}

void emulator_launch(const struct emulator_launch *launch)
{
    static uint64_t launches;
    const char *text = getenv("EMULATOR_SEED");
    uint64_t seed = (text ? strtoull(text, NULL, 0) : 1) * 0x9e3779b97f4a7c15u + ++launches * 7919;
    struct block *blocks = calloc(launch->cluster, sizeof *blocks);
    for (uint32_t z = 0; z < launch->grid.z; z++)
        for (uint32_t y = 0; y < launch->grid.y; y++)
            for (uint32_t x = 0; x < launch->grid.x; x += launch->cluster)
                run_cluster(launch, (struct emulated_index){x, y, z}, blocks, seed++);
    free(blocks);
}
