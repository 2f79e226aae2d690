// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_JINJA_JINJA_RUN_H
#define ENGINE_CHAT_JINJA_JINJA_RUN_H

// A rendering under way: jinja_run.c has statements, jinja_evaluate.c expressions, jinja_operations.c what
// both do with values; filters, tests, methods and functions are tables in files of their own.

#include "engine/chat/jinja/jinja_syntax.h"

// Names that are known at a place; looked up outwards.
typedef struct jinja_frame {
    struct jinja_frame *outer;
    jinja_dict_data *names;
} jinja_frame;

typedef enum jinja_flow { JINJA_FLOW_ON, JINJA_FLOW_BREAK, JINJA_FLOW_CONTINUE } jinja_flow;

typedef struct jinja_run {
    jinja_box *box;
    jinja_frame *frame;
    jinja_frame *top; // the template's own names, which macros see
    jinja_writer *out;
    jinja_flow flow;
    jinja_value gathered; // what a JINJA_NODE_BODY stands for
    int depth;
} jinja_run;

// What a call is given.
typedef struct jinja_arguments {
    jinja_value *items;
    size_t count;
    jinja_dict_data *named;
} jinja_arguments;

typedef jinja_value jinja_filter_fn(jinja_run *run, jinja_value input,
                                    const jinja_arguments *given);
typedef jinja_value jinja_method_fn(jinja_run *run, jinja_value object,
                                    const jinja_arguments *given);
typedef bool jinja_test_fn(jinja_run *run, jinja_value input, const jinja_arguments *given);

struct jinja_callable {
    jinja_method_fn *method; // a function: its object is undefined
    jinja_value object;
    const jinja_node *macro; // a macro or the body of a call block, with the frame it was made in
    jinja_frame *frame;
    jinja_value (*call)(jinja_run *run, const struct jinja_callable *macro,
                        const jinja_arguments *given); // does a macro
};

// NULL if there is none of that name.
jinja_filter_fn *jinja_filter_find(jinja_text name);
jinja_filter_fn *jinja_value_filter_find(jinja_text name); // of values and texts alone
jinja_test_fn *jinja_test_find(jinja_text name);
jinja_method_fn *jinja_method_find(jinja_value object, jinja_text name);
void jinja_add_globals(jinja_run *run, jinja_dict_data *names);

// The n-th argument, or the one of that name; undefined if neither is given.
jinja_value jinja_argument(jinja_run *run, const jinja_arguments *given, size_t n,
                           const char *name);
int64_t jinja_argument_int(jinja_run *run, const jinja_arguments *given, size_t n, const char *name,
                           int64_t fallback);

jinja_value jinja_evaluate(jinja_run *run, const jinja_node *node);
jinja_value jinja_attribute(jinja_run *run, jinja_value object, jinja_value key);
jinja_value jinja_call(jinja_run *run, jinja_value callable, const jinja_arguments *given);
jinja_value jinja_slice(jinja_run *run, jinja_value object, const jinja_value bounds[3]);
bool jinja_contains(jinja_run *run, jinja_value container, jinja_value item);
jinja_value jinja_apply_test(jinja_run *run, jinja_text name, jinja_value input,
                             const jinja_arguments *given, int32_t line);

// The next of a generator's items, of which some are left.
jinja_value jinja_next(jinja_list *left);
// With marks of HTML in words.
jinja_text jinja_escape(jinja_run *run, jinja_text text);

void jinja_execute(jinja_run *run, const jinja_nodes *body);

// The value that a name has here.
jinja_value jinja_lookup(jinja_run *run, jinja_text name);
void jinja_assign(jinja_run *run, const jinja_node *target, jinja_value value);
jinja_value jinja_new_callable(jinja_run *run, jinja_callable callable);

#endif
