// SPDX-License-Identifier: MIT
//
// Products of one matrix in ggml-cuda whose weights are in no cache: a graph of one product over each of as many copies of the
// matrix as fill 1 GB, three at least. A line of JSON for each number of rows of X.
//
//     cc ggml_products.c -I ggml/include -lm -L BUILD/bin -lggml -lggml-base -lggml-cuda -o ggml_products
//     ./ggml_products q4_0 28672 4096 1 8
#define _POSIX_C_SOURCE 200809L
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cuda.h>
#include <ggml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define COLD_BYTES    ((size_t)1 << 30)
#define FEWEST_COPIES 3
#define REPLAYS       41
#define ROWS_MADE     64 // rows of numbers that are quantised; the matrix repeats them

struct products {
    ggml_backend_t backend;
    enum ggml_type type;
    int64_t rows, cols;
    const char *matrix;
    size_t matrix_bytes;
    int num_copies;
};

static enum ggml_type type_of(const char *name)
{
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        const char *known = ggml_type_name((enum ggml_type)type);
        if (known && strcasecmp(known, name) == 0)
            return (enum ggml_type)type;
    }
    fprintf(stderr, "ggml_products: ggml knows no type %s\n", name);
    exit(2);
}

static void *memory(size_t bytes)
{
    void *data = malloc(bytes);
    if (!data)
        fprintf(stderr, "ggml_products: no memory for %zu bytes\n", bytes), exit(1);
    return data;
}

// Numbers of about deviation one.
static float *numbers(size_t count)
{
    float *made = memory(count * sizeof *made);
    for (size_t i = 0; i < count; i++)
        made[i] = (float)((rand() + (double)rand() - rand() - rand()) / RAND_MAX / 0.577);
    return made;
}

static char *quantized(const struct products *products)
{
    const size_t some = ggml_row_size(products->type, products->cols) * ROWS_MADE;
    float *of = numbers((size_t)(ROWS_MADE * products->cols)),
          *importance = memory((size_t)products->cols * sizeof(float));
    for (int64_t i = 0; i < products->cols; i++)
        importance[i] = 1;
    char *matrix = memory(products->matrix_bytes + some);
    ggml_quantize_chunk(products->type, of, matrix, 0, ROWS_MADE, products->cols, importance);
    for (size_t at = some; at < products->matrix_bytes; at += some)
        memcpy(matrix + at, matrix, some);
    free(importance);
    free(of);
    return matrix;
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

// Microseconds of one product with `batch` rows of X: the median of the graph's replays.
static double measure(const struct products *products, int64_t batch)
{
    const int n = products->num_copies;
    struct ggml_init_params room = {ggml_tensor_overhead() * (size_t)(2 * n + 16) +
                                        ggml_graph_overhead_custom((size_t)n + 16, false),
                                    NULL, true};
    struct ggml_context *context = ggml_init(room);
    struct ggml_tensor **weights = memory((size_t)n * sizeof(struct ggml_tensor *));
    struct ggml_tensor *x = ggml_new_tensor_2d(context, GGML_TYPE_F32, products->cols, batch);
    struct ggml_cgraph *graph = ggml_new_graph_custom(context, (size_t)n + 16, false);
    for (int i = 0; i < n; i++) {
        weights[i] = ggml_new_tensor_2d(context, products->type, products->cols, products->rows);
        ggml_build_forward_expand(graph, ggml_mul_mat(context, weights[i], x));
    }
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, products->backend);
    if (!buffer)
        fprintf(stderr, "ggml_products: no memory on the device\n"), exit(1);
    for (int i = 0; i < n; i++)
        ggml_backend_tensor_set(weights[i], products->matrix, 0, products->matrix_bytes);
    float *of_x = numbers((size_t)(batch * products->cols));
    ggml_backend_tensor_set(x, of_x, 0, (size_t)(batch * products->cols) * sizeof *of_x);
    double us[REPLAYS];
    for (int i = 0; i < REPLAYS; i++) {
        ggml_backend_synchronize(products->backend);
        const double begun = now_us();
        ggml_backend_graph_compute(products->backend, graph);
        ggml_backend_synchronize(products->backend);
        us[i] = (now_us() - begun) / n;
    }
    qsort(us, REPLAYS, sizeof us[0], ascending);
    free(of_x);
    free(weights);
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return us[REPLAYS / 2];
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return fprintf(stderr, "usage: ggml_products TYPE ROWS COLS BATCH...\n"), 2;
    struct products products = {.backend = ggml_backend_cuda_init(0),
                                .type = type_of(argv[1]),
                                .rows = atoll(argv[2]),
                                .cols = atoll(argv[3])};
    if (!products.backend || products.rows <= 0 || products.cols <= 0)
        return fprintf(stderr, "ggml_products: no GPU, or no such matrix\n"), 1;
    products.matrix_bytes = ggml_row_size(products.type, products.cols) * (size_t)products.rows;
    products.num_copies = products.matrix_bytes * FEWEST_COPIES > COLD_BYTES
                              ? FEWEST_COPIES
                              : (int)(COLD_BYTES / products.matrix_bytes);
    products.matrix = quantized(&products);
    for (int a = 4; a < argc; a++) {
        const double us = measure(&products, atoll(argv[a]));
        printf("{\"peer\": \"ggml-cuda\", \"format\": \"%s\", \"rows\": %lld, \"cols\": %lld, "
               "\"batch\": %s, \"us_median\": %.2f}\n",
               argv[1], (long long)products.rows, (long long)products.cols, argv[a], us);
        fflush(stdout);
    }
    ggml_backend_free(products.backend);
}
