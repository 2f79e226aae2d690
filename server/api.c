// SPDX-License-Identifier: MIT
#include "server/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api_fields.h"
#include "server/api_tools.h"

static bool no_memory(api_error *error)
{
    return api_fail(error, 500, NULL, "not enough memory for the request");
}

// --- sampling -----------------------------------------------------------------------------------------

static bool read_seed(api_wish *wish, api_error *error)
{
    const json_t *seed = field_get(wish->root, "seed");
    if (!seed)
        return true;
    if (!json_is_integer(seed))
        return api_fail(error, 400, "seed", "'seed' must be a whole number");
    wish->has_seed = json_integer_value(seed) >= 0; // others mean any
    wish->sampling.params.seed = (uint64_t)json_integer_value(seed);
    return true;
}

static bool read_sampling(api_wish *wish, api_error *error)
{
    const json_t *root = wish->root;
    weft_sample_params *params = &wish->sampling.params;
    params->temperature = params->top_p = 1;
    bool fine = field_int(root, "top_k", -1, INT32_MAX, &params->top_k, error);
    params->top_k = params->top_k < 0 ? 0 : params->top_k; // as others have it: all
    return fine && field_float(root, "temperature", 0, 100, &params->temperature, error) &&
           field_float(root, "top_p", 0, 1, &params->top_p, error) &&
           field_float(root, "min_p", 0, 1, &params->min_p, error) &&
           field_float(root, "frequency_penalty", -2, 2, &params->frequency_penalty, error) &&
           field_float(root, "presence_penalty", -2, 2, &params->presence_penalty, error) &&
           field_float(root, "repetition_penalty", 0.01, 100, &params->repetition_penalty, error) &&
           read_seed(wish, error);
}

static bool read_stops(api_wish *wish, api_error *error)
{
    const json_t *stop = field_get(wish->root, "stop");
    size_t count = json_is_array(stop) ? json_array_size(stop) : stop != NULL;
    if (count > API_MAX_STOPS)
        return api_fail(error, 400, "stop", "'stop' may have at most %d strings", API_MAX_STOPS);
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_is_array(stop) ? json_array_get(stop, i) : stop;
        if (!json_is_string(one) || json_string_length(one) == 0 ||
            strlen(json_string_value(one)) != json_string_length(one))
            return api_fail(error, 400, "stop",
                            "'stop' must be a string that is not empty, or a "
                            "list of such");
        wish->stops[i] = json_string_value(one);
    }
    return true;
}

static bool read_biases(api_wish *wish, int32_t vocab, api_error *error)
{
    json_t *biases = field_get(wish->root, "logit_bias"), *value;
    const char *key;
    size_t count = json_object_size(biases);
    if (!biases)
        return true;
    if (!json_is_object(biases) || count > API_MAX_BIASES)
        return api_fail(error, 400, "logit_bias",
                        "'logit_bias' must be an object of at most %d token ids", API_MAX_BIASES);
    wish->biases = calloc(count + 1, sizeof *wish->biases);
    if (!wish->biases)
        return no_memory(error);
    json_object_foreach(biases, key, value)
    {
        char *end;
        long id = strtol(key, &end, 10);
        double bias = json_number_value(value);
        if (end == key || *end || id < 0 || id >= vocab || !json_is_number(value) ||
            !(bias >= -100 && bias <= 100))
            return api_fail(error, 400, "logit_bias",
                            "'logit_bias' must map token ids from 0 to %d to numbers from -100 to "
                            "100",
                            vocab - 1);
        wish->biases[wish->bias_count++] = (engine_bias){(int32_t)id, (float)bias};
    }
    return true;
}

// chat: a flag and how many; completions: how many.
static bool read_logprobs(api_wish *wish, api_error *error)
{
    if (!wish->chat) {
        wish->logprobs = field_get(wish->root, "logprobs") != NULL;
        return field_int(wish->root, "logprobs", 0, ENGINE_MAX_LOGPROBS, &wish->top_logprobs,
                         error);
    }
    if (!field_bool(wish->root, "logprobs", &wish->logprobs, error) ||
        !field_int(wish->root, "top_logprobs", 0, ENGINE_MAX_LOGPROBS, &wish->top_logprobs, error))
        return false;
    if (wish->top_logprobs > 0 && !wish->logprobs)
        return api_fail(error, 400, "top_logprobs", "'top_logprobs' needs 'logprobs'");
    return true;
}

// --- the rest -----------------------------------------------------------------------------------------

static bool read_stream(api_wish *wish, api_error *error)
{
    const json_t *options = field_get(wish->root, "stream_options");
    if (!field_bool(wish->root, "stream", &wish->stream, error))
        return false;
    if (!options)
        return true;
    if (!json_is_object(options))
        return api_fail(error, 400, "stream_options", "'stream_options' must be an object");
    return field_bool(options, "include_usage", &wish->include_usage, error);
}

