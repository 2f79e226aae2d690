// SPDX-License-Identifier: MIT
// Shared memory and its addresses; copies in the background, made at once or as late as is allowed.
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulator/emulator_inside.h"

// Static shared memory is thread-local memory of a kernel's library, far above 2^32: its addresses are counted
// from 1 MiB below a word there, on 1024 bytes.
#define MARKER (EMULATED_STATIC + (1u << 20))

uint32_t emulator_shared_address(const void *pointer)
{
    uint64_t place = (uint64_t)(uintptr_t)pointer;
    if (place < (uint64_t)1 << 31)
        return (uint32_t)place;
    int64_t from_marker = (const char *)pointer - emulator_block->marker;
    if (from_marker > 1 << 20 || from_marker < -(1 << 20))
        emulator_fail("an address of shared memory is none");
    return MARKER + (uint32_t)(int32_t)from_marker;
}

static bool is_static(uint32_t address)
{
    return address >= EMULATED_STATIC;
}

void *emulator_shared_pointer(uint32_t address)
{
    struct block *own = emulator_block;
    if (!is_static(address))
        return (void *)(uintptr_t)address;
    // The marker of a block lies as far from another's as its places do.
    return own->marker + (int32_t)(address - MARKER);
}

// Static places of other blocks would need a word more: no kernel has any but barriers of its own.
uint32_t emulator_of_block(uint32_t address, uint32_t rank)
{
    struct block *own = emulator_block;
    if (rank >= (uint32_t)own->cluster->size)
        emulator_fail("a block that the cluster has not");
    if (rank == own->rank)
        return address;
    if (is_static(address))
        emulator_fail("static shared memory of another block");
    return (uint32_t)(uintptr_t)own->cluster->blocks[rank]->shared +
           (address - (uint32_t)(uintptr_t)own->shared);
}

static void make(const struct thread_copy *copy)
{
    memcpy(copy->to, copy->from, copy->from_bytes);
    memset((char *)copy->to + copy->from_bytes, 0, copy->to_bytes - copy->from_bytes);
}

void emulator_copy(void *to, const void *from, uint32_t to_bytes, uint32_t from_bytes)
{
    struct fiber *fiber = running();
    const struct thread_copy copy = {to, from, to_bytes, from_bytes, fiber->groups};
    if ((uintptr_t)to % to_bytes || (uintptr_t)from % to_bytes || from_bytes > to_bytes)
        emulator_fail("a copy whose ends are not aligned");
    if (emulator_random() & 1) {
        make(&copy);
        return;
    }
    if (fiber->num_copies == fiber->room) {
        fiber->room = fiber->room ? 2 * fiber->room : 64;
        fiber->copies = realloc(fiber->copies, (size_t)fiber->room * sizeof copy);
    }
    fiber->copies[fiber->num_copies++] = copy;
}

void emulator_copy_group_end(void)
{
    running()->groups++;
}

void emulator_copy_wait(int32_t left)
{
    struct fiber *fiber = running();
    int32_t kept = 0;
    for (int32_t i = 0; i < fiber->num_copies; i++) {
        if (fiber->copies[i].group < fiber->groups - left)
            make(&fiber->copies[i]);
        else
            fiber->copies[kept++] = fiber->copies[i];
    }
    fiber->num_copies = kept;
}

// A barrier in shared memory: the phase's parity in the top bit, 31 bits of bytes to come, 16 of arrivals to
// come, 16 of arrivals of every phase.
struct mbarrier {
    uint32_t parity, arrivals, pending;
    int32_t bytes;
};

static struct mbarrier mbarrier_read(uint64_t word)
{
    return (struct mbarrier){.parity = (uint32_t)(word >> 63),
                             .bytes = (int32_t)((uint32_t)(word >> 32) << 1) >> 1,
                             .pending = (uint32_t)word >> 16,
                             .arrivals = (uint32_t)word & 0xffff};
}

static uint64_t mbarrier_word(struct mbarrier b)
{
    if (b.pending == 0 && b.bytes == 0) {
        b.parity ^= 1;
        b.pending = b.arrivals;
    }
    return (uint64_t)b.parity << 63 | (uint64_t)((uint32_t)b.bytes & 0x7fffffffu) << 32 |
           b.pending << 16 | b.arrivals;
}

static uint64_t *mbarrier_at(uint32_t barrier)
{
    if (barrier % 8 != 0)
        emulator_fail("a barrier that is not aligned");
    return emulator_shared_pointer(barrier);
}

void emulator_mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    *mbarrier_at(barrier) = (uint64_t)(arrivals << 16 | arrivals);
}

static void change(uint32_t barrier, uint32_t arrivals, int32_t bytes)
{
    struct cluster *cluster = emulator_block->cluster;
    pthread_mutex_lock(&cluster->lock);
    uint64_t *word = mbarrier_at(barrier);
    struct mbarrier b = mbarrier_read(*word);
    if (b.pending < arrivals)
        emulator_fail("more arrivals than a barrier waits for");
    b.pending -= arrivals;
    b.bytes += bytes;
    __atomic_store_n(word, mbarrier_word(b), __ATOMIC_RELEASE);
    pthread_mutex_unlock(&cluster->lock);
    emulator_event();
}

// Bytes count before the arrival, which may end the phase.
void emulator_mbarrier_arrive(uint32_t barrier, uint32_t expected_bytes)
{
    change(barrier, 1, (int32_t)expected_bytes);
}

void emulator_mbarrier_landed(uint32_t barrier, uint32_t bytes)
{
    change(barrier, 0, -(int32_t)bytes);
}

bool emulator_mbarrier_ended(uint32_t barrier, uint32_t parity)
{
    return (uint32_t)(__atomic_load_n(mbarrier_at(barrier), __ATOMIC_ACQUIRE) >> 63) !=
           (parity & 1);
}

void emulator_mbarrier_wait(uint32_t barrier, uint32_t parity)
{
    while (!emulator_mbarrier_ended(barrier, parity)) {
        // Late, but in no order that anybody may count on.
        if (emulator_random() % 4 == 0)
            emulator_engine_step();
        emulator_yield();
    }
}

void emulator_engine(const struct emulated_copy *copy)
{
    struct block *block = emulator_block;
    if (block->num_copies == MOST_COPIES)
        emulator_engine_step();
    if (emulator_random() & 1)
        copy->run(copy);
    else
        block->copies[block->num_copies++] = *copy;
}

bool emulator_engine_step(void)
{
    struct block *block = emulator_block;
    if (block->num_copies == 0)
        return false;
    uint32_t which = emulator_random() % (uint32_t)block->num_copies;
    struct emulated_copy copy = block->copies[which];
    block->copies[which] = block->copies[--block->num_copies];
    copy.run(&copy);
    emulator_event();
    return true;
}
