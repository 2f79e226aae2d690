// SPDX-License-Identifier: MIT
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

// The inference engine: the only header that programs include.
//
// Three nouns. A *model* is what does not change: sizes, weights, tokenizer. A *worker* runs a model on one
// device: a context, a paged KV pool, plans and buffers; several workers may share a model. A *session* is
// one timeline of tokens in a worker's pool.
//
//      model  <-  worker  <-  session  <-  pass, eval, sample, generate
//                 worker  <-  scheduler  <-  requests of many users
//
// Every forward pass is a ragged batch: engine_pass takes any number of sessions, each with any number of
// new tokens. Generating for one user is a batch of one.
//
// Threads: any number of threads may use a model at the same time; only one may use a worker and its
// sessions.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

#include "engine/base/error.h"
#include "engine/base/system_memory.h"
#include "engine/base/text.h"
#include "engine/chat/answer_parts.h"
#include "engine/chat/chat.h"
#include "engine/constrain/constraint.h"
#include "engine/models.h"
#include "engine/quantize/quantize.h"
#include "engine/safetensors/checkpoint.h"
#include "engine/sample/shaping.h"

typedef struct engine_worker engine_worker;
typedef struct engine_session engine_session;

// --- workers ------------------------------------------------------------------------------------------

enum { ENGINE_MAX_ADAPTERS = 8 };

// A GGUF file of low-rank matrices (LoRA) whose products, times scale, are added to a model's while it runs.
typedef struct engine_adapter {
    const char *path;
    float scale;
} engine_adapter;

// All-zero is the default.
struct engine_options {
    weft_device device;
    int32_t device_index;   // among the devices of its kind
    int32_t threads;        // 0: one per core
    int32_t context_tokens; // longest timeline of a session; 0: the model's own, at most 4096
    int32_t max_sessions;   // open at a time; 0: 1
    int32_t pool_tokens;    // size of the KV pool; 0: max_sessions full timelines
    int32_t chunk_tokens; // most tokens in one forward pass; 0: engine_usual_chunk() of the device
    // Tokens that the device chooses in one submission of engine_generate; 0: 1 on the CPU, 64 elsewhere.
    int32_t chain_tokens;
    // Of cached keys, every format of <weft/kv.h>; 0: f16 (encoders on a CPU: bf16, unless exact).
    weft_dtype kv_dtype;
    weft_dtype v_dtype; // of cached values; 0: kv_dtype
    // Name of the attention kernel (weft_kernel_at), for debugging: attention_any_ref computes scores,
    // softmax and values one after another; NULL: the best. Copied.
    const char *attention;
    // Full pages of timelines that are gone can be found again by their tokens, until their space is needed.
    bool keep_prefixes;
    bool exact; // activations stay f32 against quantised weights (slower)
    // On the CPU: copies a GGUF file's bytes into memory, in huge pages, instead of mapping the file. That
    // takes as much memory as the file and the time to copy it; weights are then read faster.
    bool no_mmap;
    // On the CPU, matrices of formats with kernels for another layout are laid out that way at the start, in
    // huge pages, if there is room for all of them; that takes as much memory again. Not with no_mmap nor
    // with this option: then they are read where they lie, as all other matrices are.
    bool no_pack;
    // A folder, created if needed, that keeps the matrices that were laid out, of a model in GGUF files, so
    // that the next start maps them; NULL: none. A file that is damaged, or of another model, version or
    // kernel, is written anew.
    const char *pack_cache;
    // Norms, matrices and gates are runs of their own: for comparison, and for devices that cannot join them.
    bool separate;
    // To the bit, the logits of a timeline do not depend on what else is in a pass, nor on how its tokens
    // are cut into passes (slower for prompts).
    bool invariant;
    // Fewest rows of queries (sessions times query heads that share a KV head) for which a prefix that
    // sessions have in common is attended to once for all; fewer rows cost more than they save. 0: 64, and
    // on a GPU only where a layer then reads 144 MB less; -1: never.
    int32_t cascade_rows;
    engine_adapter adapters[ENGINE_MAX_ADAPTERS]; // read when the worker is opened
    int32_t adapter_count;
};

// Default of chunk_tokens: 512 on the CPU, 2048 on a GPU, which 512 do not fill.
int32_t engine_usual_chunk(weft_device device);

// Opens a worker for a model, which must outlive it. NULL on failure; options may be NULL.
engine_worker *engine_worker_open(engine_model *model, const engine_options *options,
                                  engine_error *err);

