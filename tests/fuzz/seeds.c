// SPDX-License-Identifier: MIT
// Writes the seeds of fuzz_gguf, fuzz_model and fuzz_split: seeds FOLDER, which holds folders gguf, model and split.

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/gguf_tiny_model.h"
#include "tests/support/gguf_writer.h"

enum { F32 = 0, F16 = 1, Q4_0 = 2, Q6_K = 14, MXFP4 = 39 };

static bool save(const char *folder, const char *name, gguf_writer *writer)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s.gguf", folder, name);
    return gguf_writer_save(writer, path);
}

static gguf_writer metadata_only(void)
{
    gguf_writer w = gguf_writer_new();
    gguf_writer_string(&w, "general.architecture", "llama");
    gguf_writer_u8(&w, "u8", 1);
    gguf_writer_i32(&w, "i32", -1);
    gguf_writer_u64(&w, "u64", UINT64_MAX);
    gguf_writer_i64(&w, "i64", INT64_MIN);
    gguf_writer_f32(&w, "f32", 1e-5f);
    gguf_writer_f64(&w, "f64", 1e300);
    gguf_writer_bool(&w, "bool", true);
    return w;
}

static gguf_writer arrays(void)
{
    gguf_writer w = gguf_writer_new();
    gguf_writer_strings(&w, "tokens", (const char *[]){"<s>", "", "a b"}, 3);
    gguf_writer_array(&w, "scores", GGUF_F32, (float[]){0, -1}, 2);
    gguf_writer_array(&w, "types", GGUF_I32, (int32_t[]){1, -2, 3}, 3);
    gguf_writer_array(&w, "flags", GGUF_BOOL, (uint8_t[]){0, 1}, 2);
    gguf_writer_array(&w, "wide", GGUF_U64, (uint64_t[]){UINT64_MAX}, 1);
    gguf_writer_key(&w, "nested", GGUF_ARRAY);
    buffer_u32(&w.keys, GGUF_ARRAY);
    buffer_u64(&w.keys, 2);
    for (int i = 0; i < 2; i++) {
        buffer_u32(&w.keys, GGUF_STRING);
        buffer_u64(&w.keys, 1);
        buffer_string(&w.keys, "x");
    }
    return w;
}

static gguf_writer tensors(uint32_t version, uint32_t alignment)
{
    gguf_writer w = gguf_writer_new();
    w.version = version;
    w.alignment = alignment;
    gguf_writer_u32(&w, "general.alignment", alignment);
    gguf_writer_tensor(&w, "norm", F32, 1, (int64_t[]){4}, NULL, 16);
    gguf_writer_tensor(&w, "half", F16, 3, (int64_t[]){2, 3, 1}, NULL, 12);
    gguf_writer_tensor(&w, "q4", Q4_0, 2, (int64_t[]){32, 2}, NULL, 36);
    gguf_writer_tensor(&w, "q6", Q6_K, 1, (int64_t[]){256}, NULL, 210);
    gguf_writer_tensor(&w, "fp4", MXFP4, 4, (int64_t[]){32, 1, 1, 1}, NULL, 17);
    return w;
}

static gguf_writer part(uint32_t number, uint32_t count)
{
    gguf_writer w = gguf_writer_new();
    if (number == 0)
        gguf_writer_i32(&w, "split.tensors.count", (int32_t)count - 1);
    gguf_writer_u32(&w, "split.no", number);
    gguf_writer_u32(&w, "split.count", count);
    const char name[] = {(char)('a' + number), 0};
    if (number > 0)
        gguf_writer_tensor(&w, name, number == 1 ? F32 : Q4_0, 1, (int64_t[]){32}, NULL,
                           number == 1 ? 128 : 18);
    return w;
}

// As fuzz_split.c reads them.
static bool save_parts(const char *folder, uint32_t count)
{
    char path[4096];
    uint8_t *bytes[3];
    size_t sizes[3];
    snprintf(path, sizeof path, "%s/split/parts%u", folder, count);
    FILE *stream = fopen(path, "wb");
    bool good = stream && fputc((int)count - 1, stream) != EOF;
    for (uint32_t n = 0; n < count; n++) {
        gguf_writer w = part(n, count);
        bytes[n] = gguf_writer_finish(&w, &sizes[n]);
        for (int shift = 0; good && shift <= 8 && n + 1 < count; shift += 8)
            good = fputc((int)(sizes[n] >> shift & 255), stream) != EOF;
    }
    for (uint32_t n = 0; n < count; n++) {
        good = good && fwrite(bytes[n], 1, sizes[n], stream) == sizes[n];
        free(bytes[n]);
    }
    return stream && fclose(stream) == 0 && good;
}

static bool save_all(const char *folder)
{
    for (uint32_t count = 1; count <= 3; count++)
        if (!save_parts(folder, count))
            return false;

    gguf_writer files[] = {gguf_writer_new(), metadata_only(), arrays(), tensors(3, 32),
                           tensors(2, 8)};
    const char *const names[] = {"gguf/empty", "gguf/metadata", "gguf/arrays", "gguf/tensors",
                                 "gguf/version2"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (!save(folder, names[i], &files[i]))
            return false;

    const struct {
        const char *name;
        gguf_tiny_shape shape;
    } models[] = {
        {"model/llama", {.architecture = "llama", .matrix_type = F32, .dim = 8}},
        {"model/qwen3", {.architecture = "qwen3", .matrix_type = F16, .dim = 8}},
        {"model/mixtral", {.architecture = "llama", .matrix_type = Q4_0, .dim = 32, .experts = 3}},
        {"model/qwen3moe",
         {.architecture = "qwen3moe", .matrix_type = F32, .dim = 8, .experts = 2}},
        {"model/q4_0", {.architecture = "llama", .matrix_type = Q4_0, .dim = 32}},
        {"model/norms", {"mistral", F16, .dim = 8, .norms_in_f16 = true}}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        gguf_writer file = gguf_tiny_model(&models[i].shape);
        if (!save(folder, models[i].name, &file))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (argc == 2 && save_all(argv[1]))
        return 0;
    fprintf(stderr, "usage: seeds FOLDER, which must hold folders gguf, model and split\n");
    return 2;
}
