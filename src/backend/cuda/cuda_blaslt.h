// SPDX-License-Identifier: MIT
// cuBLASLt, for large products of 16-bit numbers: opened when a plan first wants one, and not missed where it is not.
//
//      want   once per plan: shape, formats, most rows of X --> algorithms for sizes of the batch, workspace; kept by the
//             context, so that the layers of a model ask its heuristics once
//      run    descriptors on the stack, one call: no allocation, nothing that waits; it may be captured
//
// Results are the same in every run: what is chosen has no partial sums, and the workspace is the caller's,
// which is what NVIDIA asks for it.
//
// Source: the cuBLAS reference of NVIDIA; values and sizes are part of its ABI.
#ifndef WEFT_BACKEND_CUDA_BLASLT_H
#define WEFT_BACKEND_CUDA_BLASLT_H

#include <pthread.h>

#include "src/backend/cuda/cuda_driver.h"
#include "src/kernels/cuda/launch.h"

enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_OP_T = 1,
    CUDA_R_32F = 0,
    CUDA_R_16F = 2,
    CUDA_R_16BF = 14,
};
enum {
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, // and B, C, D
    CUBLASLT_REDUCTION_SCHEME_NONE = 0,
    CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT = 4,
};

typedef struct cublasLtContext *cublasLtHandle_t;
// Sizes of version 13; an older library wants no more, and each is told how much it has.
typedef struct cublasLtMatmulDesc {
    uint64_t data[32];
} cublasLtMatmulDesc;
typedef struct cublasLtMatrixLayout {
    uint64_t data[8];
} cublasLtMatrixLayout;
typedef struct cublasLtMatmulPreference {
    uint64_t data[8];
} cublasLtMatmulPreference;
typedef struct cublasLtMatmulAlgo {
    uint64_t data[8];
} cublasLtMatmulAlgo;
typedef struct cublasLtMatmulHeuristicResult {
    cublasLtMatmulAlgo algo;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} cublasLtMatmulHeuristicResult;
_Static_assert(sizeof(cublasLtMatmulHeuristicResult) == 96, "as in cublasLt.h");

// X(result, member, symbol, parameters). Matrices are those of the library: columns one behind the other.
#define WEFT__CUBLASLT_MAP(X)                                                                      \
    X(size_t, version, cublasLtGetVersion, (void))                                                 \
    X(const char *, status_name, cublasLtGetStatusName, (int status))                              \
    X(int, create, cublasLtCreate, (cublasLtHandle_t * handle))                                    \
    X(int, destroy, cublasLtDestroy, (cublasLtHandle_t handle))                                    \
    X(int, desc_init, cublasLtMatmulDescInit_internal,                                             \
      (cublasLtMatmulDesc * desc, size_t bytes, int compute, int scale))                           \
    X(int, desc_set, cublasLtMatmulDescSetAttribute,                                               \
      (cublasLtMatmulDesc * desc, int attribute, const void *value, size_t bytes))                 \
    X(int, layout_init, cublasLtMatrixLayoutInit_internal,                                         \
      (cublasLtMatrixLayout * layout, size_t bytes, int type, uint64_t rows, uint64_t cols,        \
       int64_t stride))                                                                            \
    X(int, preference_init, cublasLtMatmulPreferenceInit_internal,                                 \
      (cublasLtMatmulPreference * preference, size_t bytes))                                       \
    X(int, preference_set, cublasLtMatmulPreferenceSetAttribute,                                   \
      (cublasLtMatmulPreference * preference, int attribute, const void *value, size_t bytes))     \
    X(int, heuristic, cublasLtMatmulAlgoGetHeuristic,                                              \
      (cublasLtHandle_t handle, cublasLtMatmulDesc * desc, cublasLtMatrixLayout * a,               \
       cublasLtMatrixLayout * b, cublasLtMatrixLayout * c, cublasLtMatrixLayout * d,               \
       cublasLtMatmulPreference * preference, int most, cublasLtMatmulHeuristicResult *results,    \
       int *count))                                                                                \
    X(int, check, cublasLtMatmulAlgoCheck,                                                         \
      (cublasLtHandle_t handle, cublasLtMatmulDesc * desc, cublasLtMatrixLayout * a,               \
       cublasLtMatrixLayout * b, cublasLtMatrixLayout * c, cublasLtMatrixLayout * d,               \
       const cublasLtMatmulAlgo *algo, cublasLtMatmulHeuristicResult *result))                     \
    X(int, capability, cublasLtMatmulAlgoCapGetAttribute,                                          \
      (const cublasLtMatmulAlgo *algo, int attribute, void *value, size_t bytes, size_t *written)) \
    X(int, matmul, cublasLtMatmul,                                                                 \
      (cublasLtHandle_t handle, cublasLtMatmulDesc * desc, const void *alpha, const void *a,       \
       cublasLtMatrixLayout *a_layout, const void *b, cublasLtMatrixLayout *b_layout,              \
       const void *beta, const void *c, cublasLtMatrixLayout *c_layout, void *d,                   \
       cublasLtMatrixLayout *d_layout, const cublasLtMatmulAlgo *algo, void *workspace,            \
       size_t workspace_bytes, CUstream stream))