// worker may be NULL. Close its sessions first.
void engine_worker_close(engine_worker *worker);

typedef struct engine_worker_info {
    int64_t kv_bytes_per_token; // over all layers
    int64_t kv_pool_bytes;      // when full
    int64_t buffer_bytes;       // activations and workspace
    int64_t packed_bytes; // of matrices that were laid out anew; workers of a model share them
    bool packed_found;    // they were there: from another worker, or in pack_cache
    int32_t context_tokens, chunk_tokens, page_tokens;
    int32_t pool_pages, free_pages;
    int32_t remembered_pages; // free ones that keep_prefixes can still find
    int32_t shared_pages;     // held by more than one timeline
    // Since the worker was opened: forward passes; runs of plans, and those of attention among them; how
    // often the host waited for the device.
    int64_t passes, runs, attention_runs, waits;
    int64_t shared_passes; // passes that attended to shared prefixes once for all sessions
    int64_t one_launches;  // passes whose layers were one launch of a GPU
} engine_worker_info;

void engine_worker_describe(const engine_worker *worker, engine_worker_info *info);

// One line per distinct kernel plan, n = 0, 1, ...; NULL past the last.
const char *engine_worker_plan_at(const engine_worker *worker, int32_t n);

const engine_model *engine_worker_model(const engine_worker *worker);
weft_context *engine_worker_context(const engine_worker *worker);

// --- sessions -----------------------------------------------------------------------------------------

engine_session *engine_session_open(engine_worker *worker, engine_error *err);
void engine_session_close(engine_session *session); // may be NULL

// A second timeline that begins with all tokens of this one. Both share the pages of the KV pool; a page
// that is only partly full is copied when one of them goes on.
engine_session *engine_session_fork(engine_session *session, engine_error *err);

int32_t engine_session_length(const engine_session *session); // tokens in the timeline
const int32_t *engine_session_tokens(const engine_session *session);

// Forgets all tokens from `length` on.
void engine_session_truncate(engine_session *session, int32_t length);

// Saves the timeline with its keys and values, so that it need not be evaluated again. A file serves workers
// of the same model whose cache has the same formats. Restoring makes the timeline that of the file; if the
// file is damaged or another model's, the timeline becomes empty and the call fails with the reason.
bool engine_session_save(engine_session *session, const char *path, engine_error *err);
bool engine_session_restore(engine_session *session, const char *path, engine_error *err);

// The same for the full pages that a worker remembers (engine_options.keep_prefixes). Restored pages are found
// by their tokens; there are as many as the pool has free pages. Of a damaged file, what stood before the
// damage may have been taken.
bool engine_worker_save_pages(const engine_worker *worker, const char *path, engine_error *err);
bool engine_worker_restore_pages(engine_worker *worker, const char *path, engine_error *err);

enum { ENGINE_MAX_GUESSES = 15 }; // of a session in one pass

// New tokens for one session.
typedef struct engine_feed {
    engine_session *session;
    const int32_t *ids;
    int32_t count;
    float *logits; // of every new token, [count][vocab]; NULL: only those of the last one are kept,
                   // for engine_session_logits
    int32_t done;  // tokens that passes have evaluated so far; 0 before the first
    // How many of the last ids are guesses, at most ENGINE_MAX_GUESSES. They are evaluated, all in the pass
    // of the token before them, but the timeline ends with that token and its logits.
    // engine_session_accept moves on to a guess that follows.
    int32_t guesses;
    // [guesses]; NULL: each guess follows the one before it. Otherwise a tree: guess i follows guess
    // parents[i] < i or, with -1, the token before all guesses. Only if engine_worker_takes_trees.
    const int32_t *parents;
} engine_feed;

// One forward pass of at most chunk_tokens tokens. Feeds that wait for one token come first, so that they
// never wait for a long prompt; the others share what is left, in their order. Adds what was evaluated to
// `done` of each feed. *more (may be NULL) says whether tokens are left. A caller that serves many users
// calls this again and again, adding new feeds to those that are not done.
//
// Refused before anything runs: ids outside the vocabulary, and timelines that would become longer than the
// context. A session may occur only once. After a failure the timelines are what they were.
bool engine_pass(engine_worker *worker, engine_feed *feeds, int32_t count, bool *more,
                 engine_error *err);

// Called between passes with the tokens done so far. If it returns false, the work stops and engine_eval
// fails with "stopped"; what was evaluated until then stays in the timelines.
typedef bool engine_progress_fn(void *user, int32_t done_tokens, int32_t all_tokens);

