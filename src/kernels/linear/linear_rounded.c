// SPDX-License-Identifier: MIT
#include "src/kernels/linear/linear_rounded.h"

#include "src/base/checked.h"
#include "src/base/memory.h"

static int64_t take(int64_t *at, int64_t bytes)
{
    int64_t offset = *at;
    *at = weft__align_up(offset + bytes, WEFT__ALIGN);
    return offset;
}

bool weft__rounded_lay_out(int64_t cols, bool few, struct weft__rounded_layout *out)
{
    int64_t at = 0;
    if (cols < 0 || cols > INT64_MAX / 16)
        return false;
    int64_t stride = weft__align_up(cols, WEFT__ROUNDED_PAD);
    *out = (struct weft__rounded_layout){.stride = stride};
    take(&at, sizeof(struct weft__rounded_head));
    out->q = take(&at, stride);
    out->scale = take(&at, stride / 32 * 4);
    out->scaled = take(&at, stride / 32 * 4);
    out->sum32 = take(&at, stride / 32 * 4);
    out->sum16 = take(&at, stride / 16 * 4);
    out->squares = take(&at, stride / 128 * 8);
    if (few) {
        out->halves = take(&at, stride);
        out->quads = take(&at, stride / 4 * 4);
        out->octets = take(&at, stride / 8 * 4);
    }
    out->row_bytes = at;
    return true;
}

void weft__rounded_begin(const struct weft__rounded *to, int64_t row, int64_t cols, bool few,
                         bool squares)
{
    *weft__rounded_row(to, row).head = (struct weft__rounded_head){
        .cols = cols, .mark = WEFT__ROUNDED_MARK, .few = few && to->at.halves, .squares = squares};
}

#define X(isa) weft__round_fn weft__round_##isa;
#include "src/kernels/linear/round.def"
#undef X

static const struct weft__round_kernel kernels[] = {
#define X(isa) {{"round", "round_" #isa, WEFT__ISA_##isa}, weft__round_##isa},
#include "src/kernels/linear/round.def"
#undef X
};

const struct weft__kernel_table weft__round_table = {"round", kernels, sizeof kernels[0],
                                                     sizeof kernels / sizeof kernels[0]};

weft__round_fn *weft__rounder_of(uint32_t isa_mask)
{
    const struct weft__round_kernel *kernel = kernels;
    while (!(isa_mask >> kernel->base.level & 1))
        kernel++;
    return kernel->run;
}

bool weft__rounded_has_few(uint32_t isa_mask)
{
    return isa_mask >> WEFT__ISA_avx512vnni & 1;
}
