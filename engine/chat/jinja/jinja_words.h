// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_JINJA_JINJA_WORDS_H
#define ENGINE_CHAT_JINJA_JINJA_WORDS_H

// What filters and methods share.

#include "engine/chat/jinja/jinja_run.h"

jinja_value jinja_lower(jinja_run *run, jinja_text text);
jinja_value jinja_upper(jinja_run *run, jinja_text text);
jinja_value jinja_capitalize(jinja_run *run, jinja_text text);
jinja_value jinja_title(jinja_run *run, jinja_text text);

// At most `count` times; a negative count means all.
jinja_value jinja_replace(jinja_run *run, jinja_text text, jinja_text from, jinja_text to,
                          int64_t count);

// Pairs of key and value.
jinja_value jinja_dict_items(jinja_run *run, jinja_value dict);

#endif
