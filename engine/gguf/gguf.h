// SPDX-License-Identifier: MIT
#ifndef ENGINE_GGUF_GGUF_H
#define ENGINE_GGUF_GGUF_H

// Reads GGUF files, versions 2 and 3, little-endian:
//
//   "GGUF" version:u32 tensor_count:u64 key_count:u64 | keys | tensor infos | padding | tensor data
//
// Everything is checked once, when the file is opened: afterwards every string, array and tensor that
// these functions hand out lies inside the file, and tensors do not overlap. Nothing is copied but names
// of tensors: strings, arrays and tensor data point into the mapping and live until gguf_close.
// A gguf_file is immutable once open; any number of threads may read it.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/gguf/ggml_type.h"

enum {
    GGUF_MAX_RANK = 4,
    GGUF_MAX_NAME_BYTES = 64,   // of a tensor's name
    GGUF_MAX_KEY_BYTES = 65535, // of a metadata key
    GGUF_MAX_KEYS = 1 << 16,    // real files have fewer than 100
    GGUF_MAX_TENSORS = 1 << 18, // real files have fewer than 10,000
    GGUF_MAX_FORMATS = 64,
    GGUF_MAX_UNKNOWN = 16,       // formats of one file that have no description
    GGUF_MAX_ARRAY_DEPTH = 4,    // arrays inside arrays
    GGUF_DEFAULT_ALIGNMENT = 32, // of the data section and of every tensor in it, in bytes
    GGUF_MIN_ALIGNMENT = 8,
    GGUF_MAX_ALIGNMENT = 64 * 1024,
};

typedef struct gguf_file gguf_file;

// Maps and checks the file. NULL on failure; the text of err then begins with the path of the file at
// fault. A model in several files (NAME-00001-of-00003.gguf, ...) is opened by its first: metadata is the
// first file's, tensors those of all.
gguf_file *gguf_open(const char *path, engine_error *err);

// The same for a file that is already in memory, which must start at a multiple of 8 bytes and stay there
// until gguf_close.
gguf_file *gguf_open_memory(const void *data, size_t size_bytes, engine_error *err);

// file may be NULL.
void gguf_close(gguf_file *file);

uint32_t gguf_version(const gguf_file *file);
size_t gguf_size_bytes(const gguf_file *file);   // of all parts together
uint32_t gguf_part_count(const gguf_file *file); // files that the model is in
size_t gguf_alignment(const gguf_file *file);

// Where the tensor data of the (first) file begins, in bytes from its start.
size_t gguf_data_offset(const gguf_file *file);

// --- metadata ---------------------------------------------------------------------------------------

// As stored in the file.
typedef enum gguf_value_type {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12,
    GGUF_VALUE_TYPE_COUNT = 13,
} gguf_value_type;

// "u8", "string", ...; "unknown" for a number that names no type.
const char *gguf_value_type_name(gguf_value_type type);

// Bytes in the file: not NUL-terminated, may be empty, may hold NUL or invalid UTF-8.
typedef struct gguf_string {
    const char *data;
    size_t size_bytes;
} gguf_string;

// The two arguments of "%.*s" that show at most 64 bytes of a string in a message.
#define GGUF_SHOWN(string) (int)((string).size_bytes < 64 ? (string).size_bytes : 64), (string).data

bool gguf_string_equals(gguf_string string, const char *text);

// The elements follow each other without padding; those of string arrays have varying sizes.
typedef struct gguf_array {
    gguf_value_type type; // of one element
    size_t count;
    const uint8_t *data;
    size_t size_bytes;
} gguf_array;

// One key with its value; which member of value holds it follows from type: i64 for signed, u64 for
// unsigned integers of any width, f64 for both float types.
typedef struct gguf_entry {
    gguf_string key;
    gguf_value_type type;
    union {
        uint64_t u64;
        int64_t i64;
        double f64;
        bool boolean;
        gguf_string string;
        gguf_array array;
    } value;
} gguf_entry;

size_t gguf_key_count(const gguf_file *file);

// In file order; index < gguf_key_count.
const gguf_entry *gguf_entry_at(const gguf_file *file, size_t index);

// NULL if the file has no such key.
const gguf_entry *gguf_find(const gguf_file *file, const char *key);

// The value as a person reads it, cut to fit and NUL-terminated: numbers, text made printable
// (base/text.h), "3 x u32" for arrays. Returns text. size_bytes > 0.
const char *gguf_value_text(const gguf_entry *entry, char *text, size_t size_bytes);

typedef enum gguf_lookup {
    GGUF_FOUND = 0,
    GGUF_MISSING,      // no such key
    GGUF_WRONG_TYPE,   // the key holds another kind of value
    GGUF_OUT_OF_RANGE, // an integer that does not fit into the type asked for
} gguf_lookup;

