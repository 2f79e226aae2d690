// SPDX-License-Identifier: MIT
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

// The inference engine: the only header that programs include.
//
// Three nouns. A *model* is what does not change: numbers, weights, tokenizer. A *worker* runs a model on
// one device: a context, a paged KV pool, plans and buffers; several workers may share a model. A
// *session* is one timeline of tokens in a worker's pool.
//
//      model  <-  worker  <-  session  <-  pass, eval, sample, generate
//                 worker  <-  scheduler  <-  requests of many users
//
// Every forward pass is a ragged batch: engine_pass takes any number of sessions with any number of new
// tokens each. Generating for one user is a batch of one.
//
// Threads: a model may be used by any number of threads at a time; a worker and its sessions by one.

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

// A GGUF file of small matrices (LoRA) that are added to a model's while it runs, times scale.
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
    int32_t pool_tokens;    // that the KV pool holds; 0: max_sessions full timelines
    int32_t chunk_tokens; // most tokens in one forward pass; 0: engine_usual_chunk() of the device
    int32_t
        chain_tokens; // that engine_generate has the device choose in one submission; 0: 1 on the
                      // CPU, 64 elsewhere
    weft_dtype kv_dtype; // of cached keys: every format of <weft/kv.h>; 0: f16 (encoders
                         // on a CPU bf16, unless it shall be exact)
    weft_dtype v_dtype;  // of cached values; 0: kv_dtype
    const char *
        attention; // the kernel of attention by name (weft_kernel_at), for debugging: attention_any_ref
                   // takes scores, softmax and values one after another; NULL: the best. Copied
    bool
        keep_prefixes; // full pages of timelines that are gone are found again by their tokens, until
                       // they are wanted for something else
    bool exact;        // activations stay f32 against quantised weights (slower)
    // On the CPU: a GGUF file's bytes are copied into memory of the process, in huge pages, where they were mapped. That
    // takes as much memory as the file has and the time of copying it; weights are read faster then.
    bool no_mmap;
    // On the CPU matrices of formats for which it has kernels of another layout are laid out at the start as those like them
    // best, in huge pages, if memory has room for all of them: that takes as much memory as they have. Not with no_mmap, or
    // with this: they are read where they lie, as others are anyway.
    bool no_pack;
    // A folder, made if it is not there, where matrices that were laid out are kept and mapped from at the next start, of a model in
    // GGUF files; NULL: nowhere. A file of another model, version or kernel and a damaged one is written anew.
    const char *pack_cache;
    bool
        separate; // norms, matrices and gates are runs of their own: for comparison, and the way of a
                  // device that has not what puts them together
    bool
        invariant; // the logits of a timeline do not depend on what else is in a pass, nor on how its
                   // tokens are cut into passes, to the bit (slower for prompts)
    // From how many rows of queries on (sessions times query heads that share a KV head) a prefix that
    // sessions have in common is attended to once for all; 0: 64, and on a GPU only where a layer reads 144 MB less
    // by it; -1: never. Fewer rows cost more than they save.
    int32_t cascade_rows;
    engine_adapter adapters[ENGINE_MAX_ADAPTERS]; // read when the worker is opened
    int32_t adapter_count;
};

// Tokens of a forward pass where nobody says how many: 512 on the CPU, 2048 on a GPU, which 512 do not fill.
int32_t engine_usual_chunk(weft_device device);

// Makes what runs the model. The model must outlive it. NULL on failure; options may be NULL.
engine_worker *engine_worker_open(engine_model *model, const engine_options *options,
                                  engine_error *err);

// worker may be NULL. Close its sessions first.
void engine_worker_close(engine_worker *worker);

