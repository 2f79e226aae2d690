// SPDX-License-Identifier: MIT
// Packing of 16-bit weights into 12 (src/kernels/linear/linear_packed_bf16.h), by all threads: exponents are counted, codes given
// to the most frequent, then rows are laid out. What a block of rows counts lies where its rows will.
#include "src/backend/cpu/cpu_device.h"
#include "src/backend/cpu/cpu_linear.h"
#include "src/base/checked.h"
#include "src/kernels/linear/linear_packed_bf16.h"

enum {
    BLOCK = 32, // rows whose exponents are counted together
    COUNT_BYTES = WEFT__CODES_COUNTS * 4,
};
_Static_assert(BLOCK *WEFT__CODES_BYTES >= COUNT_BYTES,
               "counts lie where the rows of a block will");

struct packing {
    const weft_linear_pack_args *args;
    const struct weft__codes_packer *packer;
    struct weft__codes_layout at;
    int64_t rows, cols, first; // of the blocks at hand
    uint8_t codes[WEFT__CODES_COUNTS];
};

static struct weft__codes_block block_of(const struct packing *p, int64_t block)
{
    const int64_t row = block * BLOCK, left = p->rows - row;
    return (struct weft__codes_block){.weight = (const unsigned char *)p->args->weight +
                                                row * p->args->weight_stride_bytes,
                                      .stride_bytes = p->args->weight_stride_bytes,
                                      .cols = p->cols,
                                      .row = row,
                                      .rows = left < BLOCK ? left : BLOCK,
                                      .packed = p->args->packed,
                                      .at = p->at};
}

// Of the last block of few rows the counts would not fit there: they lie before, in the list's place.
static uint32_t *counts_of(const struct packing *p, int64_t block)
{
    unsigned char *packed = p->args->packed;
    const bool whole = p->rows - block * BLOCK >= BLOCK;
    return (void *)(packed + (whole ? p->at.rows + block * BLOCK * p->at.row_bytes : p->at.others));
}

static uint32_t *begin_of(const struct packing *p, int64_t row)
{
    return (uint32_t *)(void *)((char *)p->args->packed + sizeof(struct weft__codes_head)) + row;
}

static void count_task(void *opaque, int32_t index, int32_t thread)
{
    const struct packing *p = opaque;
    const struct weft__codes_block block = block_of(p, p->first + index);
    (void)thread;
    p->packer->count(&block, counts_of(p, p->first + index));
}

static void put_task(void *opaque, int32_t index, int32_t thread)
{
    const struct packing *p = opaque;
    const struct weft__codes_block block = block_of(p, p->first + index);
    (void)thread;
    p->packer->put(&block, p->codes, *begin_of(p, block.row));
}

// Runs a task for each block, and says how far it is, in bytes of `before` to `done`.
static void for_blocks(const weft_plan *plan, struct packing *p, weft_task_fn *task, int64_t before,
                       int64_t done)
{
    enum { TASKS = 64 }; // between two words of progress
    const int64_t blocks = weft__ceil_div(p->rows, BLOCK);
    for (p->first = 0; p->first < blocks;) {
        const int64_t tasks = blocks - p->first < TASKS ? blocks - p->first : TASKS;
        weft__cpu_parallel_for(plan->context, (int32_t)tasks, task, p);
        p->first += tasks;
        if (p->args->progress)
            p->args->progress(p->args->user,
                              (size_t)(before + (done - before) / blocks * p->first +
                                       (p->first == blocks ? (done - before) % blocks : 0)),
                              (size_t)p->at.bytes);
    }
}

// Gives codes to the most frequent exponents, of equal ones to the smaller. Exponent 0 always has one.
static void choose(struct packing *p, struct weft__codes_head *head)
{
    uint64_t all[WEFT__CODES_COUNTS] = {0};
    *head = (struct weft__codes_head){0};
    for (int64_t block = 0; block < weft__ceil_div(p->rows, BLOCK); block++)
        for (int e = 0; e < WEFT__CODES_COUNTS; e++)
            all[e] += counts_of(p, block)[e];
    for (int e = 0; e < WEFT__CODES_COUNTS; e++)
        p->codes[e] = WEFT__CODES_NONE;
    p->codes[0] = WEFT__CODES_ZERO;
    for (int code = 0; code < WEFT__CODES_ZERO; code++) {
        int best = 0;
        for (int e = 1; e < WEFT__CODES_COUNTS; e++)
            if (p->codes[e] == WEFT__CODES_NONE && (!best || all[e] > all[best]))
                best = e;
        p->codes[best] = (uint8_t)code;
        head->exponents[code] = head->exponents[code + WEFT__CODES_EXPONENTS] =
            (uint16_t)(best << 7);
    }
}

// Where the list of each block begins. Gives how long it is in all.
static int64_t begin_blocks(const struct packing *p)
{
    int64_t listed = 0;
    for (int64_t block = 0; block < weft__ceil_div(p->rows, BLOCK); block++) {
        *begin_of(p, block * BLOCK) = (uint32_t)listed;
        for (int e = 0; e < WEFT__CODES_COUNTS && listed <= p->at.most; e++)
            listed += p->codes[e] == WEFT__CODES_NONE ? counts_of(p, block)[e] : 0;
    }
    return listed;
}

weft_status weft__cpu_pack_codes(const weft_plan *plan, const weft_linear_pack_args *args,
                                 const struct weft__codes_packer *packer)
{
    const weft_linear_desc *desc = plan->desc;
    struct weft__codes_head *head = args->packed;
    struct packing p = {
        .args = args, .packer = packer, .rows = desc->parts[args->part].rows, .cols = desc->cols};
    weft__codes_lay_out(p.rows, p.cols, &p.at); // as the plan found
    for_blocks(plan, &p, count_task, 0, p.at.bytes / 4);
    choose(&p, head);
    head->listed = begin_blocks(&p);
    if (head->listed > p.at.most) {
        head->listed = WEFT__CODES_MANY;
        return weft__fail(
            plan->context, WEFT_EUNSUPPORTED,
            "linear: too many weights of other exponents than most have, for 12 bits");
    }
    *begin_of(&p, p.rows) = (uint32_t)head->listed;
    for_blocks(plan, &p, put_task, p.at.bytes / 4, p.at.bytes);
    return WEFT_OK;
}
