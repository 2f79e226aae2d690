// SPDX-License-Identifier: MIT
// What threads do together: lanes of a warp meet, threads of a block and of a cluster wait for each other. Who
// comes last does what there is to do and lets the others go on.
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulator/emulator_inside.h"

static void let_go(struct block *block, int32_t first, int32_t count, const char *waiting_for)
{
    for (int32_t i = first; i < first + count && i < block->num_threads; i++) {
        struct fiber *fiber = &block->fibers[i];
        if (fiber->state == FIBER_WAITS && fiber->waits_for == waiting_for)
            fiber->state = FIBER_READY;
    }
    emulator_event();
}

static bool meeting_is_full(const struct warp *warp)
{
    const struct meeting *meeting = &warp->meeting;
    return meeting->came && (meeting->came & warp->alive) == (meeting->mask & warp->alive);
}

static void hold_meeting(struct block *block, struct warp *warp)
{
    struct meeting meeting = warp->meeting;
    memset(&warp->meeting, 0, sizeof warp->meeting);
    if (meeting.all)
        meeting.all(meeting.brought);
    let_go(block, (int32_t)(warp - block->warps) * 32, 32, meeting.what);
}

void emulator_warp(uint32_t mask, const char *what, void *mine, emulated_together *all)
{
    struct fiber *fiber = running();
    struct warp *warp = warp_of(fiber);
    struct meeting *meeting = &warp->meeting;
    if (!(mask >> fiber->self.lane & 1))
        emulator_fail("a lane that its own mask leaves out");
    if (meeting->came &&
        ((meeting->what != what && strcmp(meeting->what, what) != 0) || meeting->mask != mask))
        emulator_fail("lanes of a warp meet for different things");
    meeting->mask = mask;
    meeting->what = what;
    meeting->all = all;
    meeting->brought[fiber->self.lane] = mine;
    meeting->came |= 1u << fiber->self.lane;
    if (meeting_is_full(warp))
        hold_meeting(emulator_block, warp);
    else
        emulator_wait_for(what);
}

void emulator_warp_left(struct warp *warp)
{
    if (meeting_is_full(warp))
        hold_meeting(emulator_block, warp);
}

static const char *const barrier_names[16] = {
    "barrier 0",  "barrier 1",  "barrier 2",  "barrier 3", "barrier 4",  "barrier 5",
    "barrier 6",  "barrier 7",  "barrier 8",  "barrier 9", "barrier 10", "barrier 11",
    "barrier 12", "barrier 13", "barrier 14", "barrier 15"};

static bool barrier_is_full(const struct block *block, int32_t i)
{
    const struct named_barrier *barrier = &block->barriers[i];
    return barrier->came > 0 &&
           barrier->came >= (barrier->threads ? barrier->threads : block->alive);
}

// True when the caller was the last.
static bool arrive(struct block *block, int32_t i, int32_t threads)
{
    struct named_barrier *barrier = &block->barriers[i];
    if (i < 0 || i >= 16 || threads % 32 != 0)
        emulator_fail("a barrier that there is not");
    if (barrier->came > 0 && barrier->threads != threads)
        emulator_fail("threads of one barrier differ in its number of threads");
    barrier->threads = threads;
    barrier->came++;
    if (!barrier_is_full(block, i))
        return false;
    barrier->came = 0;
    let_go(block, 0, block->num_threads, barrier_names[i]);
    return true;
}

void emulator_barrier(int32_t i, int32_t threads)
{
    if (!arrive(emulator_block, i, threads))
        emulator_wait_for(barrier_names[i]);
}

void emulator_barrier_arrive(int32_t i, int32_t threads)
{
    arrive(emulator_block, i, threads);
}

void emulator_barrier_left(void)
{
    struct block *block = emulator_block;
    for (int32_t i = 0; i < 16; i++)
        if (block->barriers[i].threads == 0 && barrier_is_full(block, i)) {
            block->barriers[i].came = 0;
            let_go(block, 0, block->num_threads, barrier_names[i]);
        }
}

int32_t emulator_any(int32_t value)
{
    struct block *block = emulator_block;
    block->any |= value != 0;
    if (++block->any_came == block->alive) {
        block->any_result = block->any;
        block->any = block->any_came = 0;
    }
    emulator_barrier(0, 0);
    return block->any_result;
}

void emulator_cluster_arrive(void)
{
    struct fiber *fiber = running();
    fiber->cluster_arrivals++;
    atomic_fetch_add(&emulator_block->cluster->arrivals, 1);
    emulator_event();
}

void emulator_cluster_wait(void)
{
    const struct fiber *fiber = running();
    struct cluster *cluster = emulator_block->cluster;
    const uint64_t all = (uint64_t)cluster->size * (uint64_t)emulator_block->num_threads;
    while (atomic_load(&cluster->arrivals) < fiber->cluster_arrivals * all)
        emulator_yield();
}

void emulator_product(const void *mine, size_t bytes, emulated_together *all)
{
    struct fiber *fiber = running();
    struct warp *warp = warp_of(fiber);
    if (!warp->products)
        warp->products = calloc(MOST_PRODUCTS, sizeof *warp->products);
    // All lanes come in the same order: the first of them opens the product.
    if (warp->num_products == MOST_PRODUCTS)
        emulator_fail("too many products under way");
    struct product *product = &warp->products[warp->num_products];
    void *copy = malloc(bytes);
    memcpy(copy, mine, bytes);
    product->brought[fiber->self.lane] = copy;
    product->all = all;
    product->group = warp->groups;
    emulator_warp(~0u, "a product of a warpgroup", NULL, NULL);
    if (product == &warp->products[warp->num_products]) // nobody has counted it yet
        warp->num_products++;
    emulator_warp(~0u, "a product of a warpgroup, counted", NULL, NULL);
}

void emulator_product_group_end(void)
{
    struct warp *warp = warp_of(running());
    emulator_warp(~0u, "the end of a group of products", NULL, NULL);
    if (running()->self.lane == 0)
        warp->groups++;
    emulator_warp(~0u, "the end of a group of products, counted", NULL, NULL);
}

static void multiply(struct product *product)
{
    product->all(product->brought);
    for (int32_t lane = 0; lane < 32; lane++) {
        free(product->brought[lane]);
        product->brought[lane] = NULL;
    }
}

void emulator_product_wait(int32_t left)
{
    struct warp *warp = warp_of(running());
    emulator_warp(~0u, "the wait for products", NULL, NULL);
    if (running()->self.lane == 0) {
        int32_t done = 0;
        while (done < warp->num_products && warp->products[done].group < warp->groups - left)
            multiply(&warp->products[done++]);
        memmove(warp->products, warp->products + done,
                (size_t)(warp->num_products - done) * sizeof *warp->products);
        memset(warp->products + warp->num_products - done, 0,
               (size_t)done * sizeof *warp->products);
        warp->num_products -= done;
    }
    emulator_warp(~0u, "the wait for products, over", NULL, NULL);
}
