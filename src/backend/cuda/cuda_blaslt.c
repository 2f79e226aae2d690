// SPDX-License-Identifier: MIT
#include "src/backend/cuda/cuda_blaslt.h"

#include <stdio.h>
#include <string.h>

#include "src/backend/cuda/cuda_context.h"
#include "src/backend/cuda/cuda_library.h"
#include "src/base/memory.h"

enum {
    LEAST_VERSION = 120000, // kernels for compute capability 9.0
    ALIGN_BYTES = 16,       // of every matrix and its rows
    MOST_RESULTS = 8,       // that are looked through for one that serves
    FIRST_SIZE = 16,
    LAST_SIZE = 8192, // longer batches have one algorithm
};
static const uint64_t most_workspace = (uint64_t)32 << 20;

static struct weft__cuda_cublaslt library;
static char library_why[256];
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                        "/usr/local/cuda/lib64/libcublasLt.so", NULL};
    static const struct weft__library which = {
        "WEFT_CUDA_CUBLASLT", names, "cuBLASLt, NVIDIA's library of large products",
        "install it (package libcublas or the CUDA toolkit), or add its folder to LD_LIBRARY_PATH"};
    static const struct weft__symbol symbols[] = {
#define SYMBOL(result, member, symbol, parameters)                                                 \
    {#symbol, offsetof(struct weft__cuda_cublaslt, member)},
        WEFT__CUBLASLT_MAP(SYMBOL)
#undef SYMBOL
    };
    if (!weft__cuda_library_open(&which, symbols, sizeof symbols / sizeof *symbols, &library,
                                 library_why))
        return;
    const size_t version = library.version();
    if (version < LEAST_VERSION)
        snprintf(library_why, sizeof library_why,
                 "cuBLASLt is version %zu.%zu: it is too old, update it to 12 or newer",
                 version / 10000, version / 100 % 100);
}

const struct weft__cuda_cublaslt *weft__cuda_cublaslt(const char **why)
{
    pthread_once(&library_once, open_library);
    *why = library_why;
    return *library_why ? NULL : &library;
}

void weft__cuda_blas_open(struct weft__cuda *cuda)
{
    pthread_mutex_init(&cuda->blas.lock, NULL);
}

void weft__cuda_blas_close(struct weft__cuda *cuda)
{
    while (cuda->blas.first) {
        struct weft__cuda_blas_product *product = cuda->blas.first;
        cuda->blas.first = product->next;
        weft__base_release(NULL, product);
    }
    if (cuda->blas.handle)
        library.destroy(cuda->blas.handle);
    pthread_mutex_destroy(&cuda->blas.lock);
}

// Holds the lock.
static bool start(struct weft__cuda *cuda, const char **why)
{
    struct weft__cuda_blas *blas = &cuda->blas;
    *why = blas->why;
    if (blas->handle || blas->failed)
        return !blas->failed;
    const char *missing;
    blas->failed = true;
    if (!weft__cuda_cublaslt(&missing)) {
        snprintf(blas->why, sizeof blas->why, "%s", missing);
        return false;
    }
    bool entered = weft__cuda_enter(cuda);
    const int status = library.create(&blas->handle);
    weft__cuda_leave(cuda, entered);
    blas->failed = status != CUBLAS_STATUS_SUCCESS;
    if (blas->failed) {
        blas->handle = NULL;
        snprintf(blas->why, sizeof blas->why, "cuBLASLt does not start: %s",
                 library.status_name(status));
    }
    return !blas->failed;
}

bool weft__cuda_blas_usable(struct weft__cuda *cuda, const char **why)
{
    pthread_mutex_lock(&cuda->blas.lock);
    const bool usable = start(cuda, why);
    pthread_mutex_unlock(&cuda->blas.lock);
    return usable;
}

