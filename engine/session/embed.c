// SPDX-License-Identifier: MIT
// Texts to vectors: passes that leave the states of tokens, and what is made of these on the host.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/session/pass.h"

typedef struct embedder {
    engine_worker *worker;
    const model_config *config;
    engine_pooling pooling, pooled; // pooled: what RANK's classifier reads, else the same
    bool keep_length;
    engine_session **sessions; // [room]
    engine_feed *feeds;        // [room]
    int32_t room;
    float *states; // [chunk_tokens][embedding_dim] of a pass
    double *sums;  // [room][embedding_dim]
    float *row;    // [embedding_dim] of a matrix of the classifier
} embedder;

static engine_pooling settle(const model_config *config, engine_pooling wish)
{
    if (wish == ENGINE_POOLING_DEFAULT)
        wish = (engine_pooling)config->pooling;
    if (wish != ENGINE_POOLING_DEFAULT)
        return wish;
    return config->full_mask ? ENGINE_POOLING_MEAN : ENGINE_POOLING_LAST;
}

int32_t engine_embedding_dim(const engine_model *model, engine_pooling pooling)
{
    const model_config *config = &model->config;
    return settle(config, pooling) == ENGINE_POOLING_RANK ? config->labels : config->embedding_dim;
}

// --- the classifier of a reranker ---------------------------------------------------------------------------

// y = W x + b, in double; W may be in any format.
static bool multiply(embedder *e, const model_tensor *matrix, const model_tensor *bias,
                     const double *x, double *y, engine_error *err)
{
    size_t row_bytes = (size_t)weft_dtype_row_bytes(matrix->dtype, matrix->cols);
    const float *added = bias->data;
    for (int64_t r = 0; r < matrix->rows; r++) {
        const char *from = (const char *)matrix->data + (size_t)r * row_bytes;
        if (weft_dequantize_row(matrix->dtype, from, matrix->cols, e->row) != WEFT_OK)
            return engine_fail(err, "the classifier's matrix cannot be read as f32");
        double sum = added ? added[r] : 0;
        for (int64_t i = 0; i < matrix->cols; i++)
            sum += e->row[i] * x[i];
        y[r] = sum;
    }
    return true;
}

// The norm of the classifier, where it has one.
static void normalise(const embedder *e, double *x)
{
    const model_tensor *globals = e->worker->model->weights.globals;
    const float *weight = globals[MODEL_GLOBAL_CLASSIFIER_NORM].data;
    const float *bias = globals[MODEL_GLOBAL_CLASSIFIER_NORM_BIAS].data;
    const int32_t dim = e->config->embedding_dim;
    double mean = 0, square = 0;
    for (int32_t i = 0; weight && i < dim; i++)
        mean += x[i] / dim;
    for (int32_t i = 0; weight && i < dim; i++)
        square += (x[i] - mean) * (x[i] - mean) / dim;
    for (int32_t i = 0; weight && i < dim; i++)
        x[i] = (x[i] - mean) / sqrt(square + (double)e->config->norm_eps) * weight[i] +
               (bias ? bias[i] : 0);
}

// scores = W' norm(function(W state + b)) + b'
static bool score(embedder *e, const double *state, float *scores, engine_error *err)
{
    const model_tensor *globals = e->worker->model->weights.globals;
    const model_tensor *dense = &globals[MODEL_GLOBAL_CLASSIFIER];
    size_t dim = (size_t)e->config->embedding_dim, labels = (size_t)e->config->labels;
    double *inner = engine_alloc(dim + labels, sizeof *inner);
    if (!inner)
        return engine_fail(err, "not enough memory for scores");
    memcpy(inner, state, dim * sizeof *inner);
    bool fine = !dense->data ||
                multiply(e, dense, &globals[MODEL_GLOBAL_CLASSIFIER_BIAS], state, inner, err);
    const bool gelu = e->config->architecture->traits & MODEL_SCORES_BY_GELU;
    for (size_t i = 0; dense->data && i < dim; i++)
        inner[i] = gelu ? inner[i] / 2 * (1 + erf(inner[i] / sqrt(2))) : tanh(inner[i]);
    if (dense->data)
        normalise(e, inner);
    fine = fine && multiply(e, &globals[MODEL_GLOBAL_SCORE], &globals[MODEL_GLOBAL_SCORE_BIAS],
                            inner, inner + dim, err);
    for (size_t i = 0; fine && i < labels; i++)
        scores[i] = (float)inner[dim + i];
    free(inner);
    return fine;
}