// Most guesses of all feeds of a pass together; a single feed may have fewer than chunk_tokens.
int32_t engine_guess_room(const engine_worker *worker, int32_t feeds);

// Does the worker take trees of guesses? Invariant workers do not: in a tree, sums have another order.
bool engine_worker_takes_trees(const engine_worker *worker);

// Makes a token that was guessed to follow the timeline part of it; its logits become those of the session.
// False if the last pass has no such guess. Rejecting forgets the remaining guesses, as does anything else
// that changes the timeline.
bool engine_session_accept(engine_session *session, int32_t token);
void engine_session_reject(engine_session *session);

// Runs passes until all feeds are done.
bool engine_eval(engine_worker *worker, engine_feed *feeds, int32_t count,
                 engine_progress_fn *progress, void *user, engine_error *err);

// Logits after the last token, [vocab]; NULL if the timeline is empty or was truncated since they were
// made. Valid until the next call with any session of the worker.
const float *engine_session_logits(engine_session *session);

// Tokens at the beginning of `ids` that engine_session_sync would not evaluate again.
int32_t engine_session_common(const engine_session *session, const int32_t *ids, int32_t count);

// Makes the timeline equal to `ids`, evaluating only what comes after the common prefix (but at least the
// last token, so that there are logits). If another session of the worker has more of these tokens, its
// pages are shared.
bool engine_session_sync(engine_session *session, const int32_t *ids, int32_t count,
                         engine_progress_fn *progress, void *user, engine_error *err);

// Chooses the next token from the session's logits; does not append it. params->history is ignored: the
// penalties count the last `penalty_window` tokens of the timeline.
typedef struct engine_sampling {
    weft_sample_params params;
    int32_t penalty_window; // 0: 64
    // Further samplers, which the host runs; NULL: none. engine_decode draws on the device and ignores them.
    const engine_shaping *shaping;
    float *mirostat_mu; // of a text, 0 at its beginning: what mirostat keeps from token to token
} engine_sampling;

// Tokens whose text contains one of these strings (NULL-terminated list; NULL: the usual ones, which end lines
// and parts of sentences), ascending, for engine_shaping.dry_breakers. The caller frees them; NULL if memory
// is short.
int32_t *engine_dry_breakers(const engine_model *model, const char *const *strings, int32_t *count);

bool engine_sample(engine_session *session, const engine_sampling *sampling, int32_t *token,
                   engine_error *err);

// The same for several sessions at once, which costs less than one after the other.
typedef struct engine_draw {
    engine_session *session;
    const engine_sampling *sampling;
    int32_t token; // the result
} engine_draw;

bool engine_sample_all(engine_worker *worker, engine_draw *draws, int32_t count, engine_error *err);

// Decodes on the device without the host: moves each of `count` sessions on by `steps` tokens. draws[i].token
// is evaluated first, then each chosen token but the last. tokens[steps][count] receives the chosen ones;
// draws[i].token becomes the last of them, which is not yet part of the timeline. The device is given chains
// of up to engine_options.chain_tokens at a time. The tokens are those that engine_eval and engine_sample in
// turn would give. After a failure the timelines hold what was read until then.
bool engine_decode(engine_worker *worker, engine_draw *draws, int32_t count, int32_t steps,
                   int32_t *tokens, engine_error *err);

// Time of one step of decoding a token of every session.
typedef struct engine_step_time {
    const char *op; // "embedding", "norm", "linear", "append", "attention", "activation", "sample"
    const char *plan; // in words
    int32_t layer;    // -1: before the first; the number of layers: behind the last
    double us;        // median of the rounds
    int64_t bytes;    // least bytes that it must move: weights, cache, rows in and out
} engine_step_time;

typedef struct engine_profile {
    double whole_us; // of a token, without gaps between the steps
    int32_t count;
    engine_step_time steps[];
} engine_profile;

// Decodes the token after the last of each of `count` sessions of one worker again and again, step by step, and
// reports how long each step took by the device's clock. The timelines stay as they are, their logits are lost.
// The caller frees the result with free(). NULL on failure.
engine_profile *engine_profile_take(engine_session *const *sessions, int32_t count, int32_t rounds,
                                    engine_error *err);

// --- embeddings ---------------------------------------------------------------------------------------

// A text that becomes a vector: its ids as tokenizer_encode gives them with TOKENIZER_ADD_SPECIAL. In models
// whose tokens have types, tokens from `second` on are of type 1; 0: all are of type 0.
typedef struct engine_text {
    const int32_t *ids;
    int32_t count, second;
    // [count][embedding_dim], of every token, as the last norm leaves them; NULL: not wanted.
    float *states;
} engine_text;

