// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_CHAIN_H
#define ENGINE_SESSION_CHAIN_H

// Several tokens of one session in one submission to the device.

#include "engine/session/session.h"

typedef struct token_chain {
    int32_t start; // tokens in the timeline before it
    int32_t steps; // it evaluates as many tokens and chooses as many
    int32_t slot;  // 0 or 1: one chain may be under way while the other is read
} token_chain;

// Gives the device a chain. It begins with `token`, or, if that is negative, with the last one that the
// chain before chooses. The session's logits are nobody's until chain_end.
bool chain_begin(engine_session *session, const engine_sampling *sampling, const token_chain *chain,
                 int32_t token, engine_error *err);

// Waits for the tokens[steps] that the chain chose.
bool chain_take(engine_session *session, const token_chain *chain, int32_t *tokens,
                engine_error *err);

// The timeline ends with what the last chain evaluated: its logits are the session's again.
void chain_end(engine_session *session);

#endif
