// SPDX-License-Identifier: MIT
// What the files of the emulator share: a block that runs, its fibers.
#ifndef WEFT_TESTS_EMULATOR_INSIDE_H
#define WEFT_TESTS_EMULATOR_INSIDE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

#include "tests/support/emulator/emulator.h"

enum {
    MOST_THREADS = 1024,
    MOST_WARPS = MOST_THREADS / 32,
    MOST_CLUSTER = 16,
    STACK_BYTES = 256 << 10,
    MOST_COPIES = 1024,
    MOST_PRODUCTS = 256,
};

// A copy that a thread has asked for; `group` counts the groups it had ended before.
struct thread_copy {
    void *to;
    const void *from;
    uint32_t to_bytes, from_bytes;
    int32_t group;
};

enum fiber_state { FIBER_READY, FIBER_WAITS, FIBER_ENDED };

struct fiber {
    struct emulated_self self;
    struct block *block;
    enum fiber_state state;
    const char *waits_for;
    jmp_buf at;
    bool begun;
    struct thread_copy *copies;
    int32_t num_copies, room, groups;
    uint64_t cluster_arrivals;
};

// The place where lanes of a warp meet.
struct meeting {
    uint32_t came, mask;
    const char *what;
    void *brought[32];
    emulated_together *all;
};

// Products of a warp that are under way.
struct product {
    void *brought[32];
    emulated_together *all;
    int32_t group;
};

struct warp {
    uint32_t alive;
    struct meeting meeting;
    struct product *products; // MOST_PRODUCTS, from the first on
    int32_t num_products, groups;
};

struct named_barrier {
    int32_t came, threads;
};

struct cluster {
    int32_t size;
    struct block *blocks[MOST_CLUSTER];
    pthread_mutex_t lock; // over barriers in shared memory
    _Atomic int32_t begun;
    _Atomic uint64_t arrivals;
    _Atomic uint64_t events; // anything that may let somebody go on
};

struct block {
    const struct emulator_launch *launch;
    struct cluster *cluster;
    struct emulated_index index;
    uint32_t rank;
    int32_t num_threads, alive;
    char *shared, *marker;
    struct fiber *fibers;
    struct warp warps[MOST_WARPS];
    struct named_barrier barriers[16];
    int32_t any, any_result, any_came;
    struct emulated_copy copies[MOST_COPIES];
    int32_t num_copies;
    uint64_t random;
    jmp_buf scheduler;
    struct fiber *running;
};

extern _Thread_local struct block *emulator_block;
extern const struct emulated emulator_table;

static inline struct fiber *running(void)
{
    return emulator_block->running;
}

static inline struct warp *warp_of(struct fiber *fiber)
{
    return &emulator_block->warps[fiber->self.thread.x / 32];
}

// Numbers that a launch's seed decides.
uint32_t emulator_random(void);

void emulator_event(void);

// Lets other threads run; a fiber that waits is run again when somebody has made it ready.
void emulator_yield(void);
void emulator_wait_for(const char *what);

void emulator_fail(const char *what);

// Makes one copy of the copy engine; false if there is none.
bool emulator_engine_step(void);

// What happens together.
void emulator_warp(uint32_t mask, const char *what, void *mine, emulated_together *all);
void emulator_warp_left(struct warp *warp);
void emulator_barrier(int32_t barrier, int32_t threads);
void emulator_barrier_arrive(int32_t barrier, int32_t threads);
void emulator_barrier_left(void);
int32_t emulator_any(int32_t value);
void emulator_cluster_arrive(void);
void emulator_cluster_wait(void);
void emulator_product(const void *mine, size_t bytes, emulated_together *all);
void emulator_product_group_end(void);
void emulator_product_wait(int32_t left);

// Memory.
uint32_t emulator_shared_address(const void *pointer);
void *emulator_shared_pointer(uint32_t address);
uint32_t emulator_of_block(uint32_t address, uint32_t rank);
void emulator_copy(void *to, const void *from, uint32_t to_bytes, uint32_t from_bytes);
void emulator_copy_group_end(void);
void emulator_copy_wait(int32_t left);
void emulator_mbarrier_init(uint32_t barrier, uint32_t arrivals);
void emulator_mbarrier_arrive(uint32_t barrier, uint32_t expected_bytes);
void emulator_mbarrier_landed(uint32_t barrier, uint32_t bytes);
void emulator_mbarrier_wait(uint32_t barrier, uint32_t parity);
bool emulator_mbarrier_ended(uint32_t barrier, uint32_t parity);
void emulator_engine(const struct emulated_copy *copy);

#endif
