// SPDX-License-Identifier: MIT
// How an operation tells the CUDA backend what to run, without knowing the driver. C only; device text
// does not include it.
//
// An operation's CUDA side is pure arithmetic in two steps (src/kernels/<op>/<op>_cuda.c):
//
//   plan    once per plan: descriptor + limits of the device -> kernels to compile (text, function,
//           function constants), workspace, name; and the operation's own launch data
//   steps   once per run: launch data + arguments -> an ordered list of launches, each with its grid
//           and the bytes of its argument struct
//
// The backend compiles, caches, checks and launches. A kernel is an extern "C" __global__ function of
// one parameter, a plain struct by value, declared in src/kernels/<op>/<op>_device.h with fixed-width
// types only; pointers in it are device pointers.
#ifndef WEFT_KERNELS_CUDA_LAUNCH_H
#define WEFT_KERNELS_CUDA_LAUNCH_H

#include <stdatomic.h>
#include <stddef.h>

#include <weft/tuning.h>

#include "src/kernels/kernel.h"

// What the arithmetic may know of a device.
struct weft__cuda_limits {
    int32_t sm;               // compute capability, 80, 86, 89, 90, 120
    int32_t num_sms;          // multiprocessors
    int32_t shared_per_block; // dynamic shared memory a block may ask for (opt-in)
    int32_t shared_per_sm;    // bytes
    int32_t registers_per_sm; // 32-bit
    int32_t threads_per_sm;   // resident at most
    int64_t l2_bytes;
};

// Levels of rows: what a kernel's text needs. A row's `level` in src/kernels/<op>/<op>_cuda.def.
enum weft__cuda_level {
    WEFT__CUDA_sm80 = 80,  // mma.sync, cp.async: every device from compute capability 8.0 on
    WEFT__CUDA_sm90a = 90, // wgmma, TMA: compute capability 9.0 alone
    WEFT__CUDA_cublaslt =
        1000, // no text: products that cuBLASLt makes, from compute capability 8.0 on
};

static inline bool weft__cuda_fits(const struct weft__cuda_limits *limits,
                                   const struct weft__kernel *row)
{
    return row->level == WEFT__CUDA_sm90a      ? limits->sm == 90
           : row->level == WEFT__CUDA_cublaslt ? limits->sm >= WEFT__CUDA_sm80
                                               : limits->sm >= row->level;
}

// Function constants: compile-time numbers of a kernel, -DNAME=value each; 0 means a run-time value.
// One list generates the struct, the names (and with them the options, the cache key and the log name):
//
//   #define NORM_CONSTANTS(X) X(WEFT_DIM) X(WEFT_X_DTYPE)
//   WEFT__CUDA_CONSTANTS(norm, NORM_CONSTANTS)
//   ... struct weft__norm_constants c = {.WEFT_DIM = 4096};
//   weft__cuda_want(choice, "src/kernels/norm/norm.cu", "weft_norm", WEFT__CUDA_VALUES(norm, c));
#define WEFT__CUDA_CONSTANT_MEMBER(name) int32_t name;
#define WEFT__CUDA_CONSTANT_NAME(name)   #name,
#define WEFT__CUDA_CONSTANTS(kernel, LIST)                                                         \
    struct weft__##kernel##_constants {                                                            \
        LIST(WEFT__CUDA_CONSTANT_MEMBER)                                                           \
    };                                                                                             \
    static const char *const weft__##kernel##_constant_names[] = {LIST(WEFT__CUDA_CONSTANT_NAME)};
#define WEFT__CUDA_VALUES(kernel, values)                                                          \
    weft__##kernel##_constant_names, (const int32_t *)(const void *)&(values),                     \
        (int32_t)(sizeof(values) / sizeof(int32_t))

enum {
    WEFT__CUDA_MAX_CONSTANTS = 29, // of a kernel
    WEFT__CUDA_MAX_KERNELS = 48,   // of a plan
    WEFT__CUDA_MAX_STEPS = 24,     // of a run
    WEFT__CUDA_MAX_MATRICES = 2,   // of a launch
    WEFT__CUDA_MAX_PRODUCTS = 4,   // of a plan
    WEFT__CUDA_MAX_ARGS = 3968,    // bytes of an argument struct: what every driver takes is 4 KB
};

