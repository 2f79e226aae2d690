// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_SHAPES_H
#define ENGINE_MODEL_SHAPES_H

// Shapes of well-known models, for measuring without their files.

#include "engine/model/config.h"

// The n-th name; NULL past the last.
const char *model_shape_at(int32_t n);

// `name` may end in a slash and a number of layers: fewer of the same.
bool model_shape_config(model_config *config, const char *name, engine_error *err);

#endif
