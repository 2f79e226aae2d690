// SPDX-License-Identifier: MIT
// Files of timelines and, if the first byte is odd, of the pages that a worker remembers. Half of it says what the rest
// is: a file as it stands (0), or changes of one that is whole, three bytes each: a place (from the end, if it
// is 2) and what stands there; its checksum is made right again. What is taken can be gone on with; what is
// refused leaves an empty timeline and a reason.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/engine.h"
#include "tests/support/gguf_tiny_model.h"
#include "tests/support/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { CONTEXT = 192, TOKENS = 80, GO_ON = 2 };

static void check(bool promise)
{
    if (!promise)
        abort();
}

static void name_of(int descriptor, char path[64])
{
    snprintf(path, 64, "/proc/self/fd/%d", descriptor);
}

static int file_of(const void *data, size_t size_bytes)
{
    int descriptor = memfd_create("cache", MFD_CLOEXEC);
    check(descriptor >= 0 && write(descriptor, data, size_bytes) == (ssize_t)size_bytes);
    return descriptor;
}

static engine_worker *worker;

static engine_worker *open_tiny(void)
{
    char path[64];
    const gguf_tiny_shape shape = {.architecture = "llama", .dim = 32};
    gguf_writer writer = gguf_tiny_model(&shape);
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(&writer, &size_bytes);
    int file = file_of(bytes, size_bytes);
    name_of(file, path);
    const engine_options options = {.threads = 1,
                                    .context_tokens = CONTEXT,
                                    .chunk_tokens = 64,
                                    .max_sessions = 2,
                                    .keep_prefixes = true};
    engine_model *model = engine_model_open(path, NULL);
    engine_worker *opened = model ? engine_worker_open(model, &options, NULL) : NULL;
    check(opened != NULL);
    free(bytes);
    return opened; // with the model, as long as the program runs
}

static bool evaluate(engine_session *session, int32_t count)
{
    int32_t ids[TOKENS] = {0};
    engine_feed feed = {.session = session, .ids = ids, .count = count};
    for (int32_t i = 0; i < count; i++)
        ids[i] = i % TINY_MODEL_VOCAB;
    return engine_eval(worker, &feed, 1, NULL, NULL, NULL);
}

typedef struct whole_file {
    uint8_t *data;
    size_t size_bytes;
} whole_file;

// A file that is whole: of the session's timeline, or of the worker's pages.
static whole_file write_whole(engine_session *session, bool pages)
{
    whole_file made;
    char path[SCRATCH_PATH_BYTES];
    scratch_file(path, NULL, 0);
    check(pages ? engine_worker_save_pages(worker, path, NULL)
                : engine_session_save(session, path, NULL));
    FILE *file = fopen(path, "rb");
    made.data = malloc(1 << 20);
    check(file && made.data);
    made.size_bytes = fread(made.data, 1, 1 << 20, file);
    check(made.size_bytes > 64 && made.size_bytes < 1 << 20);
    fclose(file);
    scratch_remove(path);
    return made;
}

static void restore(engine_session *session, const uint8_t *data, size_t size_bytes)
{
    char path[64];
    engine_error err = {""};
    int file = file_of(data, size_bytes);
    name_of(file, path);
    if (engine_session_restore(session, path, &err)) {
        int32_t length = engine_session_length(session);
        check(length >= 0 && length <= CONTEXT);
        if (length + GO_ON <= CONTEXT)
            check(evaluate(session, GO_ON));
    } else {
        check(*err.text && !strchr(err.text, '\n'));
        check(engine_session_length(session) == 0);
    }
    close(file);
}

static void restore_pages(engine_session *session, const uint8_t *data, size_t size_bytes)
{
    char path[64];
    engine_error err = {""};
    engine_worker_info info;
    int file = file_of(data, size_bytes);
    name_of(file, path);
    const bool taken = engine_worker_restore_pages(worker, path, &err);
    check(taken || (*err.text && !strchr(err.text, '\n')));
    engine_session_truncate(session, 0);
    engine_worker_describe(worker, &info);
    check(info.free_pages == info.pool_pages && info.remembered_pages <= info.pool_pages);
    if (taken)
        check(evaluate(session, TOKENS));
    close(file);
}

// Changes, then the checksum of all before it.
static void change(uint8_t *file, size_t file_bytes, const uint8_t *data, size_t size_bytes,
                   bool end)
{
    for (size_t i = 0; i + 3 <= size_bytes; i += 3) {
        size_t at = (size_t)(data[i] << 8 | data[i + 1]) % file_bytes;
        file[end ? file_bytes - 1 - at : at] = data[i + 2];
    }
    uint64_t sum = XXH3_64bits(file, file_bytes - sizeof sum);
    memcpy(file + file_bytes - sizeof sum, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static engine_session *session;
    static whole_file wholes[2];
    if (!session) {
        worker = open_tiny();
        session = engine_session_open(worker, NULL);
        check(session && evaluate(session, TOKENS));
        wholes[0] = write_whole(session, false);
        engine_session_truncate(session, 0); // then its full page is remembered
        wholes[1] = write_whole(session, true);
        restore(session, wholes[0].data, wholes[0].size_bytes);
        check(engine_session_length(session) > 0);
        restore_pages(session, wholes[1].data, wholes[1].size_bytes);
    }
    if (size_bytes < 1)
        return 0;
    bool pages = data[0] & 1;
    int how = data[0] / 2 % 3;
    const whole_file *whole = &wholes[pages];
    void (*read)(engine_session *, const uint8_t *, size_t) = pages ? restore_pages : restore;
    if (how == 0) {
        read(session, data + 1, size_bytes - 1);
        return 0;
    }
    uint8_t *copy = malloc(whole->size_bytes);
    check(copy != NULL);
    memcpy(copy, whole->data, whole->size_bytes);
    change(copy, whole->size_bytes, data + 1, size_bytes - 1, how == 2);
    read(session, copy, whole->size_bytes);
    free(copy);
    return 0;
}