struct weft__cuda_cublaslt {
#define WEFT__CUBLASLT_MEMBER(result, member, symbol, parameters) result(*member) parameters;
    WEFT__CUBLASLT_MAP(WEFT__CUBLASLT_MEMBER)
};

// The library, opened once per process; NULL when it is missing or too old, *why then one line.
// WEFT_CUDA_CUBLASLT names another file than libcublasLt.so.
const struct weft__cuda_cublaslt *weft__cuda_cublaslt(const char **why);

// A product of a shape, as the library makes it.
enum { WEFT__CUDA_BLAS_SIZES = 20 };
struct weft__cuda_blas_product {
    struct weft__cuda_product wish;
    cublasLtMatmulDesc desc;
    int32_t num_sizes;
    int32_t most[WEFT__CUDA_BLAS_SIZES]; // rows of X up to which an algorithm is for; rising
    // for matrices without gaps between their rows, and for any rows at multiples of 16 bytes
    cublasLtMatmulAlgo algos[WEFT__CUDA_BLAS_SIZES], spare[WEFT__CUDA_BLAS_SIZES];
    size_t workspace_bytes;
    bool apart; // C may be elsewhere than Y
    struct weft__cuda_blas_product *next;
};

// Of a context.
struct weft__cuda_blas {
    pthread_mutex_t lock;
    cublasLtHandle_t handle; // NULL: not wanted yet, or it did not start
    bool failed;
    char why[256];
    struct weft__cuda_blas_product *first;
};

struct weft__cuda;
void weft__cuda_blas_open(struct weft__cuda *cuda);
void weft__cuda_blas_close(struct weft__cuda *cuda);

// Is there a library that starts on this device? If not, *why says what is missing.
bool weft__cuda_blas_usable(struct weft__cuda *cuda, const char **why);

// The product for a wish, or NULL after *why has been pointed to one line.
const struct weft__cuda_blas_product *weft__cuda_blas_want(struct weft__cuda *cuda,
                                                           const struct weft__cuda_product *wish,
                                                           const char **why);

// Runs it: 0, or the library's status.
int weft__cuda_blas_run(struct weft__cuda *cuda, const struct weft__cuda_blas_product *product,
                        const struct weft__cuda_product_call *call, CUstream stream);

const char *weft__cuda_blas_status(int status); // in a word

// What weft_plan_describe() says of it: ", cuBLASLt 13.1 from 192 rows of X on".
void weft__cuda_blas_describe(const struct weft__cuda_blas_product *product, char *text,
                              size_t bytes);

#endif
