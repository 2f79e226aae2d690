// SPDX-License-Identifier: MIT
#ifndef ENGINE_WORKER_PROGRAM_STEPS_H
#define ENGINE_WORKER_PROGRAM_STEPS_H

// What a program holds; shared by the file that makes it and the file that runs it.

#include "engine/worker/program.h"

typedef enum step_kind {
    STEP_EMBEDDING,
    STEP_NORM,
    STEP_LINEAR,
    STEP_APPEND,
    STEP_ATTENTION,
    STEP_ACTIVATION,
    STEP_SAMPLE,
    STEP_ROUTE,
    STEP_EXPERTS,
    STEP_ROUND,
} step_kind;

// Attention to shared prefixes; program_cascade.c.
typedef struct program_cascade {
    weft_attention_desc desc; // of the attention that it takes the place of
    weft_cascade *made;
} program_cascade;

typedef struct program_cascades {
    program_cascade *list;
    int32_t count;
    weft_batch *prefixes, *own; // what the two levels of all of them share
    bool now;                   // the pass under way takes them
    int32_t groups;             // of sequences that follow each other, a prefix each
    int32_t *cu_q_lens, *prefix_lens, *prefix_starts; // [groups]
    int32_t *own_lens, *own_starts, *own_capacities;  // [seqs]
    int32_t *positions, *slots;                       // [seqs] of queries of prefixes: none
    int64_t least_saved; // keys that are read once less, or it does not pay
    // Of attention that appends, in the cache's format: [max_seqs][q_heads][head_dim]; NULL: none does.
    void *queries;
} program_cascades;

// Attention to trees of guesses.
typedef struct program_trees {
    bool none;          // are taken
    bool now;           // the pass under way has them
    int32_t *parents;   // of the inputs
    int32_t *positions; // [max_tokens], as deep in its tree as a token is
} program_trees;

// One run. Everything is in place but the number of rows.
typedef struct program_step {
    step_kind kind;
    int32_t rows_per_token; // of NORM: heads
    int32_t layer;          // -1: before the first, the number of layers: behind the last
    const weft_plan *plan;
    const weft_cascade *cascade; // of ATTENTION, for passes with shared prefixes; NULL: none
    const program_cascades *cascades;
    // Of ATTENTION that appends and rounds itself, which cascades do not: NULL where it does not.
    const weft_plan *append, *round;
    float *unrounded;      // what `round` reads
    const weft_plan *tree; // of ATTENTION, for passes with trees; NULL: none
    const program_trees *trees;
    union {
        weft_embedding_args embedding;
        weft_norm_args norm;
        weft_linear_args linear;
        weft_kv_append_args append;
        weft_attention_args attention;
        weft_activation_args activation;
        weft_sample_args sample;
        weft_route_args route;
        weft_experts_args experts;
    } args;
} program_step;

typedef struct step_list {
    program_step *steps;
    int32_t count, room;
} step_list;

// A plan and the descriptor it was made from: equal descriptors share a plan.
typedef struct program_plan {
    step_kind kind;
    union {
        weft_embedding_desc embedding;
        weft_norm_desc norm;
        weft_linear_desc linear;
        weft_kv_append_desc append;
        weft_attention_desc attention;
        weft_activation_desc activation;
        weft_sample_desc sample;
        weft_route_desc route;
        weft_experts_desc experts;
        weft_round_desc round;
    } desc;
    weft_plan *plan;
} program_plan;

// Memory of one kind, handed out from its beginning to its end.
typedef struct program_arena {
    char *base; // NULL while it is only counted
    size_t used, bytes;
} program_arena;

enum { ARENA_WEIGHTS, ARENA_BUFFERS, ARENA_PINNED, ARENA_COUNT };
enum { PROGRAM_ALIGN = 256 };

