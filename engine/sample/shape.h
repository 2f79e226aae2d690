// SPDX-License-Identifier: MIT
#ifndef ENGINE_SAMPLE_SHAPE_H
#define ENGINE_SAMPLE_SHAPE_H

// What samplers do to a row of logits: arithmetic alone.

#include <weft/weft.h>

#include "engine/sample/shaping.h"

typedef struct shape_candidate {
    int32_t id;
    float logit;
} shape_candidate;

// Memory for rows of `vocab` logits.
typedef struct shape_room {
    shape_candidate *list, *spare; // [vocab]
    float *row;  // [vocab], of the device that draws; who makes the room brings it
    float *host; // [vocab], `row` if that is the host's
    int32_t vocab;
} shape_room;

bool shape_room_make(shape_room *room, int32_t vocab); // list and spare; false when memory is short
void shape_room_free(shape_room *room);

typedef struct shape_text {
    const int32_t *ids; // [count], the timeline
    int32_t count;
    int32_t penalty_window; // of its last tokens, that penalties count
    float mu;               // of mirostat; 0: the text begins
} shape_text;

// Writes to room->host what is left of the logits: as they are to be drawn from at temperature 1 (0: the largest), -inf
// where nothing is left. NaN counts as -inf.
void shape_row(const shape_room *room, const float *logits, const weft_sample_params *params,
               const engine_shaping *shaping, const shape_text *text);

// The mu of the next token, when `token` was drawn from what shape_row left.
float shape_mu(const shape_room *room, const engine_shaping *shaping, float mu, int32_t token);

#endif