typedef struct engine_worker_info {
    int64_t kv_bytes_per_token; // over all layers
    int64_t kv_pool_bytes;      // when full
    int64_t buffer_bytes;       // activations and workspace
    int64_t packed_bytes; // of matrices that were laid out anew: workers of a model share them
    bool packed_found;    // by another worker, or in pack_cache
    int32_t context_tokens, chunk_tokens, page_tokens;
    int32_t pool_pages, free_pages;
    int32_t remembered_pages; // of the free ones, that keep_prefixes can still find
    int32_t shared_pages;     // that more than one timeline holds
    // Since the worker was opened: forward passes, runs of plans, those of attention among them, and how
    // often the host waited for the device.
    int64_t passes, runs, attention_runs, waits;
    int64_t
        shared_passes; // of the passes, those that attended to prefixes that sessions share once for all
    int64_t one_launches; // likewise, whose layers were one launch of a GPU
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
// that is half full is copied when one of them goes on.
engine_session *engine_session_fork(engine_session *session, engine_error *err);

int32_t engine_session_length(const engine_session *session); // tokens in the timeline
const int32_t *engine_session_tokens(const engine_session *session);

// Forgets all tokens from `length` on.
void engine_session_truncate(engine_session *session, int32_t length);

// The timeline in a file, with its keys and values, so that it need not be evaluated again. A file is taken by a
// worker of the same model whose cache has the same formats; restoring makes the timeline that of the file, or
// empty, with a reason, where it is another's or damaged.
bool engine_session_save(engine_session *session, const char *path, engine_error *err);
bool engine_session_restore(engine_session *session, const char *path, engine_error *err);

// The full pages that a worker remembers (engine_options.keep_prefixes) in a file, likewise; what is restored is found by
// its tokens, as far as the pool has free pages. Where a file is damaged, what stood in front of that may have been taken.
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
    // The last so many ids are guesses: they are evaluated, all in the pass that evaluates the token before
    // them, but the timeline ends before them, with that token's logits. engine_session_accept goes on to
    // one that follows. At most ENGINE_MAX_GUESSES.
    int32_t guesses;
    // [guesses], NULL: each guess follows the one before it. Otherwise a tree: guess i follows guess parents[i] < i or,
    // with -1, the token before all guesses. Only where a worker takes trees (engine_worker_takes_trees).
    const int32_t *parents;
} engine_feed;

// One forward pass of at most chunk_tokens tokens: feeds that wait for one token come first, so that they
// never wait for a long prompt; the others share what is left, in their order. Adds what was evaluated to
// `done` of each feed. *more (may be NULL) tells whether tokens are left. A caller that serves many calls
// it again and again, with new feeds beside those that are not done.
//
// Refused before anything runs: ids outside the vocabulary, timelines that would become longer than the
// context. A session may occur once. After a failure the timelines are what they were.
bool engine_pass(engine_worker *worker, engine_feed *feeds, int32_t count, bool *more,
                 engine_error *err);

// Called between passes with the tokens done so far; returning false stops the work, and engine_eval
// then fails with "stopped". What was evaluated until then stays in the timelines.
typedef bool engine_progress_fn(void *user, int32_t done_tokens, int32_t all_tokens);

// Guesses that all feeds of a pass may have together; each of its feeds may have fewer than chunk_tokens.
int32_t engine_guess_room(const engine_worker *worker, int32_t feeds);

// Does the worker take guesses that are a tree? It does unless it is invariant: what follows a token is summed up in
// another order in a tree.
bool engine_worker_takes_trees(const engine_worker *worker);

// A token that was guessed to follow the timeline becomes part of it, and its logits those of the session. False if the
// last pass has no such guess. Rejecting forgets those that are left, as does whatever else changes the timeline.
bool engine_session_accept(engine_session *session, int32_t token);
void engine_session_reject(engine_session *session);

// Passes until all feeds are done.
bool engine_eval(engine_worker *worker, engine_feed *feeds, int32_t count,
                 engine_progress_fn *progress, void *user, engine_error *err);

// Logits after the last token, [vocab]; NULL if the timeline is empty or was truncated since. Valid until
// the next call with any session of the worker.
const float *engine_session_logits(engine_session *session);

// Tokens at the beginning of `ids` that engine_session_sync would not evaluate again.
int32_t engine_session_common(const engine_session *session, const int32_t *ids, int32_t count);

// Makes the timeline equal to `ids`, evaluating only what is behind the common prefix (at least the last
// token, so that logits are there). If another session of the worker has more of these tokens, its pages
// are shared.
bool engine_session_sync(engine_session *session, const int32_t *ids, int32_t count,
                         engine_progress_fn *progress, void *user, engine_error *err);

// Chooses the next token from the session's logits; does not append it. params->history is ignored: the
// penalties count the last `penalty_window` tokens of the timeline.
typedef struct engine_sampling {
    weft_sample_params params;
    int32_t penalty_window; // 0: 64
    // Further samplers, which the host runs; NULL: none. engine_decode, which draws on the device, does
    // without them.
    const engine_shaping *shaping;
    float *mirostat_mu; // of a text, 0 at its beginning: what mirostat keeps from token to token
} engine_sampling;

// Tokens whose text has one of these strings in it (NULL-terminated list; NULL: the usual ones, which end lines and
// sentences' parts), ascending: engine_shaping.dry_breakers. The caller frees them; NULL when memory is short.
int32_t *engine_dry_breakers(const engine_model *model, const char *const *strings, int32_t *count);

bool engine_sample(engine_session *session, const engine_sampling *sampling, int32_t *token,
                   engine_error *err);

// The same for several sessions, which costs less than one after the other.
typedef struct engine_draw {
    engine_session *session;
    const engine_sampling *sampling;
    int32_t token; // the result
} engine_draw;

bool engine_sample_all(engine_worker *worker, engine_draw *draws, int32_t count, engine_error *err);