static bool read_best_of(api_wish *wish, api_error *error)
{
    bool stream = false;
    wish->best_of = wish->choices;
    if (wish->chat)
        return true;
    if (!field_int(wish->root, "best_of", 1, API_MAX_CHOICES, &wish->best_of, error) ||
        !field_bool(wish->root, "stream", &stream, error))
        return false;
    if (wish->best_of < wish->choices)
        return api_fail(error, 400, "best_of", "'best_of' must not be less than 'n'");
    return !stream || wish->best_of == wish->choices ||
           api_fail(error, 400, "best_of",
                    "'best_of' cannot be streamed: which is best shows at "
                    "the end");
}

// What would change the answer and cannot be done.
static bool refuse_unserved(const api_wish *wish, api_error *error)
{
    static const char *const unserved[] = {"functions",  "suffix", "audio",
                                           "modalities", "tools",  "response_format"};
    size_t chat_serves = 2; // the last ones
    for (size_t i = 0; i < sizeof unserved / sizeof *unserved - (wish->chat ? chat_serves : 0);
         i++) {
        const json_t *field = field_get(wish->root, unserved[i]);
        if (field && !(json_is_array(field) && json_array_size(field) == 0))
            return api_fail(error, 400, unserved[i], "'%s' is not served: leave it out",
                            unserved[i]);
    }
    bool echo = false;
    if (!field_bool(wish->root, "echo", &echo, error))
        return false;
    return !echo || api_fail(error, 400, "echo", "'echo' is not served: leave it out");
}

// The text of parts, joined; the wish owns it.
static char *join_parts(api_wish *wish, const json_t *parts, const char *where, size_t *bytes,
                        api_error *error)
{
    size_t n, all = 0;
    const json_t *part;
    json_array_foreach(parts, n, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text)) {
            api_fail(error, 400, where, "'%s' must be text or parts of the type \"text\"", where);
            return NULL;
        }
        all += json_string_length(text);
    }
    char *joined = malloc(all + 1);
    if (!joined) {
        no_memory(error);
        return NULL;
    }
    *bytes = 0;
    json_array_foreach(parts, n, part)
    {
        const json_t *text = json_object_get(part, "text");
        memcpy(joined + *bytes, json_string_value(text), json_string_length(text));
        *bytes += json_string_length(text);
    }
    joined[all] = '\0';
    return wish->owned[wish->owned_count++] = joined;
}

// What a template may look at besides role and content.
static bool read_members(api_wish *wish, const json_t *object, chat_message *message,
                         api_error *error)
{
    static const char *const known[] = {"name", "tool_calls", "tool_call_id", "reasoning_content"};
    json_t *members = json_object();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        json_t *value = field_get(object, known[i]);
        if (value && strcmp(known[i], "tool_calls") == 0)
            json_object_set_new(members, known[i], api_calls_for_template(value));
        else if (value)
            json_object_set(members, known[i], value);
    }
    if (json_object_size(members) > 0)
        message->members = wish->owned[wish->owned_count++] = json_dumps(members, JSON_COMPACT);
    bool fine = json_object_size(members) == 0 || message->members;
    json_decref(members);
    return fine || no_memory(error);
}

static bool read_message(api_wish *wish, const json_t *object, size_t n, api_error *error)
{
    char where[64];
    chat_message *message = &wish->messages[wish->message_count++];
    const json_t *role = json_object_get(object, "role"), *content = field_get(object, "content");
    snprintf(where, sizeof where, "messages[%zu].role", n);
    if (!json_is_string(role) || strlen(json_string_value(role)) != json_string_length(role))
        return api_fail(error, 400, where, "'%s' must be a string", where);
    message->role = json_string_value(role);
    snprintf(where, sizeof where, "messages[%zu].content", n);
    if (json_is_array(content)) {
        message->content = join_parts(wish, content, where, &message->content_bytes, error);
        return message->content && read_members(wish, object, message, error);
    }
    if (content && !json_is_string(content))
        return api_fail(error, 400, where, "'%s' must be a string or a list of parts", where);
    message->content = content ? json_string_value(content) : "";
    message->content_bytes = json_string_length(content);
    return read_members(wish, object, message, error);
}

static bool read_thinking(api_wish *wish, api_error *error)
{
    const json_t *options = field_get(wish->root, "chat_template_kwargs");
    bool thinking = false;
    if (!field_get(options, "enable_thinking"))
        return true;
    if (!field_bool(options, "enable_thinking", &thinking, error))
        return false;
    wish->thinking = thinking ? CHAT_THINKING_ON : CHAT_THINKING_OFF;
    return true;
}

