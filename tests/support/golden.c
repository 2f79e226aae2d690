// SPDX-License-Identifier: MIT
#include "tests/support/golden.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct golden_entry {
    char *name;
    golden_tensor tensor;
} golden_entry;

typedef struct golden_parameters {
    char *name;
    json_t *values;
} golden_parameters;

struct golden {
    char *bytes;
    size_t num_tensors, num_cases;
    golden_entry *tensors;
    golden_parameters *cases;
};

static const struct {
    const char *code;
    golden_dtype dtype;
    size_t bytes;
} formats[] = {
    {"U8", GOLDEN_U8, 1},   {"I32", GOLDEN_I32, 4},   {"I64", GOLDEN_I64, 8},
    {"F16", GOLDEN_F16, 2}, {"BF16", GOLDEN_BF16, 2}, {"F32", GOLDEN_F32, 4},
    {"F64", GOLDEN_F64, 8},
};

static _Noreturn __attribute__((format(printf, 1, 2))) void golden_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("golden: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

static void *golden_allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        golden_die("out of memory");
    }
    return memory;
}

static char *golden_copy(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(golden_allocate(bytes, 1), text, bytes);
}

static char *golden_read(const char *path, size_t *bytes)
{
    FILE *stream = fopen(path, "rb");
    if (!stream || fseek(stream, 0, SEEK_END) != 0) {
        golden_die("cannot open %s", path);
    }
    long end = ftell(stream);
    rewind(stream);
    if (end < 8) {
        golden_die("%s is too short", path);
    }
    char *data = golden_allocate((size_t)end, 1);
    if (fread(data, 1, (size_t)end, stream) != (size_t)end) {
        golden_die("cannot read %s", path);
    }
    fclose(stream);
    *bytes = (size_t)end;
    return data;
}

static void golden_parse_tensor(golden_entry *entry, const char *name, json_t *info,
                                const char *data, size_t data_bytes)
{
    golden_tensor *tensor = &entry->tensor;
    const char *code = NULL;
    json_t *shape = NULL;
    json_int_t begin = 0, end = 0;
    if (json_unpack(info, "{s:s, s:o, s:[I,I]}", "dtype", &code, "shape", &shape, "data_offsets",
                    &begin, &end) != 0 ||
        begin < 0 || end < begin || (size_t)end > data_bytes ||
        json_array_size(shape) > GOLDEN_MAX_RANK) {
        golden_die("malformed entry for %s", name);
    }
    entry->name = golden_copy(name);
    tensor->rank = (int)json_array_size(shape);
    tensor->elements = 1;
    for (int i = 0; i < GOLDEN_MAX_RANK; i++) {
        tensor->shape[i] =
            i < tensor->rank ? json_integer_value(json_array_get(shape, (size_t)i)) : 1;
        tensor->elements *= tensor->shape[i];
    }
    tensor->bytes = (size_t)(end - begin);
    tensor->data = data + begin;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strcmp(code, formats[i].code) == 0 &&
            (size_t)tensor->elements * formats[i].bytes == tensor->bytes) {
            tensor->dtype = formats[i].dtype;
            return;
        }
    }
    golden_die("%s: format %s and shape do not fit its bytes", name, code);
}

static void golden_parse_cases(golden *file, json_t *metadata)
{
    const char *name;
    json_t *text;
    file->cases = golden_allocate(json_object_size(metadata), sizeof(*file->cases));
    json_object_foreach(metadata, name, text)
    {
        json_t *values = json_loads(json_string_value(text), 0, NULL);
        if (!values) {
            golden_die("parameters of %s are no JSON", name);
        }
        file->cases[file->num_cases++] = (golden_parameters){golden_copy(name), values};
    }
}

golden *golden_open(const char *path)
{
    char full[4096];
    snprintf(full, sizeof(full), "%s/%s", WEFT_TEST_GOLDEN, path);
    size_t bytes = 0;
    golden *file = golden_allocate(1, sizeof(*file));
    file->bytes = golden_read(full, &bytes);
    uint64_t header_bytes = 0;
    memcpy(&header_bytes, file->bytes, sizeof(header_bytes));
    if (header_bytes > bytes - 8) {
        golden_die("%s: header leaves the file", full);
    }
    json_t *header = json_loadb(file->bytes + 8, (size_t)header_bytes, 0, NULL);
    if (!json_is_object(header)) {
        golden_die("%s: header is no JSON object", full);
    }
    const char *data = file->bytes + 8 + header_bytes;
    size_t data_bytes = bytes - 8 - (size_t)header_bytes;
    file->tensors = golden_allocate(json_object_size(header), sizeof(*file->tensors));
    const char *name;
    json_t *info;
    json_object_foreach(header, name, info)
    {
        if (strcmp(name, "__metadata__") == 0) {
            golden_parse_cases(file, info);
        } else {
            golden_parse_tensor(&file->tensors[file->num_tensors++], name, info, data, data_bytes);
        }
    }
    json_decref(header);
    return file;
}

void golden_close(golden *file)
{
    if (!file) {
        return;
    }
    for (size_t i = 0; i < file->num_tensors; i++) {
        free(file->tensors[i].name);
    }
    for (size_t i = 0; i < file->num_cases; i++) {
        free(file->cases[i].name);
        json_decref(file->cases[i].values);
    }
    free(file->tensors);
    free(file->cases);
    free(file->bytes);
    free(file);
}

const char *golden_case(const golden *file, size_t n)
{
    return n < file->num_cases ? file->cases[n].name : NULL;
}

const golden_tensor *golden_find(const golden *file, const char *case_name, const char *name)
{
    char full[256];
    snprintf(full, sizeof(full), "%s.%s", case_name, name);
    for (size_t i = 0; i < file->num_tensors; i++) {
        if (strcmp(file->tensors[i].name, full) == 0) {
            return &file->tensors[i].tensor;
        }
    }
    return NULL;
}

const void *golden_data(const golden *file, const char *case_name, const char *name,
                        golden_dtype dtype)
{
    const golden_tensor *tensor = golden_find(file, case_name, name);
    if (!tensor || tensor->dtype != dtype) {
        golden_die("case %s has no tensor %s of that format", case_name, name);
    }
    return tensor->data;
}

static json_t *golden_parameter(const golden *file, const char *case_name, const char *key)
{
    for (size_t i = 0; i < file->num_cases; i++) {
        if (strcmp(file->cases[i].name, case_name) == 0) {
            return json_object_get(file->cases[i].values, key);
        }
    }
    golden_die("no case %s", case_name);
}

double golden_number(const golden *file, const char *case_name, const char *key, double fallback)
{
    json_t *value = golden_parameter(file, case_name, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

const char *golden_text(const golden *file, const char *case_name, const char *key)
{
    const char *text = json_string_value(golden_parameter(file, case_name, key));
    return text ? text : "";
}