// Decodes without a word to the host: takes each of `count` sessions `steps` tokens further, beginning with
// draws[i].token, which is evaluated first; each token that is chosen is evaluated next, but for the last.
// tokens[steps][count] are those chosen; draws[i].token becomes the last of them, which the timeline does not
// have yet. The device is given chains of up to engine_options.chain_tokens at a time. The same tokens as
// engine_eval and engine_sample in turn would give. After a failure the timelines hold what was read until
// then.
bool engine_decode(engine_worker *worker, engine_draw *draws, int32_t count, int32_t steps,
                   int32_t *tokens, engine_error *err);

// Time of one step of decoding a token of every session.
typedef struct engine_step_time {
    const char *op; // "embedding", "norm", "linear", "append", "attention", "activation", "sample"
    const char *plan; // in words
    int32_t layer;    // -1: before the first; the number of layers: behind the last
    double us;        // median of the rounds
    int64_t bytes;    // that it must move at least: weights, cache, rows in and out
} engine_step_time;

typedef struct engine_profile {
    double whole_us; // of a token when nothing is between the steps
    int32_t count;
    engine_step_time steps[];
} engine_profile;

// Decodes the token after the last of each of `count` sessions of one worker again and again, step by step, and
// says how long each took by the device's clock. The timelines stay as they are, their logits go. The result is
// the caller's: free(). NULL on failure.
engine_profile *engine_profile_take(engine_session *const *sessions, int32_t count, int32_t rounds,
                                    engine_error *err);

// --- embeddings ---------------------------------------------------------------------------------------

// A text that becomes a vector: its ids as tokenizer_encode gives them with TOKENIZER_ADD_SPECIAL. Tokens from
// `second` on are of type 1, in models whose tokens have types; 0: all are of type 0.
typedef struct engine_text {
    const int32_t *ids;
    int32_t count, second;
    float *
        states; // [count][embedding_dim], of every token, as the last norm leaves them; NULL: not wanted
} engine_text;

// All-zero is the default.
typedef struct engine_embedding {
    engine_pooling pooling;
    bool keep_length; // else vectors are divided by their length; scores never are
} engine_embedding;

// Elements of a vector: embedding_dim, or labels with ENGINE_POOLING_RANK.
int32_t engine_embedding_dim(const engine_model *model, engine_pooling pooling);

// vectors[i] = the embedding of texts[i], [count][engine_embedding_dim]; states are f32 of the host. Any number of
// texts: as many at a time become one ragged batch as the worker has sessions that are not open, and
// chunk_tokens. A text of an encoder is evaluated in one piece, so it may have no more than chunk_tokens;
// others go through in pieces. Sums of a mean are in double and in the order of the tokens: a vector does not depend on
// the texts beside it but for what the batch does to sums inside kernels.
//
// Refused before anything runs: empty texts, ids outside the vocabulary, texts longer than the context (of
// encoders, the chunk), a score of a model without a classifier, no session left. vectors may be written in part after a
// failure.
bool engine_embed(engine_worker *worker, const engine_text *texts, int32_t count,
                  const engine_embedding *options, float *vectors, engine_error *err);

// --- generation ---------------------------------------------------------------------------------------

typedef enum engine_finish {
    ENGINE_FINISH_LENGTH = 0,  // max_tokens were generated
    ENGINE_FINISH_END = 1,     // the model ended its text
    ENGINE_FINISH_STOP = 2,    // a stop string appeared; it is not part of the text
    ENGINE_FINISH_CONTEXT = 3, // the context is full
    ENGINE_FINISH_CANCEL = 4,  // the caller's write function said so
    ENGINE_FINISH_ERROR = 5,   // of a request: the engine failed
} engine_finish;

const char *
engine_finish_name(engine_finish finish); // "length", "end", "stop", "context", "cancel", "error"

// --- speculation --------------------------------------------------------------------------------------

// Tokens are guessed, several ways on where several are likely, and one pass evaluates all of them; each token is drawn as
// it would be without guesses, and the first that was not guessed ends the way. So a text is the one that its seed gives,
// guesses or not, as far as the worker's arithmetic does not depend on the batch (engine_options.invariant: such a worker
// takes guesses in a row only). Which guesses are made follows from how many proved right and what a pass takes; none
// where that does not pay.
typedef struct engine_speculation {
    bool lookup; // what followed in the text itself where it read as it does now
    // A smaller model with the same tokens (engine_speculation_fits) guesses where lookup does not, with a session of
    // this worker for each text; NULL: none. Its lengths are at least the worker's.
    engine_worker *draft;
    int32_t most; // guesses in a pass; 0: ENGINE_MAX_GUESSES
    bool always;  // also where it does not pay: for tests and measuring
    bool chains;  // in a row only: for comparing
} engine_speculation;