struct model_program {
    weft_context *context;
    const model_config *config;
    const model_weights *weights;
    const page_pool *pool;
    weft_kv_layout kv;
    program_bounds bounds;
    weft_rope_params ropes[2]; // the config's rope and local_rope, with the factors of the weights
    program_plan *plans;
    int32_t plan_count;
    step_list layers; // embedding, then all layers
    step_list gather; // rows that logits are wanted of, from X to NORMED
    step_list head;   // NORMED to logits; of encoders empty
    // What the layers leave to what they say of each token: the last norm, if there is one.
    step_list states;
    step_list sample; // logits to tokens
    float *buffers[MODEL_BUFFER_COUNT];
    void *rounded[MODEL_BUFFER_COUNT];    // the same in 8 bits, of HIDDEN, GATED and ATTENDED
    bool rounded_now[MODEL_BUFFER_COUNT]; // while building: who wrote it last, wrote that too,
    const model_tensor *rounded_for[MODEL_BUFFER_COUNT]; // and for this norm
    bool activated; // while building: what made the feed-forward's rows applied the function,
    weft_dtype gated_dtype; // and they are
    struct {
        int32_t *ids, *starts, *order;
        float *weights;
    } routing;      // of the tokens to the experts of a layer, which the next MODEL_MIX reads
    float *adapted; // [max_tokens][rank], between the two matrices of an adapter
    weft_attention_append append; // what a layer appends
    weft_batch *batch; // of every append and attention; NULL while the program is only counted
    program_cascades cascades;
    program_trees trees;
    program_inputs inputs; // the host's
    bool inputs_given;     // to the device, which has not been waited for since
    int32_t *ids;          // [max_tokens], on the device, as are:
    int32_t *types;        // [max_tokens], where tokens have them
    int32_t *zeros;        // [max_tokens] of the host's, where all tokens look a bias up, or NULL
    float *slopes;         // [q_heads] of the host's, of ALiBi, or NULL
    int32_t *rows;         // [head_rows], read by `gather`
    int32_t *sampled;      // [2][max_seqs]: tokens; again, or -1 where a logit is not finite
    int32_t *sampled_copy; // [2][max_seqs] of the host's, and
    float *picked;         // [max_seqs] their logits
    weft_sample_params *undrawn; // [max_seqs], of draws that nobody makes
    weft_sample_params *draws;   // [max_seqs], of a chain's next link
    int32_t head_rows;
    float *logits;
    void *workspace;
    size_t workspace_bytes;
    program_arena arenas[ARENA_COUNT];
    packed_wish wish;       // what the arena of weights has, of the CPU
    packed_weights *packed; // which is these then; NULL: memory of the context
    bool packed_found;      // and need not be written
    program_counts counts;
    int32_t tokens; // of the last pass
    int32_t layer;  // while building: whose steps are added
    // [2][max_seqs + 1], without and with cascades, by the number of sequences: all runs of a pass with one
    // token each, recorded once (program_chain.c).
    weft_program **decoders;
    weft_program **links; // the same with the choice of the next token, and all moved on to it
    int64_t decoder_runs, link_runs;
    bool cannot_record; // the device has no programs
    // Chains: what was chosen, [2][max_seqs][chain_tokens] in pinned memory, and when it is there.
    int32_t *chosen;
    weft_event *events[2];
    weft_sample_params *params; // [max_seqs] of a chain that is being given to the device
};

// Gives an attention step the cascade of its descriptor, where it can have one; `out` is where its result is if nothing
// rounds it.
bool program_add_cascade(model_program *program, program_step *step,
                         const weft_attention_desc *desc, float *out, engine_error *err);
bool program_open_cascades(model_program *program, engine_error *err);
void program_drop_cascades(model_program *program); // those that were planned
void program_close_cascades(model_program *program);
// The batch is set to one token of each sequence: finds the prefixes that they share and decides whether the
// pass attends to them once for all.
bool program_share_prefixes(model_program *program, int32_t seqs, const int32_t *capacities,
                            engine_error *err);
weft_status program_run_cascade(const program_step *step, int32_t tokens);

// A link of a chain, as if it were launched again and again at one place; begin makes it ready, with the
// inputs as they are and draws of the likeliest token.
bool program_begin_links(model_program *program, int32_t seqs, engine_error *err);
bool program_run_link(model_program *program, int32_t seqs, engine_error *err);

// What a pass is made of; shared with chains.
weft_status program_run_step(program_step *step, int32_t rows);
bool program_run_list(model_program *program, step_list *list, int32_t rows, engine_error *err);
bool program_run_head(model_program *program, const float *x, int32_t count, engine_error *err);
bool program_upload(model_program *program, int32_t *to, const int32_t *from, int32_t count,
                    engine_error *err);
// capacities: how long each sequence may become before the batch is set again; NULL: as it is.
bool program_set_batch(model_program *program, int32_t seqs, const int32_t *capacities,
                       engine_error *err);
// Copies from the device to the host's memory and waits.
weft_status program_read_back(model_program *program, void *to, const void *from, size_t bytes);
bool program_not_finite(engine_error *err); // words it, returns false

// `bytes` of an arena, or only counted while it has no memory: NULL then.
void *program_carve(model_program *program, int arena, size_t bytes);

// Where the device reads `bytes` of the host's memory: there, or in a copy that is made now.
bool program_place(model_program *program, const void *host, size_t bytes, const void **at,
                   engine_error *err);

// What program_add_linear is told.
typedef struct program_linear {
    const void *x;
    const model_tensor *norm;      // in front; NULL: none
    const model_tensor *norm_bias; // of LayerNorm; NULL or without data: none
    int64_t x_stride, y_stride;    // elements from token to token; 0: packed
    bool x_rounded;                // x is a rounded buffer; with a norm, one that was made for it
    struct {
        const model_tensor *matrix, *bias; // bias may be NULL
        void *y;
    } parts[MODEL_MAX_PARTS];    // ends at the first without a matrix
    weft_dtype x_dtype, y_dtype; // f32 (0) or bf16
    weft_linear_gate gate;       // of two parts, or the function of one
    bool y_rounded;              // the gate's result goes to a rounded buffer
    const void *residual;        // of y's strides: added to y, may be y; NULL: none
    float alpha;                 // multiplies the product; 0: 1
    const model_tensor *next;    // the next norm, whose rounded input is made beside y; NULL: none
    void *next_rounded;
    int32_t max_batch;
} program_linear;

