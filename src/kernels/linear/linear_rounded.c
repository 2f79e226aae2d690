// SPDX-License-Identifier: MIT
#include "src/kernels/linear/linear_rounded.h"

#include "src/base/checked.h"
#include "src/base/memory.h"
#include "src/kernels/kernel.h"
#include "src/kernels/linear/linear_kernel.h"

bool weft__rounded_plan(int64_t rows, int64_t cols, bool few, struct weft__rounded_plan *out)
{
    // Elements of the columns of a row per element of a plane, and bytes of one.
    static const struct {
        int columns, bytes;
    } planes[WEFT__ROUNDED_PLANES] = {{1, 1},  {32, 4}, {32, 4}, {32, 4},
                                      {16, 4}, {1, 1},  {4, 4},  {8, 4}};
    int64_t stride, elems, at = 0;
    if (!weft__add_i64(cols, WEFT__ROUNDED_PAD, &stride))
        return false;
    stride = weft__align_up(cols, WEFT__ROUNDED_PAD);
    if (!weft__mul_i64(stride, rows, &elems) || elems > INT64_MAX / 8)
        return false;
    for (int i = 0; i < WEFT__ROUNDED_PLANES; i++) {
        out->offset[i] = at;
        if (i < WEFT__ROUNDED_FEW || few)
            at += weft__align_up(elems / planes[i].columns * planes[i].bytes, WEFT__ALIGN);
    }
    out->stride = stride;
    out->few = few;
    out->bytes = at;
    return true;
}

struct weft__rounded weft__rounded_place(const struct weft__rounded_plan *plan, void *memory)
{
    unsigned char *base = memory;
    struct weft__rounded at = {.stride = plan->stride,
                               .q = (void *)(base + plan->offset[0]),
                               .scale = (void *)(base + plan->offset[1]),
                               .scaled = (void *)(base + plan->offset[2]),
                               .sum32 = (void *)(base + plan->offset[3]),
                               .sum16 = (void *)(base + plan->offset[4])};
    if (plan->few) {
        at.halves = (void *)(base + plan->offset[5]);
        at.quads = (void *)(base + plan->offset[6]);
        at.octets = (void *)(base + plan->offset[7]);
    }
    return at;
}

weft__round_fn weft__linear_round_ref;
#if defined(WEFT__X86)
weft__round_fn weft__linear_round_avx2;
weft__round_fn weft__linear_round_avx512;
#elif defined(WEFT__ARM64)
weft__round_fn weft__linear_round_neon;
#endif

const struct weft__rounder weft__rounders[] = {
#if defined(WEFT__X86)
    {WEFT__ISA_avx512, weft__linear_round_avx512},
    {WEFT__ISA_avx2, weft__linear_round_avx2},
#elif defined(WEFT__ARM64)
    {WEFT__ISA_neon, weft__linear_round_neon},
#endif
    {WEFT__ISA_ref, weft__linear_round_ref},
    {0, NULL},
};

weft__round_fn *weft__rounder_of(uint32_t isa_mask)
{
    const struct weft__rounder *rounder = weft__rounders;
    while (!(isa_mask >> rounder->isa & 1))
        rounder++;
    return rounder->round;
}

bool weft__rounded_has_few(uint32_t isa_mask)
{
    return isa_mask >> WEFT__ISA_avx512vnni & 1;
}
