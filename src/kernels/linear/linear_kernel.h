// SPDX-License-Identifier: MIT
// The contract of linear kernels: Y[batch][rows] = alpha * X W^T + bias + residual, all of it f32 but W
// and rounded activations.
//
// A kernel computes the rows [row0, row1) of W against all rows of X. It is serial, allocates nothing
// and reads nothing past a row's last block: weights may end at the end of a mapped file. Activations
// come in one of three forms, and the row of the table says which:
//
//   f32   as the caller gave them
//   q8    rounded to 8 bits in groups of 32, in planes (linear_rounded.h)
//   bf16  rounded to bf16, and so are the weights
#ifndef WEFT_KERNELS_LINEAR_KERNEL_H
#define WEFT_KERNELS_LINEAR_KERNEL_H

#include <weft/linear.h>

#include "src/kernels/kernel.h"
#include "src/kernels/linear/linear_rounded.h"

enum weft__linear_acts {
    WEFT__ACTS_f32,
    WEFT__ACTS_q8,
    WEFT__ACTS_bf16,
    WEFT__ACTS_f32_panel = WEFT__ACTS_f32, // as linear.def names rows for many rows of X
    WEFT__ACTS_q8_panel = WEFT__ACTS_q8,
    WEFT__ACTS_bf16_panel = WEFT__ACTS_bf16,
    WEFT__ACTS_bf16_lines = WEFT__ACTS_bf16,
    WEFT__ACTS_bf16_rows = WEFT__ACTS_bf16,
    WEFT__ACTS_q8_nofetch = WEFT__ACTS_q8, // and rows that lack a choice, for comparing
    WEFT__ACTS_q8_row1 = WEFT__ACTS_q8,
    WEFT__ACTS_q8_row2 = WEFT__ACTS_q8,
    WEFT__ACTS_q8_masked = WEFT__ACTS_q8,
    WEFT__ACTS_q8_packed = WEFT__ACTS_q8,   // of panels (linear_packed.h)
    WEFT__ACTS_f32_packed = WEFT__ACTS_f32, // of 12 bits (linear_packed_bf16.h)
    WEFT__ACTS_bf16_packed = WEFT__ACTS_bf16
};

// What lies beside the codes of W (weft_linear_part); only kernels whose row says so are given it.
struct weft__linear_planes {
    const void *scales, *biases; // or NULL
    weft_dtype dtype;
    int64_t scale_cols, scale_rows, stride;
};

// Takes what rows [row, row + rows) of W gave with rows [m, m + count) of X, results[m][row], and may write there.
typedef void weft__take_fn(void *taker, float *results, int64_t stride, int32_t m, int32_t count,
                           int64_t row, int64_t rows);

struct weft__linear_call {
    weft_dtype dtype; // of W
    const unsigned char *weight;
    int64_t weight_stride_bytes;
    int64_t rows, cols;
    // Weights that are read after row next_from - 1, where it is not those behind; or NULL.
    const unsigned char *next;
    int64_t next_from;
    bool asks_far;            // struct weft__cpu
    bool asks_near;           // struct weft__cpu
    bool invariant;           // a row's bits must not depend on how many the run has
    int32_t batch, run_batch; // rows of X of this call, and of the run whose pieces calls have
    float alpha;
    const struct weft__linear_planes *planes; // or NULL
    const float *x_scale;                     // [batch] factors of the rows of X, or NULL
    const float *x;
    int64_t x_stride;
    const uint16_t *x_bf16;  // [batch], as the kernel's narrow() has laid it
    int64_t x_bf16_stride;   // weft__linear_bf16_stride()
    const uint16_t *x_tiles; // [batch] in bf16 as the kernel's tiler has put them, or NULL
    int64_t x_tiles_rows;    // rows of X that have a place there
    void *room;              // of the thread, for what the tiler says, or NULL
    struct weft__rounded acts;
    float *y;
    int64_t y_stride;
    bool
        y_past; // its rows are whole lines that nobody reads soon: they may be written past the caches
    const float *bias;     // or NULL
    const float *residual; // or NULL
    int64_t residual_stride;
    // Is given the results in place of y, or NULL; only where the kernel `delivers`.
    weft__take_fn *take;
    void *taker;
};

typedef void weft__linear_fn(const struct weft__linear_call *call, int64_t row0, int64_t row1);

// Rounds rows [m, m + rows) of X, of which x is the first, f32 or bf16 already, to bf16, to nearest even, and
// puts them where the kernel wants them in `to`, which has room for WEFT__BF16_ROWS - 1 rows of `stride`
// elements more than there are. Numbers below 2^-126 are zero: vdpbf16ps takes them so. What follows a row up
// to a multiple of 32 columns becomes zero.
typedef void weft__narrow_fn(const void *x, weft_dtype dtype, int64_t x_stride, int32_t rows,
                             int64_t cols, int32_t m, uint16_t *to, int64_t stride);
enum { WEFT__BF16_ROWS = 16, WEFT__BF16_SIXES = 6 };