// Has one of its matrices adapters? If so, program_add_adapters adds what they give to the parts' y, once
// the matrices have written it.
bool program_is_adapted(const program_linear *linear);
bool program_add_adapters(model_program *program, step_list *list, const program_linear *linear,
                          engine_error *err);
// What those of the embedding add to the stream.
bool program_add_embedding_adapters(model_program *program, float *stream, engine_error *err);

// What program_add_embedding is told.
typedef struct program_embedding {
    const model_tensor *table;
    const void *rows;   // those of the table, where the device reads them
    const int32_t *ids; // on the device
    int32_t max_tokens;
    float scale; // 0: 1
    float *y;
    bool adds; // to what is in y
} program_embedding;

// What program_add_norm is told: rows of the weight's length.
typedef struct program_norm {
    weft_norm_kind kind;
    const model_tensor *weight, *bias; // without data, bias also NULL: none
    int32_t rows_per_token;
    const float *x, *residual; // residual: added to y, NULL: none
    float *y;
    int64_t x_stride, y_stride; // elements from row to row; 0: packed
} program_norm;

// What program_add_activation is told: y becomes function(x) [* up], row by row.
typedef struct program_activation {
    weft_activation_kind function;
    float cap; // of a soft-cap
    int64_t dim;
    int32_t max_rows, rows_per_token; // 0: 1
    const float *x, *up;
    float *y;
    int64_t x_stride, y_stride; // elements from row to row; 0: packed
} program_activation;

// Does attention append what it attends to itself?
bool program_appends(const model_program *program);
bool program_layer_appends(const model_program *program, int32_t layer); // in this layer, too

// Each appends one step to a list, with a plan that equal steps share. False on failure. Pointers to
// weights are the host's, all others the device's.
bool program_add_embedding(model_program *program, step_list *list,
                           const program_embedding *embedding, engine_error *err);
bool program_add_norm(model_program *program, step_list *list, const program_norm *norm,
                      engine_error *err);
bool program_add_linear(model_program *program, step_list *list, const program_linear *linear,
                        engine_error *err);
// What such a step rounds its input to before it multiplies: f32 where it does not, or cannot be.
weft_dtype program_linear_rounds_to(const model_program *program, const program_linear *linear);
bool program_add_activation(model_program *program, step_list *list,
                            const program_activation *activation, engine_error *err);
bool program_add_append(model_program *program, int32_t layer, engine_error *err);
// rounds: the result goes to a rounded buffer.
bool program_add_attention(model_program *program, int32_t layer, bool rounds, engine_error *err);
bool program_add_sample(model_program *program, engine_error *err);

// All lists anew, of all layers and what stands before and behind them (program_build.c).
bool program_add_all(model_program *program, engine_error *err);

// The same for lines of mixtures; `tensors` are the layer's.
bool program_add_route(model_program *program, const model_tensor *tensors, const model_line *line,
                       engine_error *err);
typedef struct program_mixture {
    const void *x;
    bool x_rounded;           // x is a rounded buffer, made for the line's norm
    const model_tensor *next; // as in program_linear
    void *next_rounded;
} program_mixture;
bool program_add_experts(model_program *program, const model_tensor *tensors,
                         const model_line *line, const program_mixture *mixture, engine_error *err);
// Would the device run the line's experts with WEFT_LINEAR_X_ROUNDED, or _NEXT?
bool program_experts_take(const model_program *program, const model_tensor *tensors,
                          const model_line *line, uint32_t flag);

// The same for lines of latent attention.
bool program_add_absorb(model_program *program, const model_tensor *tensors, const model_line *line,
                        engine_error *err);
bool program_add_expand(model_program *program, const model_tensor *tensors, const model_line *line,
                        engine_error *err);

// The family's function as a gate.
weft_linear_gate program_gate(const model_program *program);

// What they are made of: a step without arguments, which the caller fills in (NULL if that failed), and
// where the device reads a tensor; of one that there may not be, *at stays NULL.
program_step *program_add_step(model_program *program, step_list *list, step_kind kind,
                               const void *desc, size_t bytes, engine_error *err);
// The plan of a descriptor of `bytes` bytes, made when it is asked for the first time; NULL if that failed.
const weft_plan *program_plan_for(model_program *program, step_kind kind, const void *desc,
                                  size_t bytes, engine_error *err);
bool program_place_vector(model_program *program, const model_tensor *vector, const void **at,
                          engine_error *err);
// The planes beside a matrix, where there are any.
bool program_place_planes(model_program *program, const model_tensor *tensor, const void **scales,
                          const void **biases, engine_error *err);

#endif
