// SPDX-License-Identifier: MIT
#ifndef SERVER_API_H
#define SERVER_API_H

// What the bodies of requests say. Unknown fields are ignored; known ones of a wrong type or value are refused with
// the field's name, and so is what is known but not served: nothing that changes an answer is passed over.

#include <jansson.h>

#include "engine/engine.h"

typedef struct api_error {
    int status;       // of HTTP
    const char *type; // "invalid_request_error", "server_error", ...
    const char *code; // or NULL
    char param[80];   // the field, or ""
    char message[400];
} api_error;

// Fills in an error and returns false; param may be NULL.
bool api_fail(api_error *error, int status, const char *param, const char *format, ...)
    ENGINE_PRINTF(4, 5);

enum {
    API_MAX_BREAKERS = 16,
    API_MAX_STOPS = 16,
    API_MAX_CHOICES = 16,
    API_MAX_MESSAGES = 4096,
    API_MAX_BIASES = 1024
};

typedef struct api_wish {
    json_t *root;  // the body; strings below are its own
    bool chat;     // chat/completions, else completions
    bool response; // responses: chat, told in other words
    bool stream, include_usage;
    int32_t choices;
    int32_t max_tokens; // 0: no limit
    engine_sampling sampling;
    engine_shaping shaping;
    const char *breakers[API_MAX_BREAKERS + 1]; // of DRY; none: the usual ones
    int32_t best_of; // of completions: so many are made, `choices` of them told
    bool has_seed, ignore_end;
    const char *stops[API_MAX_STOPS + 1];
    bool logprobs;
    int32_t top_logprobs;
    engine_bias *biases;
    int32_t bias_count;
    // chat
    chat_message *messages;
    size_t message_count;
    char **owned; // what messages point to besides the body
    size_t owned_count;
    chat_thinking thinking;
    answer_form form; // its texts are the wish's, or the body's
    char *tools_text, *schema_text, *grammar_key;
    grammar *grammar;  // that the answer keeps to; NULL: none
    bool split;        // the answer is taken apart: thoughts, text, calls
    engine_error note; // of what the answer does not keep to; empty: nothing
    // completions: text, or ids
    const char *prompt;
    size_t prompt_bytes;
    tokenizer_ids ids;
} api_wish;

// Reads the body of a chat/completions or completions request; `vocab` bounds ids. Release with api_wish_free, also
// after a failure.
bool api_read_wish(api_wish *wish, bool chat, const char *body, size_t bytes, int32_t vocab,
                   api_error *error);
bool api_read_wish_of(api_wish *wish, bool chat, json_t *body, int32_t vocab,
                      api_error *error); // takes the body over
void api_wish_free(api_wish *wish);

// The settings of further samplers: those of engine_shaping by name, "samplers", "dry_sequence_breakers".
bool api_read_shaping(api_wish *wish, api_error *error);

// The bodies of /tokenize {"content", "add_special", "parse_special"} and /detokenize {"tokens"}.
typedef struct api_text {
    json_t *root;
    const char *text;
    size_t text_bytes;
    unsigned flags; // of tokenizer_encode
    tokenizer_ids ids;
} api_text;

bool api_read_tokenize(api_text *text, const char *body, size_t bytes, api_error *error);
bool api_read_detokenize(api_text *text, const char *body, size_t bytes, int32_t vocab,
                         api_error *error);
void api_text_free(api_text *text);

#endif