// A kernel to compile.
struct weft__cuda_kernel {
    const char *file;     // path of the text from the root of the tree
    const char *function; // its extern "C" name
    const char *const *names;
    int32_t values[WEFT__CUDA_MAX_CONSTANTS];
    int32_t num_constants;
    bool exact; // products and sums are not contracted: results to the bit as the host's
    bool lazy;  // compiled when it is first launched: few runs need it
};

// A product that a library (cuBLASLt) makes: Y[n][m] = alpha * sum_k X[n][k] W[m][k] + beta * C[n][m], W and X
// of 16-bit numbers, sums in f32. A plan says what it may want; the backend answers in `offer`.
struct weft__cuda_offer {
    _Atomic bool serves;  // until the library refuses a run
    bool apart;           // C may be elsewhere than Y
    int64_t workspace_at; // 256-byte aligned, behind what the operation asked for itself
};
struct weft__cuda_product {
    weft_dtype dtype;  // of W and X: f16 or bf16
    weft_dtype result; // of Y and C: f32, or dtype
    int64_t rows, cols;
    int64_t last_rows;               // a run may be of so many rows instead; 0: of none
    int32_t least_batch, most_batch; // rows of X
    bool needed;                     // asked for by name: no plan without it
    struct weft__cuda_offer *offer;  // a member of launch
};
// Of a run: addresses and strides are multiples of 16 bytes, strides in elements. C may be Y.
struct weft__cuda_product_call {
    const void *w, *x, *c;
    void *y, *workspace;
    int64_t w_stride, x_stride, c_stride, y_stride;
    float alpha, beta;
    int32_t batch;
    int32_t rows; // 0: the plan's
};

// What planning decides.
struct weft__cuda_choice {
    const struct weft__kernel *row; // of the operation's CUDA table: gives the plan its name
    struct weft__cuda_kernel kernels[WEFT__CUDA_MAX_KERNELS];
    int32_t num_kernels;
    struct weft__cuda_product products[WEFT__CUDA_MAX_PRODUCTS];
    int32_t num_products;
    size_t workspace_bytes;
    void *launch; // zeroed, launch_bytes of struct weft__cuda_op
    // A table that the kernels read: copied to the device for the plan's life, its address there stored
    // in *table_at (a member of launch). NULL: none. It must live until plan() has returned.
    const void *table;
    size_t table_bytes;
    const void **table_at;
    // Attention: queries are wanted in the format of the cache; single queries of a batch need no append before and no
    // rounding behind.
    bool narrow, fuses;
    // Linear: names of kernels that measurement prefers, by part; NULL or "": none.
    const char *tuned[4];
    const weft_tuning *attention; // what the machine's table says of such a plan, or NULL
    const char *device;           // its name, or NULL
    char text[160]; // on success what weft_plan_describe() says after "op: kernel"; else the reason
};

// A matrix of 16-bit numbers that a kernel has copied in boxes (sm_90), or piles of them: the backend writes its tensor
// map, 128 bytes, into the arguments. Boxes have 64 columns; what lies outside the matrix is zero in them.
struct weft__cuda_matrix {
    const void *base; // NULL: none. A multiple of 16 bytes, as are all strides
    int64_t rows, cols, stride_bytes;
    int64_t piles[2], pile_stride_bytes[2]; // of matrices, of piles of them; 0: there is but one
    uint32_t box_rows, box_matrices;        // of a pile, one behind the other in the box; 0: one
    bool swizzled; // 16 bytes at place i of row n of the box stand at place i ^ (n % 8)
    uint32_t at;   // of the map in the arguments, a multiple of 64
};