// Has the draft the same tokens as the model?
bool engine_speculation_fits(const engine_model *model, const engine_model *draft,
                             engine_error *err);

typedef struct engine_logprob {
    int32_t id;
    float logprob; // natural logarithm, before penalties, temperature and cuts, behind biases
} engine_logprob;

enum { ENGINE_MAX_LOGPROBS = 20 };

typedef struct engine_token {
    int32_t id;       // TOKENIZER_NONE: none, the rest of the text
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
    constraint *constraint; // that the text keeps to: it ends where that is complete; NULL: none
    const int32_t *
        forced; // [max_tokens]: take the place of the tokens that are drawn, for measuring; NULL: none
    // Called after every token with the text that has become certain, whole UTF-8 characters, never part
    // of a stop string; often none. False stops.
    bool (*write)(void *user, const char *text, size_t bytes);
    // The same with the token, without logprobs; NULL: nobody asks.
    bool (*token)(void *user, const engine_token *token);
    engine_progress_fn *progress; // of the prompt
    void *user;
} engine_generation;

typedef struct engine_result {
    engine_finish finish;
    int32_t prompt_tokens; // evaluated now; those of a reused prefix are not counted
    int32_t generated_tokens;
    double prompt_seconds, generation_seconds;
    double first_token_seconds;              // from the call to the first token
    int32_t guessed_tokens, accepted_tokens; // of speculation; each that was accepted saved a pass
} engine_result;

// Makes the session's timeline equal to the prompt, then generates. Tokens that were generated stay in
// the timeline. A prompt that does not fit into the context is refused.
bool engine_generate(engine_session *session, const int32_t *prompt, int32_t prompt_tokens,
                     const engine_generation *generation, engine_result *result, engine_error *err);

// --- many at once -------------------------------------------------------------------------------------

// A scheduler runs the requests of many users in one worker, all of whose sessions are its own. Requests join
// and leave between passes: every pass brings all that generate a token further and gives the rest of its
// chunk to prompts, in turns among users. Where pages run out the youngest request gives its own back and is
// computed again later; its text goes on as if nothing had happened. The text of a request is that of
// engine_generate, as far as the worker's arithmetic does not depend on the batch (engine_options.invariant).
//
// Threads: the worker's.
typedef struct engine_scheduler engine_scheduler;
typedef struct engine_request engine_request;

// max_waiting: requests that may wait for a session; 0: 256. NULL on failure.
engine_scheduler *engine_scheduler_open(engine_worker *worker, int32_t max_waiting,
                                        engine_error *err);
void engine_scheduler_close(
    engine_scheduler *scheduler); // ends what runs, as cancelled; may be NULL

typedef struct engine_bias {
    int32_t id;
    float value; // added to its logit
} engine_bias;

typedef struct engine_request_result {
    engine_finish finish;
    int32_t prompt_tokens, generated_tokens;
    int32_t cached_tokens; // of the prompt, that were there already
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
    uint64_t owner;       // the user that it is counted for
    // One whose text has not begun, with the same prompt, which is computed once for both: this one begins as a fork of its
    // timeline. Where it has begun or there is no place then, this one begins by itself, as with NULL.
    engine_request *fork_of;
    // Called in engine_scheduler_step: with every token (false ends the request), and once at the end, after
    // which the request is gone.
    bool (*token)(void *user, const engine_token *token);
    void (*end)(void *user, const engine_request_result *result);
    void *user;
} engine_request_wish;

// Takes a request, copying what it needs of the wish. NULL with a reason: a prompt that is empty or too long for
// context or pool, ids out of range, or too many that wait (engine_scheduler_busy).
engine_request *engine_scheduler_submit(engine_scheduler *scheduler,
                                        const engine_request_wish *wish, engine_error *err);
// Requests are speculated for from now on; NULL: they are not. Copied. Before the first is submitted.
void engine_scheduler_speculate(engine_scheduler *scheduler, const engine_speculation *speculation);

bool engine_scheduler_busy(const engine_scheduler *scheduler);

// The request ends, as cancelled, when the next step begins.
void engine_request_cancel(engine_request *request);

// One forward pass of what is there. False when nothing is left to do.
bool engine_scheduler_step(engine_scheduler *scheduler);

typedef struct engine_scheduler_info {
    int32_t waiting, running;
    int64_t prompt_tokens;    // evaluated, those of preempted timelines among them
    int64_t cached_tokens;    // that need not be evaluated
    int64_t generated_tokens; //
    int64_t preemptions, passes;
    int64_t guessed_tokens, accepted_tokens; // of speculation
} engine_scheduler_info;

void engine_scheduler_describe(const engine_scheduler *scheduler, engine_scheduler_info *info);

#endif
