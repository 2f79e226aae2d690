// SPDX-License-Identifier: MIT
#include "tests/support/checkpoint_copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

const char *checkpoint_golden_folder(const char *model)
{
    enum { PATHS = 4 };
    static char paths[PATHS][512];
    static int next;
    char *path = paths[next++ % PATHS];
    snprintf(path, sizeof paths[0], WEFT_TEST_GOLDEN "/checkpoints/%s", model);
    return path;
}

golden *checkpoint_golden(const char *model)
{
    char path[128];
    snprintf(path, sizeof path, "checkpoints/%s/golden.safetensors", model);
    return golden_open(path);
}

void checkpoint_copy_path(const checkpoint_copy *copy, const char *name,
                          char path[CHECKPOINT_PATH_BYTES])
{
    assert_in_range(snprintf(path, CHECKPOINT_PATH_BYTES, "%s/%s", copy->folder, name), 1,
                    CHECKPOINT_PATH_BYTES - 1);
}

void checkpoint_copy_write(const checkpoint_copy *copy, const char *name, const void *bytes,
                           size_t size_bytes)
{
    char path[CHECKPOINT_PATH_BYTES];
    checkpoint_copy_path(copy, name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

void checkpoint_copy_edit(const checkpoint_copy *copy, const char *name, const char *from,
                          const char *to)
{
    static char bytes[1 << 20];
    char path[1024];
    assert_true(!from || strlen(from) == strlen(to));
    snprintf(path, sizeof path, "%s/%s", checkpoint_golden_folder(copy->model), name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be opened", path);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_true(size < sizeof bytes);
    fclose(file);
    for (size_t i = 0; from && i + strlen(from) <= size; i++)
        if (memcmp(bytes + i, from, strlen(from)) == 0) {
            memcpy(bytes + i, to, strlen(to));
            from = NULL;
        }
    if (from)
        fail_msg("%s does not say '%s'", path, from);
    checkpoint_copy_write(copy, name, bytes, size);
}

void checkpoint_copy_open(checkpoint_copy *copy, const char *model)
{
    static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                        "model.safetensors"};
    copy->model = model;
    scratch_folder(copy->folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        checkpoint_copy_edit(copy, names[i], NULL, NULL);
}

void checkpoint_copy_close(checkpoint_copy *copy)
{
    assert_int_equal(scratch_remove(copy->folder), 0);
}