static int type_of(weft_dtype dtype)
{
    return dtype == WEFT_F16 ? CUDA_R_16F : dtype == WEFT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

// W and X, whose rows are columns of the library's matrices; C and Y.
struct layouts {
    cublasLtMatrixLayout w, x, c, y;
};

static int describe(const struct weft__cuda_product *wish,
                    const struct weft__cuda_product_call *call, struct layouts *l)
{
    const uint64_t rows = (uint64_t)(call->rows ? call->rows : wish->rows),
                   cols = (uint64_t)wish->cols, batch = (uint64_t)call->batch;
    const int type = type_of(wish->dtype), result = type_of(wish->result);
    int status = library.layout_init(&l->w, sizeof l->w, type, cols, rows, call->w_stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = library.layout_init(&l->x, sizeof l->x, type, cols, batch, call->x_stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = library.layout_init(&l->c, sizeof l->c, result, rows, batch, call->c_stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = library.layout_init(&l->y, sizeof l->y, result, rows, batch, call->y_stride);
    return status;
}

static int prefer(cublasLtMatmulPreference *preference)
{
    const uint32_t align = ALIGN_BYTES, scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    int status = library.preference_init(preference, sizeof *preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = library.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                        &most_workspace, sizeof most_workspace);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = library.preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                        &scheme, sizeof scheme);
    for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status = library.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i,
                                        &align, sizeof align);
    return status;
}

// Rows as close as runs may have them; or a gap behind each, so that they begin at multiples of 16 bytes and of
// no more.
static struct weft__cuda_product_call call_of(const struct weft__cuda_product *wish, int32_t batch,
                                              bool gaps)
{
    const int64_t narrow = gaps ? wish->cols + (wish->cols % 16 ? 0 : 8) : wish->cols;
    const int64_t y = (wish->rows + 7) / 8 * 8, unit = wish->result == WEFT_F32 ? 4 : 8;
    const int64_t wide = gaps ? y + (y % (2 * unit) ? 0 : unit) : y;
    return (struct weft__cuda_product_call){
        .w_stride = narrow, .x_stride = narrow, .c_stride = wide, .y_stride = wide, .batch = batch};
}

// May it write elsewhere than where C is?
static bool writes_apart(const cublasLtMatmulAlgo *algo)
{
    int32_t apart = 0;
    size_t written = 0;
    return library.capability(algo, CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, &apart,
                              sizeof apart, &written) == CUBLAS_STATUS_SUCCESS &&
           apart != 0;
}

// Does what the heuristics found serve runs of that many rows of X and of W?
static bool suits(struct weft__cuda *cuda, struct weft__cuda_blas_product *product,
                  const cublasLtMatmulHeuristicResult *found, int32_t batch, int64_t rows,
                  bool gaps)
{
    struct weft__cuda_product_call call = call_of(&product->wish, batch, gaps);
    cublasLtMatmulHeuristicResult checked = {.workspace_bytes = 0};
    struct layouts l;
    call.rows = (int32_t)rows;
    return found->workspace_bytes <= most_workspace &&
           describe(&product->wish, &call, &l) == CUBLAS_STATUS_SUCCESS &&
           library.check(cuda->blas.handle, &product->desc, &l.w, &l.x, &l.c, &l.y, &found->algo,
                         &checked) == CUBLAS_STATUS_SUCCESS &&
           checked.workspace_bytes <= most_workspace;
}

// Asks for runs of `least` to `most` rows of X; false if there is nothing. The best that serves all of them and writes
// apart; else what the heuristics like best, which a run may find refused.
static bool find(struct weft__cuda *cuda, struct weft__cuda_blas_product *product, int32_t least,
                 int32_t most, int32_t ask, bool gaps, cublasLtMatmulAlgo *found)
{
    const struct weft__cuda_product_call call = call_of(&product->wish, ask, gaps);
    cublasLtMatmulHeuristicResult results[MOST_RESULTS];
    cublasLtMatmulPreference preference;
    struct layouts l;
    int count = 0, best = -1;
    if (describe(&product->wish, &call, &l) != CUBLAS_STATUS_SUCCESS ||
        prefer(&preference) != CUBLAS_STATUS_SUCCESS ||
        library.heuristic(cuda->blas.handle, &product->desc, &l.w, &l.x, &l.c, &l.y, &preference,
                          MOST_RESULTS, results, &count) != CUBLAS_STATUS_SUCCESS)
        return false;
    for (int i = 0; i < count && best < 0; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS && writes_apart(&results[i].algo) &&
            suits(cuda, product, &results[i], least, 0, gaps) &&
            suits(cuda, product, &results[i], most, 0, gaps) &&
            suits(cuda, product, &results[i], most, product->wish.last_rows, gaps))
            best = i;
    for (int i = 0; i < count && best < 0; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS &&
            results[i].workspace_bytes <= most_workspace)
            best = i;
    if (best < 0)
        return false;
    *found = results[best].algo;
    product->apart = product->apart && writes_apart(found);
    if (results[best].workspace_bytes > product->workspace_bytes)
        product->workspace_bytes = results[best].workspace_bytes;
    return true;
}

static bool add_size(struct weft__cuda *cuda, struct weft__cuda_blas_product *product,
                     int32_t least, int32_t most, int32_t ask)
{
    const int32_t i = product->num_sizes;
    if (!find(cuda, product, least, most, ask, false, &product->algos[i]))
        return false;
    if (!find(cuda, product, least, most, ask, true, &product->spare[i]))
        product->spare[i] = product->algos[i];
    product->most[i] = most;
    product->num_sizes++;
    return true;
}

// 16, 24, 32, 48, 64, ... rows of X, as far as runs go.
static bool add_sizes(struct weft__cuda *cuda, struct weft__cuda_blas_product *product)
{
    const struct weft__cuda_product *wish = &product->wish;
    int32_t least = wish->least_batch;
    for (int32_t size = FIRST_SIZE; least <= wish->most_batch;
         size += size & (size - 1) ? size / 3 : size / 2) {
        const int32_t most = size >= LAST_SIZE || size > wish->most_batch ? wish->most_batch : size;
        if (most < least)
            continue;
        if (!add_size(cuda, product, least, most, size < most ? size : most))
            return false;
        least = most + 1;
        if (most == wish->most_batch)
            break;
    }
    return true;
}

static bool same(const struct weft__cuda_product *a, const struct weft__cuda_product *b)
{
    return a->dtype == b->dtype && a->result == b->result && a->rows == b->rows &&
           a->cols == b->cols && a->last_rows == b->last_rows && a->least_batch == b->least_batch &&
           a->most_batch == b->most_batch;
}

static const struct weft__cuda_blas_product *
make(struct weft__cuda *cuda, const struct weft__cuda_product *wish, const char **why)
{
    const int32_t transposed = CUBLAS_OP_T;
    struct weft__cuda_blas_product *product = weft__base_allocate(NULL, sizeof *product);
    *why = "no memory for a product of cuBLASLt";
    if (!product)
        return NULL;
    memset(product, 0, sizeof *product);
    product->wish = *wish;
    product->apart = true;
    *why = "cuBLASLt has nothing for this shape";
    bool entered = weft__cuda_enter(cuda);
    const bool found = library.desc_init(&product->desc, sizeof product->desc, CUBLAS_COMPUTE_32F,
                                         CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
                       library.desc_set(&product->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                        sizeof transposed) == CUBLAS_STATUS_SUCCESS &&
                       add_sizes(cuda, product);
    weft__cuda_leave(cuda, entered);
    if (!found) {
        weft__base_release(NULL, product);
        return NULL;
    }
    product->next = cuda->blas.first;
    cuda->blas.first = product;
    return product;
}

const struct weft__cuda_blas_product *weft__cuda_blas_want(struct weft__cuda *cuda,
                                                           const struct weft__cuda_product *wish,
                                                           const char **why)
{
    const struct weft__cuda_blas_product *product = NULL;
    pthread_mutex_lock(&cuda->blas.lock);
    if (start(cuda, why)) {
        product = cuda->blas.first;
        while (product && !same(&product->wish, wish))
            product = product->next;
        if (!product)
            product = make(cuda, wish, why);
    }
    pthread_mutex_unlock(&cuda->blas.lock);
    return product;
}

static bool has_gaps(const struct weft__cuda_product *wish,
                     const struct weft__cuda_product_call *call)
{
    const struct weft__cuda_product_call packed = call_of(wish, call->batch, false);
    const int64_t odd = (call->w_stride - packed.w_stride) | (call->x_stride - packed.x_stride) |
                        (call->y_stride - packed.y_stride) | (call->c_stride - packed.c_stride);
    const uint64_t addresses = (uint64_t)(uintptr_t)call->w | (uint64_t)(uintptr_t)call->x |
                               (uint64_t)(uintptr_t)call->y | (uint64_t)(uintptr_t)call->c;
    return odd % 64 != 0 || addresses % 64 != 0;
}

int weft__cuda_blas_run(struct weft__cuda *cuda, const struct weft__cuda_blas_product *product,
                        const struct weft__cuda_product_call *call, CUstream stream)
{
    struct layouts l;
    cublasLtMatmulDesc desc = product->desc;
    int32_t which = 0;
    while (which + 1 < product->num_sizes && call->batch > product->most[which])
        which++;
    const int status = describe(&product->wish, call, &l);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    atomic_fetch_add_explicit(&cuda->counters.launches, 1, memory_order_relaxed);
    const cublasLtMatmulAlgo *spare = &product->spare[which];
    const bool gaps = has_gaps(&product->wish, call);
#define MULTIPLY(algo)                                                                             \
    library.matmul(cuda->blas.handle, &desc, &call->alpha, call->w, &l.w, call->x, &l.x,           \
                   &call->beta, call->c, &l.c, call->y, &l.y, algo, call->workspace,               \
                   product->workspace_bytes, stream)
    const int refused = MULTIPLY(gaps ? spare : &product->algos[which]);
    // nothing has been launched then
    return (refused == CUBLAS_STATUS_NOT_SUPPORTED || refused == CUBLAS_STATUS_INVALID_VALUE) &&
                   !gaps
               ? MULTIPLY(spare)
               : refused;
#undef MULTIPLY
}

const char *weft__cuda_blas_status(int status)
{
    return library.status_name(status);
}

void weft__cuda_blas_describe(const struct weft__cuda_blas_product *product, char *text,
                              size_t bytes)
{
    const size_t version = library.version();
    const int at =
        snprintf(text, bytes, ", cuBLASLt %zu.%zu", version / 10000, version / 100 % 100);
    if (product->wish.least_batch > 1)
        snprintf(text + at, bytes - (size_t)at, " from %d rows of X on", product->wish.least_batch);
}
