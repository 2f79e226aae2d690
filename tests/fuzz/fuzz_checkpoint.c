// SPDX-License-Identifier: MIT
// Opens a model folder of which one file is the input: the first byte says which, config.json, tokenizer.json,
// tokenizer_config.json or the index of shards; the others are whole.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/safetensors/checkpoint.h"
#include "tests/support/scratch.h"

static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                    "model.safetensors.index.json"};
static const char *const whole[] = {
    "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":8,\"intermediate_size\":8,"
    "\"max_position_embeddings\":64,\"num_attention_heads\":1,\"tie_word_embeddings\":true}",
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]},"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
    "{\"eos_token\":\"a\"}",
    "{\"weight_map\":{\"a\":\"model.safetensors\"}}",
};
enum { FILES = sizeof names / sizeof *names };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

// The files lie in memory: the folder has links to them.
static int make_file(const char *folder, const char *name)
{
    char path[SCRATCH_PATH_BYTES + 32], target[64];
    int file = memfd_create(name, MFD_CLOEXEC);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(target, sizeof target, "/proc/self/fd/%d", file);
    if (file < 0 || symlink(target, path) != 0)
        abort();
    return file;
}

static void write_file(int file, const void *data, size_t bytes)
{
    if (ftruncate(file, 0) != 0 || pwrite(file, data, bytes, 0) != (ssize_t)bytes)
        abort();
}

static char folder[SCRATCH_PATH_BYTES];

static void remove_folder(void)
{
    scratch_remove(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const char empty[] = "\2\0\0\0\0\0\0\0{}";
    static int made, files[FILES];
    if (size_bytes == 0)
        return 0;
    if (!made++) {
        scratch_folder(folder);
        atexit(remove_folder);
        write_file(make_file(folder, "model.safetensors"), empty, sizeof empty - 1);
        for (int i = 0; i < FILES; i++) {
            files[i] = make_file(folder, names[i]);
            write_file(files[i], whole[i], strlen(whole[i]));
        }
    }
    const int which = data[0] % FILES;
    write_file(files[which], data + 1, size_bytes - 1);
    engine_error err = {""};
    gguf_file *file = checkpoint_open(folder, &err);
    if (file == NULL && (err.text[0] == '\0' || strchr(err.text, '\n') != NULL))
        abort();
    gguf_close(file);
    write_file(files[which], whole[which], strlen(whole[which]));
    return 0;
}