// All-zero is the default.
typedef struct engine_embedding {
    engine_pooling pooling;
    bool keep_length; // else vectors are divided by their length; scores never are
} engine_embedding;

// Elements of a vector: embedding_dim, or labels with ENGINE_POOLING_RANK.
int32_t engine_embedding_dim(const engine_model *model, engine_pooling pooling);

// vectors[i] = the embedding of texts[i], [count][engine_embedding_dim]; states are f32 on the host. Any number
// of texts: as many as the worker has free sessions, and fit into chunk_tokens, become one ragged batch at a
// time. An encoder evaluates a text in one piece, of at most chunk_tokens; other models in several. Means are
// summed in double in the order of the tokens, so a vector depends on the texts beside it only through what
// the batch does to sums inside kernels.
//
// Refused before anything runs: empty texts, ids outside the vocabulary, texts longer than the context (for
// encoders: the chunk), a score of a model without a classifier, no free session. After a failure, vectors may
// have been written in part.
bool engine_embed(engine_worker *worker, const engine_text *texts, int32_t count,
                  const engine_embedding *options, float *vectors, engine_error *err);

// --- generation ---------------------------------------------------------------------------------------

typedef enum engine_finish {
    ENGINE_FINISH_LENGTH = 0,  // max_tokens were generated
    ENGINE_FINISH_END = 1,     // the model ended its text
    ENGINE_FINISH_STOP = 2,    // a stop string appeared; it is not part of the text
    ENGINE_FINISH_CONTEXT = 3, // the context is full
    ENGINE_FINISH_CANCEL = 4,  // the caller's write function returned false
    ENGINE_FINISH_ERROR = 5,   // of a request: the engine failed
} engine_finish;

// "length", "end", "stop", "context", "cancel", "error"
const char *engine_finish_name(engine_finish finish);

// --- speculation --------------------------------------------------------------------------------------

// Tokens are guessed (several continuations where several are likely) and one pass evaluates all of them. Each
// token is drawn as it would be without guesses, and the first that was not guessed ends the branch. So a text
// is the one that its seed gives, guesses or not, as far as the worker's arithmetic does not depend on the
// batch (engine_options.invariant; such a worker takes only chains of guesses). How much is guessed follows
// from how many guesses were right and what a pass costs; nothing is, where that does not pay.
typedef struct engine_speculation {
    bool lookup; // guess what followed earlier in the text, where it read as it does at its end
    // A smaller model with the same tokens (engine_speculation_fits), which guesses where lookup does not, with
    // one session of this worker per text; NULL: none. Its contexts must be at least as long as the worker's.
    engine_worker *draft;
    int32_t most; // guesses in a pass; 0: ENGINE_MAX_GUESSES
    bool always;  // also where it does not pay: for tests and measurements
    bool chains;  // no trees: for comparison
} engine_speculation;

// Has the draft the same tokens as the model?
bool engine_speculation_fits(const engine_model *model, const engine_model *draft,
                             engine_error *err);

typedef struct engine_logprob {
    int32_t id;
    float logprob; // natural logarithm, after biases, before penalties, temperature and cuts
} engine_logprob;

enum { ENGINE_MAX_LOGPROBS = 20 };

typedef struct engine_token {
    int32_t id;       // TOKENIZER_NONE: no token, but the rest of the text
    const char *text; // what has become certain with it: whole characters, often none
    size_t text_bytes;
    float logprob;                   // if asked for
    const engine_logprob *likeliest; // [likeliest_count], the likeliest first
    int32_t likeliest_count;
} engine_token;

typedef struct engine_generation {
    int32_t max_tokens; // 0: until the end or until the context is full
    engine_sampling sampling;
    const char *const *stops;              // stop strings, NULL-terminated list; NULL: none
    bool ignore_end;                       // go on past the model's end token
    const engine_speculation *speculation; // NULL: none. Chains are not used with it
    constraint *constraint; // the text keeps to it and ends where it is complete; NULL: none
    const int32_t *forced;  // [max_tokens], used instead of drawn tokens, to measure; NULL: none
    // Called after every token with the text that has become certain: whole UTF-8 characters, often none,
    // never part of a stop string. False stops.
    bool (*write)(void *user, const char *text, size_t bytes);
    // The same with the token, without logprobs; NULL: not called.
    bool (*token)(void *user, const engine_token *token);
    engine_progress_fn *progress; // of the prompt
    void *user;
} engine_generation;

