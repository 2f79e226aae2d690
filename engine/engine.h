// SPDX-License-Identifier: MIT
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

// The inference engine: the only header that programs include.
//
// Two nouns. A *model* is weights, tokenizer and a paged KV pool on one device; a *session* is one
// timeline of tokens in that pool. Every forward pass is a ragged batch: engine_eval takes any number
// of sessions with any number of new tokens each, cuts them into passes of at most chunk_tokens and
// runs them. Generating for one user is a batch of one.
//
// A model and its sessions are used by one thread at a time.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

#include "engine/base/error.h"
#include "engine/base/system_memory.h"
#include "engine/base/text.h"
#include "engine/chat/chat.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

typedef struct engine_model engine_model;
typedef struct engine_session engine_session;

// --- models -------------------------------------------------------------------------------------------

// All-zero is the default.
typedef struct engine_options {
    weft_device device;
    int32_t threads; // 0: one per core
    int32_t
        context_tokens;   // longest timeline of a session; 0: the model's own length, at most 4096
    int32_t max_sessions; // the KV pool holds this many full timelines; 0: 1
    int32_t chunk_tokens; // most tokens in one forward pass; 0: 512
    weft_dtype kv_dtype;  // f32, f16 or bf16; 0: f16
    bool exact;           // activations stay f32 against quantised weights (slower)
} engine_options;

// Opens a GGUF file. NULL on failure; options may be NULL.
engine_model *engine_model_open(const char *path, const engine_options *options, engine_error *err);

// A model of a known shape ("llama-3.2-1b", "llama-3.1-8b", "qwen3-0.6b", ...) with weights made up in
// memory, all matrices in `format`: for measuring, since speed does not depend on the values. It has no
// tokenizer. Refused before anything is made if weights and KV pool exceed the available memory.
engine_model *engine_model_synthesise(const char *shape, weft_dtype format,
                                      const engine_options *options, engine_error *err);

// The n-th shape that engine_model_synthesise knows; NULL past the last.
const char *engine_shape_at(int32_t n);

// model may be NULL. Close its sessions first.
void engine_model_close(engine_model *model);

typedef struct engine_model_info {
    const char *architecture; // "llama", "qwen2", ...
    const char *name;         // general.name made printable, or "" if the file has none
    int32_t layers, embedding_dim, q_heads, kv_heads, head_dim, feed_forward_dim, vocab;
    int32_t trained_context; // tokens
    int32_t window;          // sliding-window attention, in keys; 0: none
    int64_t parameters;
    int64_t weight_bytes;       // of all tensors
    int64_t streamed_bytes;     // of the weights that one generated token reads
    int64_t kv_bytes_per_token; // over all layers
    int64_t kv_pool_bytes;      // of this model's pool when full
    int64_t buffer_bytes;       // activations and workspace
    int32_t context_tokens, chunk_tokens, page_tokens;
} engine_model_info;

void engine_model_describe(const engine_model *model, engine_model_info *info);

// One line per distinct kernel plan, n = 0, 1, ...; NULL past the last.
const char *engine_model_plan_at(const engine_model *model, int32_t n);

const tokenizer *engine_model_tokenizer(const engine_model *model); // NULL if synthesised
const gguf_file *engine_model_file(const engine_model *model);      // NULL if synthesised
weft_context *engine_model_context(const engine_model *model);

// --- sessions -----------------------------------------------------------------------------------------

engine_session *engine_session_open(engine_model *model, engine_error *err);
void engine_session_close(engine_session *session); // may be NULL

int32_t engine_session_length(const engine_session *session); // tokens in the timeline
const int32_t *engine_session_tokens(const engine_session *session);

// Forgets all tokens from `length` on.
void engine_session_truncate(engine_session *session, int32_t length);

// New tokens for one session.
typedef struct engine_feed {
    engine_session *session;
    const int32_t *ids;
    int32_t count;
    float *logits; // of every new token, [count][vocab]; NULL: only those of the last one are kept,
                   // for engine_session_logits
} engine_feed;

// Called between passes with the tokens done so far; returning false stops the work, and engine_eval
// then fails with "stopped".
typedef bool engine_progress_fn(void *user, int32_t done_tokens, int32_t all_tokens);

// Appends the tokens of all feeds to their sessions and computes what follows them. Refused before
// anything runs: ids outside the vocabulary, timelines that would become longer than the context. A
// session may occur once.
bool engine_eval(engine_model *model, const engine_feed *feeds, int32_t count,
                 engine_progress_fn *progress, void *user, engine_error *err);

// Logits after the last token, [vocab]; NULL if the timeline is empty or was truncated since.
const float *engine_session_logits(const engine_session *session);

// Tokens at the beginning of `ids` that engine_session_sync would not evaluate again.
int32_t engine_session_common(const engine_session *session, const int32_t *ids, int32_t count);

// Makes the timeline equal to `ids`, evaluating only what is behind the common prefix (at least the last
// token, so that logits are there).
bool engine_session_sync(engine_session *session, const int32_t *ids, int32_t count,
                         engine_progress_fn *progress, void *user, engine_error *err);

// Chooses the next token from the session's logits; does not append it. params->history is ignored: the
// penalties count the last `penalty_window` tokens of the timeline.
typedef struct engine_sampling {
    weft_sample_params params;
    int32_t penalty_window; // 0: 64
} engine_sampling;

bool engine_sample(engine_session *session, const engine_sampling *sampling, int32_t *token,
                   engine_error *err);

// --- generation ---------------------------------------------------------------------------------------

typedef enum engine_finish {
    ENGINE_FINISH_LENGTH = 0,  // max_tokens were generated
    ENGINE_FINISH_END = 1,     // the model ended its text
    ENGINE_FINISH_STOP = 2,    // a stop string appeared; it is not part of the text
    ENGINE_FINISH_CONTEXT = 3, // the context is full
    ENGINE_FINISH_CANCEL = 4,  // the caller's write function said so
} engine_finish;

const char *
engine_finish_name(engine_finish finish); // "length", "end", "stop", "context", "cancel"

typedef struct engine_generation {
    int32_t max_tokens; // 0: until the end or until the context is full
    engine_sampling sampling;
    const char *const *stops; // stop strings, NULL-terminated list; NULL: none
    bool ignore_end;          // go on past the model's end token
    // Called after every token with the text that has become certain, whole UTF-8 characters, never part
    // of a stop string; often none. False stops.
    bool (*write)(void *user, const char *text, size_t bytes);
    engine_progress_fn *progress; // of the prompt
    void *user;
} engine_generation;

typedef struct engine_result {
    engine_finish finish;
    int32_t prompt_tokens; // evaluated now; those of a reused prefix are not counted
    int32_t generated_tokens;
    double prompt_seconds, generation_seconds;
    double first_token_seconds; // from the call to the first token
} engine_result;

// Makes the session's timeline equal to the prompt, then generates. Tokens that were generated stay in
// the timeline. A prompt that does not fit into the context is refused.
bool engine_generate(engine_session *session, const int32_t *prompt, int32_t prompt_tokens,
                     const engine_generation *generation, engine_result *result, engine_error *err);

#endif
