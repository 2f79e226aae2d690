// SPDX-License-Identifier: MIT
// Statements.
#include "engine/chat/jinja/jinja_run.h"

#include <string.h>

enum { MAX_DEPTH = 300 }; // shared with expressions: a call is both

static void set_name(jinja_run *run, jinja_frame *frame, jinja_text name, jinja_value value)
{
    jinja_put(run->box, frame->names, jinja_of_text(run->box, name), value);
}

void jinja_assign(jinja_run *run, const jinja_node *target, jinja_value value)
{
    jinja_box *box = run->box;
    if (!target || !jinja_step(box, 1))
        return;
    if (target->kind == JINJA_NODE_NAME) {
        set_name(run, run->frame, target->text, value);
    } else if (target->kind == JINJA_NODE_ATTRIBUTE) {
        jinja_value object = jinja_lookup(run, target->a->text);
        if (object.kind == JINJA_DICT && object.dict->is_namespace)
            jinja_put(box, object.dict, jinja_of_text(box, target->text), value);
        else
            jinja_refuse(box, "line %d: only members of a namespace can be set", target->line);
    } else {
        jinja_value items = jinja_items_of(box, value);
        if (!box->failed && items.list->count != target->list.count)
            jinja_refuse(box, "line %d: %zu values for %zu names", target->line, items.list->count,
                         target->list.count);
        for (size_t i = 0; !box->failed && i < target->list.count; i++)
            jinja_assign(run, target->list.items[i], items.list->items[i]);
    }
}

// A new frame; where it ends, run->frame must be what it was. NULL when memory is short.
static jinja_frame *enter(jinja_run *run, jinja_frame *outer)
{
    jinja_value names = jinja_new_dict(run->box);
    jinja_frame *frame = jinja_take(run->box, 1, sizeof *frame);
    if (!frame || names.kind != JINJA_DICT)
        return NULL;
    *frame = (jinja_frame){outer, names.dict};
    run->frame = frame;
    return frame;
}

// What the statements write, as a value.
static jinja_value gather(jinja_run *run, const jinja_nodes *body)
{
    jinja_writer writer = {.box = run->box}, *before = run->out;
    run->out = &writer;
    jinja_execute(run, body);
    run->out = before;
    return jinja_of_text(run->box, jinja_written(&writer));
}

// --- loops ------------------------------------------------------------------------------------------------

// The items that pass the loop's condition.
static jinja_value wanted_items(jinja_run *run, const jinja_node *node, jinja_value all)
{
    if (!node->b)
        return all;
    jinja_value wanted = jinja_new_list(run->box);
    for (size_t i = 0; !run->box->failed && i < all.list->count; i++) {
        jinja_frame *outer = run->frame;
        if (!enter(run, outer))
            break;
        jinja_assign(run, node->target, all.list->items[i]);
        if (jinja_truth(jinja_evaluate(run, node->b)))
            jinja_append(run->box, wanted, all.list->items[i]);
        run->frame = outer;
    }
    return wanted;
}

static jinja_value loop_cycle(jinja_run *run, jinja_value loop, const jinja_arguments *given)
{
    jinja_value index = jinja_find(run->box, loop.dict, jinja_literal(run->box, "index0"));
    if (given->count == 0)
        return jinja_refuse(run->box, "loop.cycle needs values");
    return given->items[(size_t)index.integer % given->count];
}

static jinja_value describe_loop(jinja_run *run, const jinja_list *items, size_t i)
{
    jinja_box *box = run->box;
    jinja_value loop = jinja_new_dict(box), undefined = {.kind = JINJA_UNDEFINED};
    jinja_set(box, loop, "index", jinja_int((int64_t)i + 1));
    jinja_set(box, loop, "index0", jinja_int((int64_t)i));
    jinja_set(box, loop, "revindex", jinja_int((int64_t)(items->count - i)));
    jinja_set(box, loop, "revindex0", jinja_int((int64_t)(items->count - i) - 1));
    jinja_set(box, loop, "first", jinja_bool(i == 0));
    jinja_set(box, loop, "last", jinja_bool(i + 1 == items->count));
    jinja_set(box, loop, "length", jinja_int((int64_t)items->count));
    jinja_set(box, loop, "previtem", i ? items->items[i - 1] : undefined);
    jinja_set(box, loop, "nextitem", i + 1 < items->count ? items->items[i + 1] : undefined);
    jinja_set(box, loop, "cycle",
              jinja_new_callable(run, (jinja_callable){.method = loop_cycle, .object = loop}));
    return loop;
}

static void execute_for(jinja_run *run, const jinja_node *node)
{
    static const jinja_text loop_name = {.data = "loop", .size_bytes = 4};
    jinja_box *box = run->box;
    jinja_frame *outer = run->frame;
    jinja_value items = wanted_items(run, node, jinja_items_of(box, jinja_evaluate(run, node->a)));
    if (box->failed)
        return;
    for (size_t i = 0; i < items.list->count && !box->failed; i++) {
        if (!enter(run, outer))
            break;
        set_name(run, run->frame, loop_name, describe_loop(run, items.list, i));
        jinja_assign(run, node->target, items.list->items[i]);
        jinja_execute(run, &node->body);
        bool stop = run->flow == JINJA_FLOW_BREAK;
        run->flow = JINJA_FLOW_ON;
        if (stop)
            break;
    }
    if (items.list->count == 0 && enter(run, outer))
        jinja_execute(run, &node->other);
    run->frame = outer;
}

// --- macros -------------------------------------------------------------------------------------------------

