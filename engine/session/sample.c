// SPDX-License-Identifier: MIT
// The sampler reads logits where passes left them; rows that lie one after the other are one call.
#include "engine/session/session.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

static weft_sample_params settle(const engine_draw *draw)
{
    const engine_session *session = draw->session;
    weft_sample_params params = draw->sampling->params;
    int32_t window = session_penalty_window(draw->sampling);
    if (window > session->length)
        window = session->length;
    params.history = window > 0 ? session->history + session->length - window : NULL;
    params.history_len = window;
    return params;
}

// --- what the library's sampler does not do -------------------------------------------------------------

static bool open_room(engine_worker *worker, engine_error *err)
{
    shape_room *room = &worker->shaping;
    int32_t vocab = worker->model->config.vocab;
    void *row = NULL;
    if (room->host)
        return true;
    if (shape_room_make(room, vocab) &&
        weft_memory_allocate(worker->context, WEFT_MEMORY_DEVICE, (size_t)vocab * sizeof(float),
                             &row) == WEFT_OK) {
        room->row = row;
        room->host = worker->settings.options.device == WEFT_DEVICE_CPU
                         ? room->row
                         : engine_alloc((size_t)vocab, sizeof(float));
        if (room->host)
            return true;
        weft_memory_free(worker->context, row);
    }
    shape_room_free(room);
    return engine_fail(err, "not enough memory for the samplers");
}

static bool show_row(engine_worker *worker, engine_error *err)
{
    const shape_room *room = &worker->shaping;
    return room->row == room->host ||
           weft_copy(worker->context, room->row, room->host, (size_t)room->vocab * sizeof(float),
                     NULL) == WEFT_OK ||
           engine_fail(err, "logits cannot be copied: %s", weft_error_text(worker->context));
}

static bool sample_shaped(engine_worker *worker, engine_draw *draw, engine_error *err)
{
    const engine_sampling *sampling = draw->sampling;
    engine_session *session = draw->session;
    const weft_sample_params plain = {
        .temperature =
            sampling->params.temperature > 0 || sampling->shaping->dynatemp_range > 0 ? 1 : 0,
        .seed = sampling->params.seed,
        .step = sampling->params.step};
    float *mu = sampling->mirostat_mu;
    const shape_text text = {.ids = session->ids,
                             .count = session->length,
                             .penalty_window = session_penalty_window(sampling),
                             .mu = mu ? *mu : 0};
    const float *logits = engine_session_logits(session);
    if (!logits || !open_room(worker, err))
        return logits || engine_fail(err, "logits cannot be read");
    shape_row(&worker->shaping, logits, &sampling->params, sampling->shaping, &text);
    if (!show_row(worker, err) ||
        !model_program_sample(worker->program, worker->shaping.row, 1, &plain, &draw->token, err))
        return false;
    if (mu && sampling->shaping->mirostat_tau > 0 && plain.temperature > 0)
        *mu = shape_mu(&worker->shaping, sampling->shaping, *mu, draw->token);
    return true;
}

static bool is_shaped(const engine_draw *draw)
{
    return draw->sampling->shaping && engine_shaping_asks(draw->sampling->shaping);
}

// --- rows that lie side by side -------------------------------------------------------------------------

static bool sample_rows(engine_worker *worker, engine_draw *draws, int32_t count, engine_error *err)
{
    for (int32_t i = 0; i < count; i++) {
        worker->draw_params[i] = settle(&draws[i]);
        if (worker->draw_params[i].history && !session_show_history(draws[i].session, err))
            return false;
    }
    if (!model_program_sample(worker->program, draws[0].session->logits, count, worker->draw_params,
                              worker->drawn, err))
        return false;
    for (int32_t i = 0; i < count; i++)
        draws[i].token = worker->drawn[i];
    return true;
}

bool engine_sample_all(engine_worker *worker, engine_draw *draws, int32_t count, engine_error *err)
{
    size_t vocab = (size_t)worker->model->config.vocab;
    if (!session_admits(worker, count, 0, err))
        return false;
    for (int32_t i = 0; i < count; i++) {
        if (!session_is_of(draws[i].session, worker, err))
            return false;
        if (!draws[i].session->logits)
            return engine_fail(err, "there is nothing to sample from: evaluate a token first");
    }
    for (int32_t first = 0, rows; first < count; first += rows) {
        const float *logits = draws[first].session->logits;
        rows = 1;
        if (is_shaped(&draws[first])) {
            if (!sample_shaped(worker, &draws[first], err))
                return false;
            continue;
        }
        for (; first + rows < count; rows++)
            if (draws[first + rows].session->logits != logits + (size_t)rows * vocab ||
                is_shaped(&draws[first + rows]))
                break;
        if (!sample_rows(worker, draws + first, rows, err))
            return false;
    }
    return true;
}

bool engine_sample(engine_session *session, const engine_sampling *sampling, int32_t *token,
                   engine_error *err)
{
    engine_draw draw = {.session = session, .sampling = sampling};
    if (!engine_sample_all(session->worker, &draw, 1, err))
        return false;
    *token = draw.token;
    return true;
}

// --- breakers -------------------------------------------------------------------------------------------

static bool has_one(tokenizer_bytes piece, const char *const *strings)
{
    for (; *strings; strings++) {
        size_t bytes = strlen(*strings);
        for (size_t at = 0; at + bytes <= piece.size_bytes; at++)
            if (memcmp(piece.data + at, *strings, bytes) == 0)
                return true;
    }
    return false;
}

int32_t *engine_dry_breakers(const engine_model *model, const char *const *strings, int32_t *count)
{
    static const char *const usual[] = {"\n", ":", "\"", "*", NULL};
    const tokenizer *t = model->tokenizer;
    size_t pieces = t ? tokenizer_size(t) : 0;
    int32_t *ids = engine_alloc(pieces, sizeof *ids);
    *count = 0;
    for (size_t id = 0; ids && id < pieces; id++) {
        tokenizer_bytes piece = {"", 0};
        if (tokenizer_piece(t, (int32_t)id, &piece) && has_one(piece, strings ? strings : usual))
            ids[(*count)++] = (int32_t)id;
    }
    return ids;
}