typedef struct engine_result {
    engine_finish finish;
    int32_t prompt_tokens; // evaluated in this call; those of a reused prefix are not counted
    int32_t generated_tokens;
    double prompt_seconds, generation_seconds;
    double first_token_seconds;              // from the call to the first token
    int32_t guessed_tokens, accepted_tokens; // of speculation; each that was accepted saved a pass
} engine_result;

// Makes the session's timeline equal to the prompt, then generates. Generated tokens stay in the timeline.
// A prompt that does not fit into the context is refused.
bool engine_generate(engine_session *session, const int32_t *prompt, int32_t prompt_tokens,
                     const engine_generation *generation, engine_result *result, engine_error *err);

// --- many at once -------------------------------------------------------------------------------------

// A scheduler runs the requests of many users in one worker, whose sessions are all its own. Requests join and
// leave between passes. Every pass moves all requests that generate on by a token and gives the rest of its
// chunk to prompts, in turns among users. If pages run out, the youngest request gives its pages back and is
// computed again later; its text continues as if nothing had happened. The text of a request is that of
// engine_generate, as far as the worker's arithmetic does not depend on the batch (engine_options.invariant).
//
// Threads: the worker's.
typedef struct engine_scheduler engine_scheduler;
typedef struct engine_request engine_request;

// max_waiting: requests that may wait for a session; 0: 256. NULL on failure.
engine_scheduler *engine_scheduler_open(engine_worker *worker, int32_t max_waiting,
                                        engine_error *err);
// Ends what runs, as cancelled. NULL is allowed.
void engine_scheduler_close(engine_scheduler *scheduler);

typedef struct engine_bias {
    int32_t id;
    float value; // added to its logit
} engine_bias;

typedef struct engine_request_result {
    engine_finish finish;
    int32_t prompt_tokens, generated_tokens;
    int32_t cached_tokens; // of the prompt, found in the cache
    int32_t preemptions;
    const char *error; // of ENGINE_FINISH_ERROR
} engine_request_result;

typedef struct engine_request_wish {
    const int32_t *prompt;
    int32_t prompt_tokens;
    int32_t max_tokens; // 0: until the end or until the context is full
    engine_sampling sampling;
    const char *const *stops; // NULL-terminated list; NULL: none
    bool ignore_end;
    constraint *constraint;    // must outlive the request; NULL: none
    const engine_bias *biases; // [bias_count]
    int32_t bias_count;
    bool logprobs;
    int32_t top_logprobs; // at most ENGINE_MAX_LOGPROBS
    int32_t priority;     // larger goes first
    uint64_t owner;       // the user that it counts for
    // A request with the same prompt whose text has not begun: the prompt is computed once, and this request
    // begins as a fork of that timeline. If that text has begun, or there is no room, this request begins by
    // itself, as with NULL.
    engine_request *fork_of;
    // Called in engine_scheduler_step: with every token (false ends the request), and once at the end, after
    // which the request no longer exists.
    bool (*token)(void *user, const engine_token *token);
    void (*end)(void *user, const engine_request_result *result);
    void *user;
} engine_request_wish;

// Takes a request, copying what it needs of the wish. NULL with a reason: the prompt is empty or too long for
// context or pool, ids are out of range, or too many requests wait (engine_scheduler_busy).
engine_request *engine_scheduler_submit(engine_scheduler *scheduler,
                                        const engine_request_wish *wish, engine_error *err);

// Turns speculation on for all requests, or off with NULL; call it before the first is submitted. Copied.
void engine_scheduler_speculate(engine_scheduler *scheduler, const engine_speculation *speculation);

bool engine_scheduler_busy(const engine_scheduler *scheduler);

// Ends the request, as cancelled, when the next step begins.
void engine_request_cancel(engine_request *request);

// Runs one forward pass. False if nothing is left to do.
bool engine_scheduler_step(engine_scheduler *scheduler);

typedef struct engine_scheduler_info {
    int32_t waiting, running;
    int64_t prompt_tokens; // evaluated, those of preempted timelines included
    int64_t cached_tokens; // found in the cache
    int64_t generated_tokens;
    int64_t preemptions, passes;
    int64_t guessed_tokens, accepted_tokens; // of speculation
} engine_scheduler_info;

void engine_scheduler_describe(const engine_scheduler *scheduler, engine_scheduler_info *info);

#endif
