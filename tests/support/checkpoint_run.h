// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_CHECKPOINT_RUN_H
#define TESTS_SUPPORT_CHECKPOINT_RUN_H

// Runs of a model against what transformers made of its folder. These end the cmocka test on failure.

#include "engine/engine.h"
#include "tests/support/golden.h"

// The largest difference from the golden logits, over the largest of these: the text in one piece.
double checkpoint_distance(engine_model *model, const golden *file);

// The worst of the text in one piece, in pieces, and token by token.
double checkpoint_distance_however_cut(engine_model *model, const golden *file);

// The tokens that follow the text are those of the case `name` of checkpoints/greedy.safetensors.
void checkpoint_expect_greedy(const char *name, engine_model *model, const golden *file,
                              const golden *greedy);

#endif