static bool read_messages(api_wish *wish, api_error *error)
{
    const json_t *list = field_get(wish->root, "messages"), *one;
    size_t count = json_array_size(list), n;
    if (!json_is_array(list) || count == 0 || count > API_MAX_MESSAGES)
        return api_fail(error, 400, "messages", "'messages' must be a list of 1 to %d messages",
                        API_MAX_MESSAGES);
    wish->messages = calloc(count, sizeof *wish->messages);
    wish->owned = calloc(2 * count, sizeof *wish->owned);
    if (!wish->messages || !wish->owned)
        return no_memory(error);
    json_array_foreach(list, n, one)
    {
        if (!read_message(wish, one, n, error))
            return false;
    }
    return read_thinking(wish, error);
}

static bool read_prompt(api_wish *wish, int32_t vocab, api_error *error)
{
    const json_t *prompt = field_get(wish->root, "prompt");
    if (json_is_array(prompt) && json_array_size(prompt) == 1 &&
        !json_is_integer(json_array_get(prompt, 0)))
        prompt = json_array_get(prompt, 0); // a list of one prompt
    if (json_is_array(prompt) && json_is_integer(json_array_get(prompt, 0)))
        return field_ids(prompt, "prompt", vocab, &wish->ids, error);
    if (!json_is_string(prompt))
        return api_fail(error, 400, "prompt",
                        "'prompt' must be a string or a list of token ids; several prompts are "
                        "several requests");
    wish->prompt = json_string_value(prompt);
    wish->prompt_bytes = json_string_length(prompt);
    return true;
}

bool api_read_wish(api_wish *wish, bool chat, const char *body, size_t bytes, int32_t vocab,
                   api_error *error)
{
    *wish = (api_wish){0};
    json_t *root = field_body(body, bytes, error);
    return root && api_read_wish_of(wish, chat, root, vocab, error);
}

bool api_read_wish_of(api_wish *wish, bool chat, json_t *body, int32_t vocab, api_error *error)
{
    *wish = (api_wish){.root = body, .chat = chat, .choices = 1, .max_tokens = chat ? 0 : 16};
    if (!refuse_unserved(wish, error))
        return false;
    return (chat ? read_messages(wish, error) && api_read_form(wish, error)
                 : read_prompt(wish, vocab, error)) &&
           field_int(wish->root, "max_tokens", 1, INT32_MAX, &wish->max_tokens, error) &&
           field_int(wish->root, "max_completion_tokens", 1, INT32_MAX, &wish->max_tokens, error) &&
           field_int(wish->root, "n", 1, API_MAX_CHOICES, &wish->choices, error) &&
           field_bool(wish->root, "ignore_eos", &wish->ignore_end, error) &&
           read_best_of(wish, error) && read_stream(wish, error) && read_sampling(wish, error) &&
           api_read_shaping(wish, error) && read_stops(wish, error) &&
           read_biases(wish, vocab, error) && read_logprobs(wish, error);
}

void api_wish_free(api_wish *wish)
{
    for (size_t i = 0; i < wish->owned_count; i++)
        free(wish->owned[i]);
    free(wish->owned);
    free(wish->messages);
    free(wish->tools_text);
    free(wish->schema_text);
    free(wish->grammar_key);
    grammar_free(wish->grammar);
    free(wish->biases);
    tokenizer_ids_free(&wish->ids);
    json_decref(wish->root);
    *wish = (api_wish){0};
}

// --- text ---------------------------------------------------------------------------------------------

bool api_read_tokenize(api_text *text, const char *body, size_t bytes, api_error *error)
{
    bool add_special = false, parse_special = true;
    *text = (api_text){.root = field_body(body, bytes, error)};
    if (!text->root)
        return false;
    const json_t *content = field_get(text->root, "content");
    if (!json_is_string(content))
        return api_fail(error, 400, "content", "'content' must be a string");
    text->text = json_string_value(content);
    text->text_bytes = json_string_length(content);
    if (!field_bool(text->root, "add_special", &add_special, error) ||
        !field_bool(text->root, "parse_special", &parse_special, error))
        return false;
    text->flags =
        (add_special ? TOKENIZER_ADD_SPECIAL : 0u) | (parse_special ? TOKENIZER_PARSE_SPECIAL : 0u);
    return true;
}

bool api_read_detokenize(api_text *text, const char *body, size_t bytes, int32_t vocab,
                         api_error *error)
{
    *text = (api_text){.root = field_body(body, bytes, error)};
    if (!text->root)
        return false;
    const json_t *tokens = field_get(text->root, "tokens");
    if (!json_is_array(tokens))
        return api_fail(error, 400, "tokens", "'tokens' must be a list of token ids");
    return field_ids(tokens, "tokens", vocab, &text->ids, error);
}

void api_text_free(api_text *text)
{
    tokenizer_ids_free(&text->ids);
    json_decref(text->root);
    *text = (api_text){0};
}