// *value is written only if the result is GGUF_FOUND. Integers of any width and sign are accepted where
// their value fits; integers are not accepted as floats, nor the other way round.
gguf_lookup gguf_get_u32(const gguf_file *file, const char *key, uint32_t *value);
gguf_lookup gguf_get_i32(const gguf_file *file, const char *key, int32_t *value);
gguf_lookup gguf_get_u64(const gguf_file *file, const char *key, uint64_t *value);
gguf_lookup gguf_get_i64(const gguf_file *file, const char *key, int64_t *value);
gguf_lookup gguf_get_f32(const gguf_file *file, const char *key, float *value);
gguf_lookup gguf_get_bool(const gguf_file *file, const char *key, bool *value);
gguf_lookup gguf_get_string(const gguf_file *file, const char *key, gguf_string *value);
gguf_lookup gguf_get_array(const gguf_file *file, const char *key, gguf_array *value);

// What a lookup means when the value is needed: true if it was found, else false and a text that names
// key, expectation ("an integer below 2^32") and what the file holds instead.
bool gguf_needed(const gguf_file *file, gguf_lookup lookup, const char *key, const char *expected,
                 engine_error *err);

// The same when the value may be absent: true if it was found or is missing.
bool gguf_wanted(const gguf_file *file, gguf_lookup lookup, const char *key, const char *expected,
                 engine_error *err);

// Elements of arrays; index < array->count. False if the array holds another kind of element (or, for
// the integer forms, if the value does not fit).
bool gguf_array_u32(const gguf_array *array, size_t index, uint32_t *value);
bool gguf_array_i64(const gguf_array *array, size_t index, int64_t *value);
bool gguf_array_f32(const gguf_array *array, size_t index, float *value);
bool gguf_array_bool(const gguf_array *array, size_t index, bool *value);

// Writes array->count views to strings, which the caller allocated. False if it holds no strings.
bool gguf_array_strings(const gguf_array *array, gguf_string *strings);

// --- tensors ----------------------------------------------------------------------------------------

// What lies beside the codes of a matrix in a format with scales of its own plane (weft/format.h):
// value = code * scales[row / scale_rows][column / scale_cols] + biases[likewise]. GGUF files have none.
typedef struct gguf_planes {
    const void *scales, *biases; // NULL: 1 and 0
    weft_dtype scale_dtype;
    int64_t scale_rows, scale_cols;
} gguf_planes;

// Bytes that lie so beside a matrix, scales and biases together; 0 without scales.
int64_t gguf_planes_bytes(const gguf_planes *planes, int64_t rows, int64_t cols);

typedef struct gguf_tensor {
    char name[GGUF_MAX_NAME_BYTES + 1];
    uint32_t rank;                // 0 to 4
    int64_t shape[GGUF_MAX_RANK]; // shape[0] is the contiguous dimension (K); 1 beyond rank
    int64_t element_count;
    const ggml_type_info *type; // name, block size; may be a format that no kernel can run, or one
                                // that nobody here knows ("type 99", the file's own)
    weft_dtype dtype;           // WEFT_DTYPE_NONE in these cases
    uint64_t offset_bytes;      // from the start of the data section of its file
    const void *data;           // aligned to gguf_alignment if the file is mapped
    size_t size_bytes;          // of an unknown format: up to the next tensor
    gguf_planes planes;
} gguf_tensor;

// With what lies beside it.
int64_t gguf_tensor_bytes(const gguf_tensor *tensor);

// Metadata and tensors that come from elsewhere, as a file. Everything is taken over, on failure too.
typedef struct gguf_assembly {
    uint8_t *head; // a GGUF file without tensors, from gguf_output_head
    size_t head_bytes;
    gguf_tensor *tensors; // from engine_alloc; data is where it is
    size_t tensor_count;
    void (*release)(void *user); // what the data lies in; called by gguf_close
    void *user;
} gguf_assembly;

gguf_file *gguf_assemble(const gguf_assembly *assembly, engine_error *err);

size_t gguf_tensor_count(const gguf_file *file);

// In file order; index < gguf_tensor_count.
const gguf_tensor *gguf_tensor_at(const gguf_file *file, size_t index);

// NULL if the file has no such tensor.
const gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name);

// What the tensors of one format amount to.
typedef struct gguf_format_total {
    const ggml_type_info *type;
    size_t tensor_count;
    int64_t element_count;
    size_t size_bytes;
} gguf_format_total;

// Writes one total per format that occurs, the largest first, and returns how many. Formats past the
// GGUF_MAX_FORMATS-th, of a model in many parts, count as that one.
size_t gguf_format_totals(const gguf_file *file, gguf_format_total totals[GGUF_MAX_FORMATS]);

// Asks the operating system to read the tensor data ahead; only a hint.
void gguf_prefetch(const gguf_file *file);

// Copies all of it into memory of the process (file_map_own), which weights are read faster from. Of files that were
// mapped; others are there already.
bool gguf_own(gguf_file *file, engine_error *err);

// Stands for the files that are mapped, by their sizes and when they were written; 0 where the bytes are in no file.
uint64_t gguf_stamp(const gguf_file *file);

// Tells the operating system that what is mapped will hardly be read; only a hint.
void gguf_leave(const gguf_file *file);

#endif
