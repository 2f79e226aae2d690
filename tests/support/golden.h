// SPDX-License-Identifier: MIT
// Golden vectors: reads the safetensors files under tests/golden/.
//
// A file holds cases. The tensors of case "c" are named "c.<tensor>"; its parameters are a JSON
// object in the header's "__metadata__". tests/golden/README.md describes the files.
#ifndef WEFT_TESTS_SUPPORT_GOLDEN_H
#define WEFT_TESTS_SUPPORT_GOLDEN_H

#include <stddef.h>
#include <stdint.h>

#define GOLDEN_MAX_RANK 4

typedef enum golden_dtype {
    GOLDEN_U8,
    GOLDEN_I32,
    GOLDEN_I64,
    GOLDEN_F16,
    GOLDEN_BF16,
    GOLDEN_F32,
    GOLDEN_F64,
} golden_dtype;

typedef struct golden_tensor {
    golden_dtype dtype;
    int rank;
    int64_t shape[GOLDEN_MAX_RANK]; // outermost first; 1 beyond the rank
    int64_t elements;
    size_t bytes;
    const void *data; // aligned for its type; lives as long as the file
} golden_tensor;

typedef struct golden golden;

// Opens "<golden directory>/path". A missing or malformed file ends the test program: golden files
// are part of the source.
golden *golden_open(const char *path);
void golden_close(golden *file);

// The n-th case in file order, or NULL past the last.
const char *golden_case(const golden *file, size_t n);

// Tensor "<case>.<name>", or NULL.
const golden_tensor *golden_find(const golden *file, const char *case_name, const char *name);

// The data of that tensor, which must exist and have this format.
const void *golden_data(const golden *file, const char *case_name, const char *name,
                        golden_dtype dtype);

// A parameter of the case. Numbers that are absent are `fallback`, texts that are absent "".
double golden_number(const golden *file, const char *case_name, const char *key, double fallback);
const char *golden_text(const golden *file, const char *case_name, const char *key);

#endif