// Makes tiles of rows of X, 16 rows by 32 columns in bf16 (to nearest even), as linear_packed_wide_amx.c says. `all`: rows that
// have a place in `to`, whole sixteens.
struct weft__linear_tiler {
    // Rows [m, m + rows), m a multiple of WEFT__BF16_ROWS and rows at most that many, which are rounded to 8 bits.
    void (*rounded)(const struct weft__rounded *x, int32_t m, int32_t rows, int64_t cols,
                    uint16_t *to, int64_t all);
    // Rows [m, m + rows) of one sixteen as they are, of which x is the first; the columns are a multiple of 32.
    void (*numbers)(const float *x, int64_t x_stride, int32_t m, int32_t rows, int64_t cols,
                    uint16_t *to, int64_t all);
    int64_t room_bytes; // that a thread wants when it multiplies
};
enum { WEFT__LAY_LONGEST = 1 << 17 }; // columns

// Lays `rows` rows of W, at most a panel, `stride_bytes` apart, as a panel at `to` (linear_packed.h). Reads
// nothing past a row's last block.
typedef void weft__pack_fn(weft_dtype dtype, const unsigned char *weight, int64_t stride_bytes,
                           int64_t rows, int64_t cols, unsigned char *to);

struct weft__codes_packer;

struct weft__linear_kernel {
    struct weft__kernel base;
    weft_dtype weight;
    enum weft__linear_acts acts;
    int32_t row_step; // a task's rows are a multiple of it, except the last task's
    int32_t min_batch,
        max_batch; // the rows of X that it is best for (none: max_batch 0); it serves any number
    // Gives its results to call->take, a few rows of X by a panel at a time, from the first cache.
    bool delivers;
    bool few_planes; // reads the planes that rounded rows have for a few rows of X
    bool planes;     // takes scales and biases beside the codes
    weft__linear_fn *run;
    weft__narrow_fn *narrow; // of X, where acts are bf16
    int32_t turned;          // rows of X that narrow() lays into one another, or 0
    weft__pack_fn *pack;     // of W, where it reads panels, else NULL
    const struct weft__codes_packer
        *codes; // of W, where it reads 12 bits (linear_packed_bf16.h), else NULL
    // Where it multiplies lay_batch rows of X and more as bf16, unless bits must not depend on their number: what makes tiles of
    // them; else NULL.
    const struct weft__linear_tiler *lay;
    int32_t lay_batch;
    bool groups;  // takes scales and biases of the format's own groups, in 16 bits
    int32_t form; // CUDA: the shape that its name asks for (linear_cuda_shape.h)
};

// Does it read packed weights?
static inline bool weft__linear_reads_packed(const struct weft__linear_kernel *kernel)
{
    return kernel->pack || kernel->codes;
}

// In weft_linear_desc.flags, inside the library: rows of X in bf16 must lie one after another, as they will be
// taken from any of them on.
#define WEFT__LINEAR_X_IN_ROWS (1u << 31)

enum { WEFT__FEW_ROWS = 8 };

// Has the run so many rows of X that their last bits may differ from those of a few?
static inline bool weft__linear_many(const struct weft__linear_call *call)
{
    return call->run_batch > WEFT__FEW_ROWS && !call->invariant;
}

// Elements from row to row of X in bf16: a power of two would put all rows into the same sets of a cache.
static inline int64_t weft__linear_bf16_stride(int64_t cols)
{
    return cols / 32 * 32 + 64;
}

// Bytes of rows of X that tiles of AMX find in the second-level cache.
enum { WEFT__TILED_X_BYTES = 1280 * 1024 };

// Do tiles of AMX take 16-bit weights in short chunks of columns? Where the rows of X of a run do not stay in the second-level
// cache; and where W has next to no rows, so that random problems reach that text. Sums are others, so tasks must not decide.
static inline bool weft__linear_in_shorts(int64_t x_bf16_stride, int32_t run_batch, int64_t rows)
{
    const int64_t longest = 1 << 16; // more would be too many sums
    return x_bf16_stride <= longest &&
           (2 * x_bf16_stride * run_batch > WEFT__TILED_X_BYTES || (rows < 384 && run_batch > 192));
}

// Columns that a sum of its own covers, where a lane adds once per `step` columns (a power of two): in a
// single long f32 sum small products drown in a large one. A sum has at most 1.5 sqrt(cols) additions a
// lane, and there are at most 1.4 sqrt(cols) / step sums: together with the few roundings of a product and
// of the sum across lanes they stay below the 2 sqrt(cols) that linear.h promises, for rows of any length.
static inline int64_t weft__linear_chunk(int64_t cols, int64_t step)
{
    int64_t additions = 8;
    while (cols / (16 * additions) * 9 >= additions)
        additions *= 2;
    return additions * step;
}

// Stores what a kernel computed for one output.
static inline void weft__linear_store(const struct weft__linear_call *call, int32_t batch_row,
                                      int64_t row, float dot)
{
    float value = call->alpha * dot;
    if (call->x_scale)
        value *= call->x_scale[batch_row];
    if (call->bias)
        value += call->bias[row];
    if (call->residual)
        value += call->residual[batch_row * call->residual_stride + row];
    call->y[batch_row * call->y_stride + row] = value;
}

#endif
