// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_CHAIN_H
#define ENGINE_SESSION_CHAIN_H

// Several tokens of one or more sessions in one submission to the device.

#include "engine/session/session.h"

typedef struct token_chain {
    const engine_draw *draws; // the sessions, each once, and how they choose
    int32_t count;
    int32_t pending; // tokens of the chain before, which the timelines do not have yet
    int32_t steps;   // it evaluates as many tokens of each session and chooses as many
    int32_t slot;    // 0 or 1: one chain may be under way while the other is read
} token_chain;

// Gives the device a chain. It begins with draws[].token, or, behind pending tokens, with the last one that
// the chain before chooses. The sessions' logits are nobody's until chain_end.
bool chain_begin(engine_worker *worker, const token_chain *chain, engine_error *err);

// Waits for the tokens[steps][count] that the chain chose.
bool chain_take(engine_worker *worker, const token_chain *chain, int32_t *tokens,
                engine_error *err);

// The timelines end with what the last chain evaluated: its logits are the sessions' again.
void chain_end(const token_chain *chain);

#endif
