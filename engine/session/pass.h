// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_PASS_H
#define ENGINE_SESSION_PASS_H

#include "engine/session/session.h"

// engine_session_sync that also says how many tokens it evaluated.
bool session_sync(engine_session *session, const int32_t *ids, int32_t count,
                  engine_progress_fn *progress, void *user, int32_t *evaluated, engine_error *err);

// engine_pass for the states of tokens: no logits are made. worker->outputs says which rows of
// model_program_states are whose.
bool pass_states(engine_worker *worker, engine_feed *feeds, int32_t count, engine_error *err);

#endif