// A launch.
struct weft__cuda_step {
    int32_t kernel; // index into weft__cuda_choice.kernels
    // 0: none; else 1 + index into weft__cuda_choice.products: args is the call, no kernel is launched.
    int32_t product;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; // dynamic; above 48 KB the backend opts in
    uint32_t cluster;      // blocks of a cluster along x; 0 = none (sm_90 and newer)
    uint32_t overlap;      // 1: may start before the launch before it ends (griddepcontrol, sm_90)
    uint32_t cooperative;  // 1: all blocks run at the same time, or none
    uint32_t args_bytes;
    struct weft__cuda_matrix matrices[WEFT__CUDA_MAX_MATRICES];
    _Alignas(64) unsigned char args[WEFT__CUDA_MAX_ARGS];
};

// Returns WEFT_OK, or WEFT_EUNSUPPORTED, WEFT_EVARIANT, WEFT_EOVERFLOW with choice->text.
typedef weft_status weft__cuda_plan_fn(const void *desc, const struct weft__cuda_limits *limits,
                                       struct weft__cuda_choice *choice);

// Fills steps[0..WEFT__CUDA_MAX_STEPS) and returns how many. args is the operation's public struct,
// checked and settled, or what the backend makes of it (union weft__cuda_args). Cannot fail: what could go wrong is refused by the plan.
typedef int32_t weft__cuda_steps_fn(const void *launch, const void *args,
                                    struct weft__cuda_step *steps);

struct weft__cuda_op {
    const struct weft__kernel_table *table;
    size_t launch_bytes;
    weft__cuda_plan_fn *plan;
    weft__cuda_steps_fn *steps;
};

// The first row of a table that fits the device, bears the name `variant` (NULL: any) and serves the
// descriptor (serves NULL: all do). NULL after the reason has been written into choice->text; *status
// is then what plan() returns.
typedef bool weft__cuda_serves_fn(const struct weft__kernel *row, const void *desc);
const struct weft__kernel *weft__cuda_choose(const struct weft__kernel_table *table,
                                             const struct weft__cuda_limits *limits,
                                             const char *variant, weft__cuda_serves_fn *serves,
                                             const void *desc, struct weft__cuda_choice *choice,
                                             weft_status *status);

// Adds a kernel to a choice; returns its index. (More than WEFT__CUDA_MAX_KERNELS or _CONSTANTS is an
// error of the library; the last is overwritten then, and a test sees it.)
static inline int32_t weft__cuda_want(struct weft__cuda_choice *choice, const char *file,
                                      const char *function, const char *const *names,
                                      const int32_t *values, int32_t num_constants)
{
    int32_t index = choice->num_kernels < WEFT__CUDA_MAX_KERNELS ? choice->num_kernels++
                                                                 : WEFT__CUDA_MAX_KERNELS - 1;
    struct weft__cuda_kernel *kernel = &choice->kernels[index];
    *kernel = (struct weft__cuda_kernel){.file = file, .function = function, .names = names};
    kernel->num_constants =
        num_constants < WEFT__CUDA_MAX_CONSTANTS ? num_constants : WEFT__CUDA_MAX_CONSTANTS;
    memcpy(kernel->values, values, (size_t)kernel->num_constants * sizeof *values);
    return index;
}

// Starts a step: kernel, a grid along x and y, a block along x, and the argument struct.
static inline struct weft__cuda_step *weft__cuda_step(struct weft__cuda_step *step, int32_t kernel,
                                                      uint32_t grid_x, uint32_t grid_y,
                                                      uint32_t block_x, const void *args,
                                                      size_t args_bytes)
{
    step->kernel = kernel;
    step->product = 0;
    step->grid[0] = grid_x, step->grid[1] = grid_y, step->grid[2] = 1;
    step->block[0] = block_x, step->block[1] = step->block[2] = 1;
    step->shared_bytes = step->cluster = step->overlap = step->cooperative = 0;
    step->args_bytes = (uint32_t)args_bytes;
    for (int i = 0; i < WEFT__CUDA_MAX_MATRICES; i++)
        step->matrices[i].base = NULL;
    memcpy(step->args, args, args_bytes);
    return step;
}

// A step that is the product of that index.
static inline void weft__cuda_product_step(struct weft__cuda_step *step, int32_t product,
                                           const struct weft__cuda_product_call *call)
{
    weft__cuda_step(step, -1, 0, 0, 0, call, sizeof *call)->product = 1 + product;
}

#endif
