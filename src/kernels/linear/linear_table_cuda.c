// SPDX-License-Identifier: MIT
// The kernels of linear on CUDA by name (linear_cuda.def, linear_cuda_forms.def, formats.def).
#include "src/kernels/linear/linear_cuda.h"

static const struct weft__linear_kernel rows[] = {
#define X(format, name, activations, cuda_level)                                                   \
    {.base = {"linear", "linear_" name "_" #activations "_" #cuda_level, WEFT__CUDA_##cuda_level}, \
     .weight = WEFT_##format,                                                                      \
     .acts = WEFT__ACTS_##activations,                                                             \
     .row_step = 1,                                                                                \
     .max_batch = INT32_MAX,                                                                       \
     .groups = WEFT_##format >= WEFT_MLX_Q2_G32,                                                   \
     .planes = WEFT__CUDA_##cuda_level == WEFT__CUDA_cublaslt && WEFT_##format != WEFT_F16 &&      \
               WEFT_##format != WEFT_BF16},
#include "src/kernels/linear/linear_cuda.def"
#undef X
// by the name of a shape
#define FORM(format, name, activations, shape)                                                     \
    {.base = {"linear", "linear_" name "_" #activations "_" #shape "_sm80", WEFT__CUDA_sm80},      \
     .weight = WEFT_##format,                                                                      \
     .acts = WEFT__ACTS_##activations,                                                             \
     .row_step = 1,                                                                                \
     .max_batch = INT32_MAX,                                                                       \
     .groups = WEFT_##format >= WEFT_MLX_Q2_G32,                                                   \
     .form = WEFT__LINEAR_FORM_##shape},
#define X(format, name, activations)                                                               \
    FORM(format, name, activations, standard)                                                      \
    FORM(format, name, activations, large)                                                         \
    FORM(format, name, activations, wide) FORM(format, name, activations, batched)
#define WIDE(format, name, activations) FORM(format, name, activations, wide)
#include "src/kernels/linear/linear_cuda_forms.def"
#undef X
#undef WIDE
#undef FORM
// weights as a file has them (linear_rows.cu), of every format
#define ANY(ID, name, activations)                                                                 \
    {.base = {"linear", "linear_" name "_" #activations "_any_sm80", WEFT__CUDA_sm80},             \
     .weight = WEFT_##ID,                                                                          \
     .acts = WEFT__ACTS_##activations,                                                             \
     .row_step = 1,                                                                                \
     .max_batch = INT32_MAX,                                                                       \
     .planes = true},
// (activations are rounded for blocks, not for plain elements)
#define BLOCKS_1(...)
#define BLOCKS_32(...)  __VA_ARGS__
#define BLOCKS_64(...)  __VA_ARGS__
#define BLOCKS_128(...) __VA_ARGS__
#define BLOCKS_256(...) __VA_ARGS__
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    BLOCKS_##block_elems(ANY(ID, name, q8)) ANY(ID, name, f32)
#include <weft/formats.def>
#undef WEFT_FORMAT
};
const struct weft__kernel_table weft__linear_cuda_table = {"linear", rows, sizeof rows[0],
                                                           sizeof rows / sizeof rows[0]};