// --- pooling ------------------------------------------------------------------------------------------------

// Takes the states of tokens [from, from + count) of a text of `all` tokens into its sum.
static void pool(const embedder *e, double *sum, const float *states, int32_t from, int32_t count,
                 int32_t all)
{
    int32_t dim = e->config->embedding_dim;
    for (int32_t t = 0; t < count; t++) {
        bool wanted = e->pooled == ENGINE_POOLING_MEAN   ? true
                      : e->pooled == ENGINE_POOLING_LAST ? from + t == all - 1
                                                         : from + t == 0;
        for (int32_t i = 0; wanted && i < dim; i++)
            sum[i] += (double)states[(size_t)t * (size_t)dim + (size_t)i];
    }
}

static bool finish(embedder *e, double *sum, int32_t tokens, float *vector, engine_error *err)
{
    int32_t dim = e->config->embedding_dim;
    double square = 0;
    for (int32_t i = 0; i < dim; i++) {
        if (e->pooled == ENGINE_POOLING_MEAN)
            sum[i] /= tokens;
        square += sum[i] * sum[i];
    }
    if (!isfinite(square))
        return engine_fail(err, "the states of this model are not finite numbers: its file is "
                                "damaged or was converted badly, get another");
    if (e->pooling == ENGINE_POOLING_RANK)
        return score(e, sum, vector, err);
    double scale = e->keep_length || square == 0 ? 1 : 1 / sqrt(square);
    for (int32_t i = 0; i < dim; i++)
        vector[i] = (float)(sum[i] * scale);
    return true;
}

// --- passes -------------------------------------------------------------------------------------------------

// Types of tokens in the order of the pass: feeds of one token come first there, then the others.
static void set_types(embedder *e, const engine_text *texts, int32_t count)
{
    int32_t *types = model_program_inputs(e->worker->program)->types, row = 0;
    for (int single = 1; types && single >= 0; single--)
        for (int32_t n = 0; n < count; n++)
            for (int32_t i = 0; (texts[n].count == 1) == single && i < texts[n].count; i++)
                types[row++] =
                    e->config->token_types > 1 && texts[n].second > 0 && i >= texts[n].second;
}

// The states of one pass go to the sums of their texts, and to whoever wants them.
static bool take_states(embedder *e, const engine_text *texts, int32_t count, engine_error *err)
{
    const pass_outputs *out = &e->worker->outputs;
    size_t dim = (size_t)e->config->embedding_dim;
    int32_t rows = 0;
    for (int32_t n = 0; n < count; n++)
        rows += out->taken[n];
    if (!model_program_states(e->worker->program, e->states, rows, err))
        return false;
    for (int32_t n = 0; n < count; n++) {
        const float *states = e->states + (size_t)out->first[n] * dim;
        int32_t from = e->feeds[n].done - out->taken[n];
        if (out->taken[n] == 0)
            continue;
        pool(e, e->sums + (size_t)n * dim, states, from, out->taken[n], texts[n].count);
        if (texts[n].states)
            memcpy(texts[n].states + (size_t)from * dim, states,
                   (size_t)out->taken[n] * dim * sizeof *states);
    }
    return true;
}

static bool embed_group(embedder *e, const engine_text *texts, int32_t count, float *vectors,
                        engine_error *err)
{
    size_t dim = (size_t)e->config->embedding_dim;
    size_t width =
        (size_t)(e->pooling == ENGINE_POOLING_RANK ? e->config->labels : e->config->embedding_dim);
    bool more = true;
    memset(e->sums, 0, (size_t)count * dim * sizeof *e->sums);
    for (int32_t n = 0; n < count; n++) {
        e->feeds[n] =
            (engine_feed){.session = e->sessions[n], .ids = texts[n].ids, .count = texts[n].count};
    }
    while (more) {
        if (!model_program_wait(e->worker->program, err))
            return false;
        set_types(e, texts, count);
        if (!pass_states(e->worker, e->feeds, count, err) || !take_states(e, texts, count, err))
            return false;
        more = false;
        for (int32_t n = 0; n < count; n++)
            more = more || e->feeds[n].done < e->feeds[n].count;
    }
    for (int32_t n = 0; n < count; n++)
        if (!finish(e, e->sums + (size_t)n * dim, texts[n].count, vectors + (size_t)n * width, err))
            return false;
    for (int32_t n = 0; n < count; n++)
        engine_session_truncate(e->sessions[n], 0);
    return true;
}