static jinja_value call_macro(jinja_run *run, const jinja_callable *macro,
                              const jinja_arguments *given)
{
    const jinja_node *node = macro->macro;
    jinja_frame *before = run->frame;
    jinja_value result = {.kind = JINJA_UNDEFINED};
    if (++run->depth > MAX_DEPTH)
        return jinja_refuse(run->box, "line %d: macros call each other too deeply", node->line);
    if (given->count > node->parameters.count)
        jinja_refuse(run->box, "line %d: %zu arguments for %zu parameters", node->line,
                     given->count, node->parameters.count);
    if (enter(run, macro->frame)) {
        for (size_t i = 0; !run->box->failed && i < node->parameters.count; i++) {
            const jinja_node *parameter = node->parameters.items[i];
            jinja_value key = jinja_of_text(run->box, parameter->text),
                        value = {JINJA_UNDEFINED, {0}};
            if (i < given->count)
                value = given->items[i];
            else if (given->named && jinja_has_key(run->box, given->named, key))
                value = jinja_find(run->box, given->named, key);
            else if (parameter->a)
                value = jinja_evaluate(run, parameter->a);
            set_name(run, run->frame, parameter->text, value);
        }
        if (given->named)
            for (size_t i = 0; i < given->named->count; i++)
                if (given->named->entries[i].key.kind == JINJA_TEXT &&
                    jinja_text_is(*given->named->entries[i].key.text, "caller"))
                    jinja_put(run->box, run->frame->names, given->named->entries[i].key,
                              given->named->entries[i].value);
        result = gather(run, &node->body);
    }
    run->frame = before;
    run->depth--;
    return result;
}

static void execute_call_block(jinja_run *run, const jinja_node *node)
{
    const jinja_node *call = node->a;
    jinja_value callable = jinja_evaluate(run, call->a);
    jinja_value named = jinja_new_dict(run->box), items = jinja_new_list(run->box);
    if (run->box->failed)
        return;
    for (size_t i = 0; i < call->list.count; i++) {
        const jinja_node *argument = call->list.items[i];
        if (argument->kind == JINJA_NODE_NAMED)
            jinja_put(run->box, named.dict, jinja_of_text(run->box, argument->text),
                      jinja_evaluate(run, argument->a));
        else
            jinja_append(run->box, items, jinja_evaluate(run, argument));
    }
    jinja_set(run->box, named, "caller",
              jinja_new_callable(
                  run, (jinja_callable){.macro = node, .call = call_macro, .frame = run->frame}));
    jinja_arguments given = {items.list->items, items.list->count, named.dict};
    jinja_print(run->out, jinja_call(run, callable, &given));
}

// --- the rest -------------------------------------------------------------------------------------------------

static void execute_set(jinja_run *run, const jinja_node *node)
{
    if (node->a) {
        jinja_assign(run, node->target, jinja_evaluate(run, node->a));
        return;
    }
    jinja_value value = gather(run, &node->body), before = run->gathered;
    run->gathered = value;
    if (node->b)
        value = jinja_evaluate(run, node->b);
    run->gathered = before;
    jinja_assign(run, node->target, value);
}

static void execute_filter(jinja_run *run, const jinja_node *node)
{
    jinja_value before = run->gathered;
    run->gathered = gather(run, &node->body);
    jinja_print(run->out, jinja_evaluate(run, node->a));
    run->gathered = before;
}

static void execute(jinja_run *run, const jinja_node *node)
{
    switch (node->kind) {
    case JINJA_NODE_DATA: jinja_write(run->out, node->text); break;
    case JINJA_NODE_PRINT: jinja_print(run->out, jinja_evaluate(run, node->a)); break;
    case JINJA_NODE_IF:
        jinja_execute(run, jinja_truth(jinja_evaluate(run, node->a)) ? &node->body : &node->other);
        break;
    case JINJA_NODE_FOR: execute_for(run, node); break;
    case JINJA_NODE_SET: execute_set(run, node); break;
    case JINJA_NODE_MACRO:
        set_name(run, run->frame, node->text,
                 jinja_new_callable(
                     run, (jinja_callable){.macro = node, .call = call_macro, .frame = run->top}));
        break;
    case JINJA_NODE_CALL_BLOCK: execute_call_block(run, node); break;
    case JINJA_NODE_FILTER_BLOCK: execute_filter(run, node); break;
    case JINJA_NODE_SCOPE: jinja_execute(run, &node->body); break;
    case JINJA_NODE_BREAK: run->flow = JINJA_FLOW_BREAK; break;
    case JINJA_NODE_CONTINUE: run->flow = JINJA_FLOW_CONTINUE; break;
    default: jinja_refuse(run->box, "line %d: an expression stands alone", node->line);
    }
}

void jinja_execute(jinja_run *run, const jinja_nodes *body)
{
    for (size_t i = 0; i < body->count && run->flow == JINJA_FLOW_ON; i++) {
        if (!jinja_step(run->box, 1))
            return;
        execute(run, body->items[i]);
    }
}

bool jinja_render(const jinja_program *program, jinja_box *box, jinja_value values,
                  jinja_text *result, engine_error *err)
{
    jinja_writer writer = {.box = box};
    jinja_run run = {.box = box, .out = &writer};
    jinja_frame globals = {NULL, NULL}, given = {&globals, NULL};
    jinja_value names = jinja_new_dict(box);
    if (values.kind == JINJA_DICT && names.kind == JINJA_DICT) {
        globals.names = names.dict;
        given.names = values.dict;
        jinja_add_globals(&run, globals.names);
        run.top = enter(&run, &given);
        if (run.top)
            jinja_execute(&run, &program->body);
    }
    if (box->failed)
        return engine_fail(err, "the chat template fails: %s", box->error.text);
    *result = jinja_written(&writer);
    return true;
}
