// SPDX-License-Identifier: MIT
// A stand-in for cuBLASLt (WEFT_CUDA_CUBLASLT): products on memory of the host, in the order of the stream. A
// descriptor is a few words; an algorithm is the number of rows of X that it was chosen for.
#include <stdlib.h>

#include "src/backend/cuda/cuda_blaslt.h"
#include "src/base/half.h"
#include "tests/support/standin/standin_inside.h"

#define DECLARE(result, member, symbol, parameters) EXPORT result symbol parameters;
WEFT__CUBLASLT_MAP(DECLARE)
#undef DECLARE

struct cublasLtContext {
    int unused;
};

enum { TYPE, ROWS, COLS, STRIDE }; // words of a layout
enum { COMPUTE, TRANSPOSED };      // of a descriptor
enum { SCHEME, WORKSPACE, ALIGN }; // of a preference; ALIGN and three more
enum { WANTED_WORKSPACE = 1 << 16 };

size_t cublasLtGetVersion(void)
{
    const char *version = getenv("STANDIN_CUBLASLT_VERSION");
    return version ? (size_t)atoi(version) : 130100;
}

const char *cublasLtGetStatusName(int status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                 : "CUBLAS_STATUS_OF_STANDIN";
}

int cublasLtCreate(cublasLtHandle_t *handle)
{
    if (!standin_has_context() || standin.blas_fails_create)
        return 1;
    *handle = calloc(1, sizeof **handle);
    standin.live_blas++;
    return CUBLAS_STATUS_SUCCESS;
}

int cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    standin.live_blas--;
    return CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatmulDescInit_internal(cublasLtMatmulDesc *desc, size_t bytes, int compute, int scale)
{
    if (bytes != sizeof *desc || scale != CUDA_R_32F)
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(desc, 0, sizeof *desc);
    desc->data[COMPUTE] = (uint64_t)compute;
    return CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc *desc, int attribute, const void *value,
                                   size_t bytes)
{
    int32_t number;
    if (attribute != CUBLASLT_MATMUL_DESC_TRANSA || bytes != sizeof number)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&number, value, sizeof number);
    desc->data[TRANSPOSED] = number == CUBLAS_OP_T;
    return CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout *layout, size_t bytes, int type,
                                      uint64_t rows, uint64_t cols, int64_t stride)
{
    if (bytes != sizeof *layout || stride < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout = (cublasLtMatrixLayout){{(uint64_t)type, rows, cols, (uint64_t)stride}};
    return CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference *preference, size_t bytes)
{
    if (bytes != sizeof *preference)
        return CUBLAS_STATUS_INVALID_VALUE;
    *preference = (cublasLtMatmulPreference){{7, 0, 256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference *preference, int attribute,
                                         const void *value, size_t bytes)
{
    const int align = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    uint32_t word = 0;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8) {
        memcpy(&preference->data[WORKSPACE], value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (bytes != sizeof word ||
        (attribute != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && (align < 0 || align > 3)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&word, value, bytes);
    preference->data[align >= 0 && align < 4 ? ALIGN + align : SCHEME] = word;
    return CUBLAS_STATUS_SUCCESS;
}

static size_t bytes_of(uint64_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

// Is that a product the library would take: columns of W and X of one length, rows at multiples of 16 bytes?
static bool fit(const cublasLtMatmulDesc *desc, const cublasLtMatrixLayout *a,
                const cublasLtMatrixLayout *b, const cublasLtMatrixLayout *c,
                const cublasLtMatrixLayout *d)
{
    const cublasLtMatrixLayout *all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if (all[i]->data[STRIDE] * bytes_of(all[i]->data[TYPE]) % 16 != 0)
            return false;
    return desc->data[COMPUTE] == CUBLAS_COMPUTE_32F && desc->data[TRANSPOSED] &&
           a->data[ROWS] == b->data[ROWS] && a->data[COLS] == d->data[ROWS] &&
           b->data[COLS] == d->data[COLS] && c->data[ROWS] == d->data[ROWS] &&
           c->data[COLS] == d->data[COLS] && a->data[TYPE] == b->data[TYPE] &&
           c->data[TYPE] == d->data[TYPE] && a->data[TYPE] != CUDA_R_32F &&
           (d->data[TYPE] == CUDA_R_32F || d->data[TYPE] == a->data[TYPE]);
}

int cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc *desc,
                                   cublasLtMatrixLayout *a, cublasLtMatrixLayout *b,
                                   cublasLtMatrixLayout *c, cublasLtMatrixLayout *d,
                                   cublasLtMatmulPreference *preference, int most,
                                   cublasLtMatmulHeuristicResult *results, int *count)
{
    (void)handle;
    standin.blas_asked++;
    if (preference->data[SCHEME] & 5 || preference->data[WORKSPACE] < WANTED_WORKSPACE)
        return CUBLAS_STATUS_INVALID_VALUE;
    *count = 0;
    if (standin.blas_finds_nothing || !fit(desc, a, b, c, d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    // the first cannot write elsewhere than where C is
    for (; *count < 2 && *count < most; ++*count)
        results[*count] = (cublasLtMatmulHeuristicResult){
            .algo = {{b->data[COLS], (uint64_t)*count}}, .workspace_bytes = WANTED_WORKSPACE};
    return CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc *desc,
                            cublasLtMatrixLayout *a, cublasLtMatrixLayout *b,
                            cublasLtMatrixLayout *c, cublasLtMatrixLayout *d,
                            const cublasLtMatmulAlgo *algo, cublasLtMatmulHeuristicResult *result)
{
    (void)handle;
    (void)algo;
    result->workspace_bytes = WANTED_WORKSPACE;
    return fit(desc, a, b, c, d) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

int cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo *algo, int attribute, void *value,
                                      size_t bytes, size_t *written)
{
    const int32_t apart = algo->data[1] != 0;
    if (attribute != CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT || bytes != sizeof apart)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &apart, sizeof apart);
    *written = sizeof apart;
    return CUBLAS_STATUS_SUCCESS;
}

static float load(const void *from, uint64_t type, uint64_t at)
{
    if (type == CUDA_R_32F)
        return ((const float *)from)[at];
    const uint16_t bits = ((const uint16_t *)from)[at];
    return type == CUDA_R_16F ? weft__f16_to_f32(bits) : weft__bf16_to_f32(bits);
}

static void store(void *to, uint64_t type, uint64_t at, float value)
{
    if (type == CUDA_R_32F)
        ((float *)to)[at] = value;
    else
        ((uint16_t *)to)[at] =
            type == CUDA_R_16F ? weft__f16_from_f32(value) : weft__bf16_from_f32(value);
}

void standin_multiply(const struct standin_product *p)
{
    const uint64_t *a = p->a_layout, *b = p->b_layout, *c = p->c_layout, *d = p->d_layout;
    for (uint64_t n = 0; n < d[COLS]; n++)
        for (uint64_t m = 0; m < d[ROWS]; m++) {
            float sum = 0;
            for (uint64_t k = 0; k < a[ROWS]; k++)
                sum +=
                    load(p->a, a[TYPE], m * a[STRIDE] + k) * load(p->b, b[TYPE], n * b[STRIDE] + k);
            sum *= p->alpha;
            if (p->beta != 0)
                sum += p->beta * load(p->c, c[TYPE], n * c[STRIDE] + m);
            store(p->d, d[TYPE], n * d[STRIDE] + m, sum);
        }
    memset(p->workspace, 0xff, WANTED_WORKSPACE); // whoever has anything there loses it
}

static bool refuses(void)
{
    if (standin.blas_fails > 1)
        return standin.blas_fails--, false;
    return standin.blas_fails == 1;
}

int cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc *desc, const void *alpha,
                   const void *a, cublasLtMatrixLayout *a_layout, const void *b,
                   cublasLtMatrixLayout *b_layout, const void *beta, const void *c,
                   cublasLtMatrixLayout *c_layout, void *d, cublasLtMatrixLayout *d_layout,
                   const cublasLtMatmulAlgo *algo, void *workspace, size_t workspace_bytes,
                   CUstream stream)
{
    const uint64_t addresses = (uint64_t)(uintptr_t)a | (uint64_t)(uintptr_t)b |
                               (uint64_t)(uintptr_t)c | (uint64_t)(uintptr_t)d;
    if (!handle || !standin_has_context() || refuses() ||
        !fit(desc, a_layout, b_layout, c_layout, d_layout) || addresses % 16 != 0 ||
        (uintptr_t)workspace % 256 != 0 || workspace_bytes < WANTED_WORKSPACE ||
        (algo->data[1] == 0 && c != d) || d_layout->data[COLS] > algo->data[0])
        return CUBLAS_STATUS_NOT_SUPPORTED;
    struct standin_product product = {.a = a, .b = b, .c = c, .d = d, .workspace = workspace};
    memcpy(product.a_layout, a_layout->data, sizeof product.a_layout);
    memcpy(product.b_layout, b_layout->data, sizeof product.b_layout);
    memcpy(product.c_layout, c_layout->data, sizeof product.c_layout);
    memcpy(product.d_layout, d_layout->data, sizeof product.d_layout);
    memcpy(&product.alpha, alpha, sizeof product.alpha);
    memcpy(&product.beta, beta, sizeof product.beta);
    return standin_submit_product(stream, &product) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : 13;
}
