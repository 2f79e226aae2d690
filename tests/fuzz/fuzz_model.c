// SPDX-License-Identifier: MIT
// Reads the input as a model; one that the engine accepts is opened in earnest and evaluates tokens.

#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/model/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

// Most inputs end here, without the cost of a file and of a context.
static bool is_model(const gguf_file *file)
{
    model_config config;
    model_weights weights;
    if (!model_config_read(&config, file, NULL))
        return false;
    bool bound = model_weights_bind(&weights, &config, file, NULL);
    model_weights_free(&weights);
    tokenizer *pieces = bound ? tokenizer_from_gguf(file, NULL) : NULL;
    tokenizer_free(pieces);
    return pieces != NULL;
}

static void evaluate(engine_worker *worker)
{
    engine_error err = {""};
    engine_session *session = engine_session_open(worker, &err);
    if (session == NULL)
        return;
    const int32_t ids[] = {0, 1, 0, 0, 0};
    engine_feed feed = {.session = session, .ids = ids, .count = 5};
    if (engine_eval(worker, &feed, 1, NULL, NULL, &err)) {
        feed.count = 1;
        engine_eval(worker, &feed, 1, NULL, NULL, &err);
        int32_t token = 0;
        const engine_sampling sampling = {0};
        engine_sample(session, &sampling, &token, &err);
    }
    engine_session_close(session);
}

static void open_and_evaluate(const uint8_t *data, size_t size_bytes)
{
    int descriptor = memfd_create("model", MFD_CLOEXEC);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (descriptor < 0 || write(descriptor, data, size_bytes) != (ssize_t)size_bytes)
        abort();
    engine_error err = {""};
    const engine_options options = {.threads = 1, .context_tokens = 16, .chunk_tokens = 4};
    engine_model *model = engine_model_open(path, &err);
    engine_worker *worker = model != NULL ? engine_worker_open(model, &options, &err) : NULL;
    if (worker != NULL)
        evaluate(worker);
    else if (err.text[0] == '\0' || strchr(err.text, '\n') != NULL)
        abort(); // a refusal gives its reason in one line
    engine_worker_close(worker);
    engine_model_close(model);
    close(descriptor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    gguf_file *file = gguf_open_memory(data, size_bytes, NULL);
    if (file != NULL && is_model(file))
        open_and_evaluate(data, size_bytes);
    gguf_close(file);
    return 0;
}