// --- the whole ----------------------------------------------------------------------------------------------

static bool check(const embedder *e, const engine_text *texts, int32_t count, engine_error *err)
{
    const engine_options *options = &e->worker->settings.options;
    int32_t most = options->context_tokens;
    if (e->config->full_mask && options->chunk_tokens < most)
        most = options->chunk_tokens;
    if (e->pooling < ENGINE_POOLING_MEAN || e->pooling > ENGINE_POOLING_RANK)
        return engine_fail(err, "%d is no way to pool", (int)e->pooling);
    if (e->pooling == ENGINE_POOLING_RANK && e->config->labels == 0)
        return engine_fail(err, "the model has no classifier that could give a score: it is no "
                                "reranker, choose another --pooling");
    for (int32_t n = 0; n < count; n++) {
        if (texts[n].count < 1)
            return engine_fail(err, "text %d is empty", n);
        if (texts[n].count > most)
            return engine_fail(err,
                               "text %d has %d tokens, the model reads %d: shorten it or choose a "
                               "larger context (--ctx)",
                               n, texts[n].count, most);
    }
    return true;
}

static bool open_sessions(embedder *e, int32_t count, engine_error *err)
{
    const engine_options *options = &e->worker->settings.options;
    int32_t left = options->max_sessions - e->worker->open_sessions;
    int32_t room = count < left ? count : left;
    size_t dim = (size_t)e->config->embedding_dim;
    if (room < 1)
        return engine_fail(err, "all %d sessions are open: close one to embed",
                           options->max_sessions);
    e->sessions = engine_alloc((size_t)room, sizeof *e->sessions);
    e->feeds = engine_alloc((size_t)room, sizeof *e->feeds);
    e->states = engine_alloc((size_t)options->chunk_tokens * dim, sizeof *e->states);
    e->sums = engine_alloc((size_t)room * dim, sizeof *e->sums);
    e->row = engine_alloc(dim, sizeof *e->row);
    if (!e->sessions || !e->feeds || !e->states || !e->sums || !e->row)
        return engine_fail(err, "not enough memory for embeddings");
    for (; e->room < room; e->room++) {
        e->sessions[e->room] = engine_session_open(e->worker, err);
        if (!e->sessions[e->room])
            return false;
    }
    return true;
}

static void close_sessions(embedder *e)
{
    for (int32_t n = 0; n < e->room; n++)
        engine_session_close(e->sessions[n]);
    free(e->sessions);
    free(e->feeds);
    free(e->states);
    free(e->sums);
    free(e->row);
}

// Texts of one group: those of an encoder fill a pass at most.
static int32_t group(const embedder *e, const engine_text *texts, int32_t count)
{
    int64_t tokens = 0, most = e->worker->settings.options.chunk_tokens;
    int32_t n = 0;
    for (; n < count && n < e->room; n++) {
        tokens += texts[n].count;
        if (n > 0 && tokens > most)
            break;
    }
    return n;
}

bool engine_embed(engine_worker *worker, const engine_text *texts, int32_t count,
                  const engine_embedding *options, float *vectors, engine_error *err)
{
    const model_config *config = &worker->model->config;
    embedder e = {.worker = worker,
                  .config = config,
                  .pooling = settle(config, options ? options->pooling : ENGINE_POOLING_DEFAULT),
                  .keep_length = options && options->keep_length};
    e.pooled = e.pooling == ENGINE_POOLING_RANK ? (engine_pooling)config->score_pooling : e.pooling;
    size_t width = (size_t)engine_embedding_dim(worker->model, e.pooling);
    if (count < 1)
        return count == 0 || engine_fail(err, "%d texts cannot be embedded", count);
    bool fine = check(&e, texts, count, err) && open_sessions(&e, count, err);
    for (int32_t done = 0; fine && done < count;) {
        int32_t n = group(&e, texts + done, count - done);
        fine = embed_group(&e, texts + done, n, vectors + (size_t)done * width, err);
        done += n;
    }
    close_sessions(&e);
    return fine;
}
