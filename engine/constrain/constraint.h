// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_CONSTRAINT_H
#define ENGINE_CONSTRAIN_CONSTRAINT_H

// Output that keeps to a grammar. A *grammar* says what a text may be; a *constraint* is a grammar for one vocabulary
// and remembers which tokens are possible where; a *cursor* is a text on its way through it.
//
// Grammars and trees of tokens never change; a constraint and its cursors are for one thread at a time.

#include "engine/constrain/answer_form.h"
#include "engine/constrain/gbnf.h"
#include "engine/constrain/grammar.h"
#include "engine/constrain/schema.h"
#include "engine/constrain/token_trie.h"

typedef struct constraint constraint;
typedef struct constraint_cursor constraint_cursor;

// The grammar becomes the constraint's, also after a failure; the tree must outlive it. Refused is what no text fits.
constraint *constraint_open(grammar *g, const token_trie *trie, engine_error *err);
// Its cursors must be gone. NULL is allowed.
void constraint_close(constraint *c);

constraint_cursor *constraint_begin(constraint *c, engine_error *err); // at the beginning of a text
void constraint_end(constraint_cursor *cursor);                        // may be NULL

// Puts -infinity in the place of the logits of tokens that cannot come next, [vocab]; those that end a text can
// where it may end. Fails where no token can, and where the grammar is too ambiguous here.
bool constraint_apply(constraint_cursor *cursor, float *logits, int32_t vocab, engine_error *err);

// The same for who draws from no more than the `most` likeliest tokens that can come next (and those as likely
// as the last of them): all others may become -infinity. Where it is not known yet what can come next it is
// cheaper, as often only the likeliest are asked. most 0: all.
bool constraint_apply_likeliest(constraint_cursor *cursor, float *logits, int32_t vocab,
                                int32_t most, engine_error *err);

// Could this token come next?
bool constraint_allows(constraint_cursor *cursor, int32_t id);

// The text goes on with a token, none of those that end it. Fails, and nothing changes, if it cannot come next.
bool constraint_accept(constraint_cursor *cursor, int32_t id, engine_error *err);

bool constraint_may_end(const constraint_cursor *cursor);
// Nothing can follow: the text is complete.
bool constraint_complete(const constraint_cursor *cursor);

// Does a whole text keep to the grammar? For tests, and for texts that are there already.
bool constraint_matches(constraint *c, const char *text, size_t bytes);

#endif
