// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_JINJA_JINJA_BOX_H
#define ENGINE_CHAT_JINJA_JINJA_BOX_H

// What a rendering works with: memory that is freed as one, the count of steps, the first failure.

#include "engine/chat/jinja/jinja.h"

typedef struct jinja_block {
    struct jinja_block *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
} jinja_block;

struct jinja_box {
    jinja_block *blocks;
    size_t left_bytes;
    int64_t left_steps;
    const char *time_text;
    bool failed;
    engine_error error; // the first failure
};

struct jinja_list {
    jinja_value *items;
    size_t count, capacity;
    bool tuple;
};

typedef struct jinja_entry {
    jinja_value key, value;
} jinja_entry;

struct jinja_dict_data {
    jinja_entry *entries;
    size_t count, capacity;
    bool is_namespace; // the only thing whose attributes a template may set
};

// Zeroed memory; NULL (and the box has failed) when the limit is reached.
void *jinja_take(jinja_box *box, size_t count, size_t size);

// Counts work; false when the limit is reached or something has failed before.
bool jinja_step(jinja_box *box, size_t steps);

// Remembers the first failure; an undefined value, for callers that return one.
jinja_value jinja_refuse(jinja_box *box, const char *format, ...) ENGINE_PRINTF(2, 3);

// --- text ---------------------------------------------------------------------------------------------

jinja_value jinja_of_text(jinja_box *box, jinja_text text);
jinja_value jinja_literal(jinja_box *box,
                          const char *text); // NUL-terminated, static, the template's own
jinja_text jinja_part(jinja_text text, size_t start, size_t size_bytes);
bool jinja_same(jinja_text a, jinja_text b);
bool jinja_text_is(jinja_text text, const char *word);

// Where needle stands in text from `from` on; SIZE_MAX if it does not.
size_t jinja_seek(jinja_text text, jinja_text needle, size_t from);

// Characters of a text, and the byte at which one begins (size_bytes past the last).
size_t jinja_characters(jinja_text text);
size_t jinja_character_at(jinja_text text, size_t index);

// Without white space at the ends that are asked for, or without the characters of `set` if it is given.
jinja_text jinja_strip(jinja_text text, const jinja_text *set, bool left, bool right);

// Text that grows.
typedef struct jinja_writer {
    jinja_box *box;
    char *data;
    unsigned char *origin;
    size_t size_bytes, capacity;
} jinja_writer;

void jinja_write(jinja_writer *writer, jinja_text text);
void jinja_write_own(jinja_writer *writer, const char *text); // NUL-terminated, of the template
void jinja_write_bytes(jinja_writer *writer, const char *data, size_t size_bytes,
                       unsigned char source);
jinja_text jinja_written(const jinja_writer *writer);

// A generator of the items of a list, which nobody else has.
jinja_value jinja_generator(jinja_value list);

// --- lists and dicts ----------------------------------------------------------------------------------

jinja_value jinja_find(jinja_box *box, const jinja_dict_data *dict,
                       jinja_value key); // or undefined
bool jinja_has_key(jinja_box *box, const jinja_dict_data *dict, jinja_value key);
void jinja_put(jinja_box *box, jinja_dict_data *dict, jinja_value key, jinja_value value);

// --- what Python would say of a value -------------------------------------------------------------------

bool jinja_truth(jinja_value value);
bool jinja_equal(jinja_box *box, jinja_value a, jinja_value b);
bool jinja_is_number(jinja_value value);
double jinja_number(jinja_value value);
const char *jinja_type_name(jinja_value value);

// -1, 0 or 1; values that have no order fail.
int jinja_compare(jinja_box *box, jinja_value a, jinja_value b);

// The items that a loop over the value visits: of a list, the keys of a dict, the characters of a text, what is
// left of a generator, of which nothing is left then.
jinja_value jinja_items_of(jinja_box *box, jinja_value value);

// str(value): what {{ value }} prints.
void jinja_print(jinja_writer *writer, jinja_value value);
jinja_text jinja_as_text(jinja_box *box, jinja_value value);

// json.dumps(value, ensure_ascii=ascii); indent < 0: on one line.
void jinja_write_json(jinja_writer *writer, jinja_value value, int indent, bool ascii);

#endif
