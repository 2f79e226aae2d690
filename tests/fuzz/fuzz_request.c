// SPDX-License-Identifier: MIT
// Bodies of requests to weft serve; the first byte chooses to which. What is refused is refused with a reason that
// can be told, what is taken keeps to its bounds.
#include <stdlib.h>
#include <string.h>

#include "server/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { VOCAB = 1000 };

static void check(bool promise)
{
    if (!promise)
        abort();
}

static void check_error(const api_error *error)
{
    check(error->status == 400 || error->status == 500);
    check(error->message[0] && !strchr(error->message, '\n'));
    char *text = job_error_text(error);
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    check(json_is_string(json_object_get(json_object_get(object, "error"), "message")));
    json_decref(object);
    free(text);
}

static void check_ids(const tokenizer_ids *ids)
{
    for (size_t i = 0; i < ids->count; i++)
        check(ids->ids[i] >= 0 && ids->ids[i] < VOCAB);
}

static void check_wish(const api_wish *wish)
{
    const weft_sample_params *params = &wish->sampling.params;
    check(wish->choices >= 1 && wish->choices <= API_MAX_CHOICES);
    check(wish->best_of >= wish->choices && wish->best_of <= API_MAX_CHOICES);
    check(wish->shaping.order_count <= ENGINE_SAMPLER_COUNT && wish->shaping.dry_base >= 1);
    check(wish->max_tokens >= 0);
    check(wish->top_logprobs >= 0 && wish->top_logprobs <= ENGINE_MAX_LOGPROBS);
    check(params->temperature >= 0 && params->top_p >= 0 && params->top_p <= 1);
    check(params->min_p >= 0 && params->min_p <= 1 && params->top_k >= 0);
    for (int32_t i = 0; i < wish->bias_count; i++)
        check(wish->biases[i].id >= 0 && wish->biases[i].id < VOCAB);
    for (int i = 0; wish->stops[i]; i++)
        check(i < API_MAX_STOPS && wish->stops[i][0]);
    check(wish->chat ? wish->message_count > 0 : wish->prompt || wish->ids.count > 0);
    for (size_t i = 0; i < wish->message_count; i++)
        check(wish->messages[i].role && wish->messages[i].content);
    check_ids(&wish->ids);
}

static void read_embedding(const char *body, size_t bytes)
{
    embedding e;
    api_error error = {0};
    if (!embedding_read(&e, body, bytes, VOCAB, &error))
        check_error(&error);
    else
        check(e.count >= 1 && e.count <= EMBEDDING_MAX_TEXTS);
    for (int32_t i = 0; i < e.count; i++)
        check_ids(&e.ids[i]);
    embedding_free(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 1)
        return 0;
    const char *body = (const char *)data + 1;
    api_error error = {0};
    int kind = data[0] % 8;
    if (kind == 4) {
        read_embedding(body, size_bytes - 1);
        return 0;
    }
    if (kind < 2 || kind == 5) {
        api_wish wish;
        if (kind == 5 ? response_read(&wish, body, size_bytes - 1, VOCAB, &error)
                      : api_read_wish(&wish, kind == 0, body, size_bytes - 1, VOCAB, &error))
            check_wish(&wish);
        else
            check_error(&error);
        api_wish_free(&wish);
        return 0;
    }
    api_text text;
    bool fine = kind % 4 == 2 ? api_read_tokenize(&text, body, size_bytes - 1, &error)
                              : api_read_detokenize(&text, body, size_bytes - 1, VOCAB, &error);
    if (fine)
        check_ids(&text.ids);
    else
        check_error(&error);
    api_text_free(&text);
    return 0;
}
