// SPDX-License-Identifier: MIT
// CUDA kernels on the host: a launch runs block by block, every thread of a block a fiber of its own. What threads do
// together (barriers, shuffles, products of a warp) happens when all of them have come; copies and products that a GPU
// makes in the background happen at once or as late as is allowed, as a seed has it, so that a wait that is missing
// shows. It is no model of speed, and it sees no race between two threads that no switch separates.
//
//      text of a kernel + device/ in place of src/kernels/cuda/{instructions,memory,bulk,mma,wgmma}.cuh
//          --> g++ --> a library with emulated_enter and emulated_run_KERNEL --> emulator_launch()
//
// The table below is what such a library is given. It is read by C and C++.
#ifndef WEFT_TESTS_EMULATOR_H
#define WEFT_TESTS_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Static shared memory of a block lies from here on, up to a MiB.
#define EMULATED_STATIC 0xc0000000u

struct emulated_index {
    uint32_t x, y, z;
};

// One thread of a block, as its kernel sees it.
struct emulated_self {
    struct emulated_index thread, block, threads, blocks;
    int32_t lane;
};

// What a warp does together: `all` is called once, with what every lane brought (NULL: it has ended or is not meant).
typedef void emulated_together(void *const lanes[32]);

// A copy of the copy engine: runs once, then `bytes` of the barrier have landed. A barrier of 0 has nobody waiting.
struct emulated_copy {
    void (*run)(const struct emulated_copy *);
    uint32_t to, barrier, bytes;
    uint64_t from;
    int32_t place[4];
};

struct emulated {
    const struct emulated_self *(*self)(void);
    void *(*shared)(void); // dynamic shared memory of the block

    // Addresses of shared memory are 32 bits: dynamic memory lies below 2^32, static memory above `marker`, which is
    // a word of the library's own in every block.
    uint32_t (*shared_address)(const void *pointer);
    void *(*shared_pointer)(uint32_t address);
    uint32_t (*of_block)(uint32_t address,
                         uint32_t rank); // the same place of another block of the cluster

    void (*warp)(uint32_t mask, const char *what, void *mine, emulated_together *all);
    void (*barrier)(int32_t barrier, int32_t threads); // 0 threads: all that have not ended
    void (*barrier_arrive)(int32_t barrier, int32_t threads);
    int32_t (*any)(int32_t value); // a barrier of the block; was a value not 0?
    void (*cluster_arrive)(void);
    void (*cluster_wait)(void);
    uint32_t (*cluster_rank)(void);
    uint32_t (*cluster_size)(void);
    void (*give_way)(void); // to other threads, in a loop that polls
    void (*event)(void);    // what another block may wait for has happened

    // cp.async of this thread.
    void (*copy)(void *to, const void *from, uint32_t to_bytes, uint32_t from_bytes);
    void (*copy_group_end)(void);
    void (*copy_wait)(int32_t left);

    // Barriers in shared memory, counted in arrivals and bytes; the copy engine.
    void (*mbarrier_init)(uint32_t barrier, uint32_t arrivals);
    void (*mbarrier_arrive)(uint32_t barrier, uint32_t expected_bytes);
    void (*mbarrier_landed)(uint32_t barrier, uint32_t bytes);
    void (*mbarrier_wait)(uint32_t barrier, uint32_t parity);
    bool (*mbarrier_ended)(uint32_t barrier, uint32_t parity);
    void (*engine)(const struct emulated_copy *copy);

    // Products of a warpgroup, each warp for itself: kept with what the lanes brought (copied, `bytes` of it),
    // until waited for.
    void (*product)(const void *mine, size_t bytes, emulated_together *all);
    void (*product_group_end)(void);
    void (*product_wait)(int32_t left);

    void (*fail)(const char *what); // says where, and ends the process
};

#ifndef __cplusplus
// Compiles a program; the library's bytes with malloc, or NULL and the compiler's words in `log`.
void *emulator_compile(const char *text, const char *name, int num_headers,
                       const char *const *headers, const char *const *header_names, int num_options,
                       const char *const *options, size_t *bytes, char *log, size_t log_bytes);

// Loads such bytes; NULL if the dynamic linker refuses. Kernels are found by name.
void *emulator_load(const void *library, size_t bytes);
void emulator_unload(void *handle);
void *emulator_kernel(void *handle, const char *name);

struct emulator_launch {
    void *handle, *kernel;
    const char *name;
    struct emulated_index grid, block;
    uint32_t shared_bytes, cluster;
    const void *args;
};
void emulator_launch(const struct emulator_launch *launch);
#endif

#endif
