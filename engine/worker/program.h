// SPDX-License-Identifier: MIT
#ifndef ENGINE_WORKER_PROGRAM_H
#define ENGINE_WORKER_PROGRAM_H

// The forward pass of a model as a list of steps {plan, arguments}, made once: what a family's lines ask
// for, layer by layer, with the addresses of weights, buffers and pages already in place. A pass sets the
// number of tokens and walks the list.

#include "engine/cache/page_pool.h"
#include "engine/model/packed.h"

typedef struct model_program model_program;
typedef struct engine_profile engine_profile; // engine.h

typedef struct program_bounds {
    int32_t max_tokens, max_seqs; // in one pass
    int32_t max_kv_len;
    int32_t max_seq_pages; // of one sequence
    int32_t chain_tokens;  // steps of a chain
    weft_device device;    // of the context
    const char *attention; // kernel by name, or NULL
    bool exact;            // activations stay f32
    packed_store
        *store;         // of packed matrices of the CPU; NULL: none are (other devices always pack)
    packed_wish packed; // of those, its first three members
    bool separate;      // norms, matrices and gates are steps of their own
    bool invariant;     // a token's numbers depend on its timeline alone
    int32_t cascade_rows;  // as in engine_options
    int64_t cascade_bytes; // of keys and values, that a layer must save by a cascade
} program_bounds;

// The config, weights, pool and context must outlive the program.
model_program *model_program_make(weft_context *context, const model_config *config,
                                  const model_weights *weights, const page_pool *pool,
                                  const weft_kv_layout *kv, const program_bounds *bounds,
                                  engine_error *err);
void model_program_free(model_program *program); // may be NULL

int64_t model_program_buffer_bytes(const model_program *program);

// Bytes of matrices that lie as the kernels of the CPU like them best, and whether they were found so.
int64_t model_program_packed_bytes(const model_program *program, bool *found);

// The n-th distinct plan, in words; NULL past the last.
const char *model_program_plan_at(const model_program *program, int32_t n);

// Counted since the program was made.
typedef struct program_counts {
    int64_t passes, runs, attention_runs, waits, shared_passes;
    int64_t one_launches; // tokens of one sequence whose layers were one launch
} program_counts;

program_counts model_program_counts(const model_program *program);

// What a pass is told. The arrays are the program's, in the host's memory; the caller fills them in.
typedef struct program_inputs {
    int32_t *ids;           // [max_tokens]
    int32_t *types;         // [max_tokens], where tokens have them, else NULL
    int32_t *cu_q_lens;     // [max_seqs + 1]
    int32_t *kv_lens;       // [max_seqs], with the new tokens
    int32_t *kv_capacities; // [max_seqs], how long a sequence may become in a chain
    int32_t *page_table;    // [max_seqs][max_seq_pages]
    int32_t *rows;          // [head_rows], of the tokens that logits are wanted of
    // [max_tokens], of passes with trees: the token of its sequence in this pass that a token follows, -1: those before
    int32_t *parents;
} program_inputs;

const program_inputs *model_program_inputs(model_program *program);

// Waits until earlier passes are done with the inputs, before they are filled in anew: not again if whoever read a result has waited.
bool model_program_free_inputs(model_program *program, engine_error *err);

// Waits for all that the device was given.
bool model_program_wait(model_program *program, engine_error *err);

// Runs the tokens of `seqs` sequences through all layers.
bool model_program_forward(model_program *program, int32_t tokens, int32_t seqs, engine_error *err);

// The same where new tokens hang together as inputs.parents says: each sees what it follows, and stands behind that; if
// the program takes them.
bool model_program_takes_trees(const model_program *program);
bool model_program_forward_trees(model_program *program, int32_t tokens, int32_t seqs,
                                 engine_error *err);

// The same for one token of each sequence, with logits of all of them: what is recorded once and launched
// from then on; not of encoders. Preparing records it ahead, so that the first pass takes no memory.
bool model_program_decode(model_program *program, int32_t seqs, engine_error *err);
bool model_program_prepare(model_program *program, int32_t seqs, engine_error *err);

// Logits of `count` tokens of the last forward pass, 1 to model_program_head_rows. Token inputs.rows[i]
// becomes row i of model_program_logits.
bool model_program_head(model_program *program, int32_t count, engine_error *err);
int32_t model_program_head_rows(const model_program *program); // at least max_seqs
float *model_program_logits(const model_program *program);     // [head_rows][vocab]

// What the last forward pass leaves of its first `rows` tokens, behind the last norm: [rows][embedding].
bool model_program_states(model_program *program, float *to, int32_t rows, engine_error *err);

// Brings rows of logits to the host's memory and waits until they are there.
bool model_program_read_logits(model_program *program, float *to, const float *from, int32_t rows,
                               engine_error *err);

// Chooses a token for each of `rows` rows of logits, at most max_seqs, wherever they lie on the device. A
// row that has no finite logit is refused. Returns when tokens[rows] have come to the host.
bool model_program_sample(model_program *program, const float *logits, int32_t rows,
                          const weft_sample_params *params, int32_t *tokens, engine_error *err);

// Decoding on the device: every sequence has one token, is taken `steps` tokens further, and each token
// that was chosen is evaluated next, but for the last. Returns when the device has been given the work.
// The inputs are those of one pass with one token per sequence.
typedef struct program_chain {
    int32_t seqs, steps; // steps: 1 to chain_tokens
    int32_t slot;        // 0 or 1: of two chains, one may be under way while the other is read
    bool go_on; // the tokens are those that the last chain chose last; inputs.ids are not read
    const weft_sample_params *params; // [seqs] of the first step; `step` counts on
    // Where the tokens of each timeline are on the device, the one that is evaluated first among them, with
    // room for those that the chain chooses; how many there were before it; how many of the last ones
    // penalties count.
    int32_t *const *history;
    const int32_t *lengths, *windows;
} program_chain;

// Times the steps of one token of each of `seqs` sequences, which inputs say, over and over again at the same place.
engine_profile *model_program_profile(model_program *program, int32_t seqs, int32_t rounds,
                                      engine_error *err);

bool model_program_chain(model_program *program, const program_chain *chain, engine_error *err);

// Waits for a chain: tokens[steps][seqs], which are in the timelines already. Logits after the last but one
// token are in the first rows of the program's until something else is run.
bool model_program_chain_tokens(model_program *program, const program_chain *chain, int32_t *tokens,
                                engine_error *err);

#endif
