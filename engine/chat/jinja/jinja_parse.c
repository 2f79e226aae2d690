// SPDX-License-Identifier: MIT
// From tokens to statements.
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/chat/jinja/jinja_syntax.h"

enum { MAX_DEPTH = 200, MAX_TEMPLATE_BYTES = 1 << 20 };

// --- statements -----------------------------------------------------------------------------------------

static void parse_body(jinja_parser *parser, jinja_nodes *body, const char *const *ends);

static void end_block(jinja_parser *parser)
{
    jinja_expect(parser, JINJA_TOKEN_BLOCK_CLOSE, NULL);
}

// The tag that ends a body: "{%" has been left for us.
static void end_tag(jinja_parser *parser, const char *name)
{
    jinja_expect(parser, JINJA_TOKEN_BLOCK_OPEN, NULL);
    jinja_expect(parser, JINJA_TOKEN_NAME, name);
}

static bool next_tag_is(const jinja_parser *parser, const char *name)
{
    return jinja_at(parser, JINJA_TOKEN_BLOCK_OPEN, NULL) &&
           parser->token[1].kind == JINJA_TOKEN_NAME &&
           jinja_text_is(jinja_token_text(parser->token + 1), name);
}

static jinja_node *parse_if(jinja_parser *parser)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_IF);
    if (!node)
        return NULL;
    node->a = jinja_parse_tuple(parser, true);
    end_block(parser);
    parse_body(parser, &node->body, ends);
    if (next_tag_is(parser, "elif")) {
        parser->token += 2;
        if (++parser->depth > MAX_DEPTH)
            return jinja_unexpected(parser, "a shorter chain of conditions");
        jinja_add_node(parser, &node->other, parse_if(parser));
        parser->depth--;
        return node;
    }
    if (next_tag_is(parser, "else")) {
        parser->token += 2;
        end_block(parser);
        parse_body(parser, &node->other, ends + 2);
    }
    end_tag(parser, "endif");
    end_block(parser);
    return node;
}

static jinja_node *parse_for(jinja_parser *parser)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_FOR);
    if (!node)
        return NULL;
    node->target = jinja_parse_target(parser);
    jinja_expect(parser, JINJA_TOKEN_NAME, "in");
    node->a = jinja_parse_tuple(parser, false);
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "if"))
        node->b = jinja_parse_expression(parser);
    end_block(parser);
    parse_body(parser, &node->body, ends);
    if (next_tag_is(parser, "else")) {
        parser->token += 2;
        end_block(parser);
        parse_body(parser, &node->other, ends + 1);
    }
    end_tag(parser, "endfor");
    end_block(parser);
    return node;
}

static jinja_node *parse_set(jinja_parser *parser)
{
    static const char *const ends[] = {"endset", NULL};
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_SET);
    if (!node)
        return NULL;
    node->target = jinja_parse_target(parser);
    if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "=")) {
        node->a = jinja_parse_tuple(parser, true);
        end_block(parser);
        return node;
    }
    if (jinja_at(parser, JINJA_TOKEN_OPERATOR, "|"))
        node->b = jinja_parse_filters(parser, jinja_new_node(parser, JINJA_NODE_BODY));
    end_block(parser);
    parse_body(parser, &node->body, ends);
    end_tag(parser, "endset");
    end_block(parser);
    return node;
}

static jinja_node *parse_macro(jinja_parser *parser)
{
    static const char *const ends[] = {"endmacro", NULL};
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_MACRO);
    if (!node)
        return NULL;
    node->text = jinja_expect_name(parser);
    jinja_expect(parser, JINJA_TOKEN_OPERATOR, "(");
    jinja_parse_parameters(parser, &node->parameters);
    end_block(parser);
    parse_body(parser, &node->body, ends);
    end_tag(parser, "endmacro");
    jinja_accept(parser, JINJA_TOKEN_NAME, NULL);
    end_block(parser);
    return node;
}

static jinja_node *parse_call(jinja_parser *parser)
{
    static const char *const ends[] = {"endcall", NULL};
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_CALL_BLOCK);
    if (!node)
        return NULL;
    if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "("))
        jinja_parse_parameters(parser, &node->parameters);
    node->a = jinja_parse_expression(parser);
    if (node->a && node->a->kind != JINJA_NODE_CALL)
        return jinja_unexpected(parser, "a call");
    end_block(parser);
    parse_body(parser, &node->body, ends);
    end_tag(parser, "endcall");
    end_block(parser);
    return node;
}

static jinja_node *parse_filter(jinja_parser *parser)
{
    static const char *const ends[] = {"endfilter", NULL};
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_FILTER_BLOCK);
    if (!node)
        return NULL;
    node->a = jinja_parse_filter(parser, jinja_new_node(parser, JINJA_NODE_BODY));
    node->a = jinja_parse_filters(parser, node->a);
    end_block(parser);
    parse_body(parser, &node->body, ends);
    end_tag(parser, "endfilter");
    end_block(parser);
    return node;
}

// A tag that only marks what it encloses.
static jinja_node *parse_scope(jinja_parser *parser, const char *end)
{
    const char *const ends[] = {end, NULL};
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_SCOPE);
    if (!node)
        return NULL;
    end_block(parser);
    parse_body(parser, &node->body, ends);
    end_tag(parser, end);
    end_block(parser);
    return node;
}

static jinja_node *parse_word(jinja_parser *parser, jinja_node_kind kind)
{
    jinja_node *node = jinja_new_node(parser, kind);
    end_block(parser);
    return node;
}

static jinja_node *parse_statement(jinja_parser *parser)
{
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "if"))
        return parse_if(parser);
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "for"))
        return parse_for(parser);
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "set"))
        return parse_set(parser);
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "macro"))
        return parse_macro(parser);
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "call"))
        return parse_call(parser);
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "filter"))
        return parse_filter(parser);
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "generation"))
        return parse_scope(parser, "endgeneration");
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "break"))
        return parse_word(parser, JINJA_NODE_BREAK);
    if (jinja_accept(parser, JINJA_TOKEN_NAME, "continue"))
        return parse_word(parser, JINJA_NODE_CONTINUE);
    return jinja_unexpected(parser, "a statement that weft knows");
}

static jinja_node *parse_print(jinja_parser *parser)
{
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_PRINT);
    if (!node)
        return NULL;
    node->a = jinja_parse_tuple(parser, true);
    jinja_expect(parser, JINJA_TOKEN_PRINT_CLOSE, NULL);
    return node;
}

static bool at_end(const jinja_parser *parser, const char *const *ends)
{
    if (parser->token->kind == JINJA_TOKEN_END)
        return true;
    for (; ends && *ends; ends++)
        if (next_tag_is(parser, *ends))
            return true;
    return false;
}

static void parse_body(jinja_parser *parser, jinja_nodes *body, const char *const *ends)
{
    if (++parser->depth > MAX_DEPTH)
        jinja_unexpected(parser, "less nesting");
    while (!parser->box->failed && !at_end(parser, ends)) {
        jinja_node *node = NULL;
        if (jinja_at(parser, JINJA_TOKEN_DATA, NULL)) {
            node = jinja_new_node(parser, JINJA_NODE_DATA);
            if (node)
                node->text = jinja_token_text(parser->token);
            parser->token++;
        } else if (jinja_accept(parser, JINJA_TOKEN_PRINT_OPEN, NULL)) {
            node = parse_print(parser);
        } else if (jinja_accept(parser, JINJA_TOKEN_BLOCK_OPEN, NULL)) {
            node = parse_statement(parser);
        } else {
            jinja_unexpected(parser, "text or a tag");
        }
        if (node)
            jinja_add_node(parser, body, node);
    }
    parser->depth--;
}

bool jinja_read(jinja_box *box, const jinja_tokens *tokens, jinja_nodes *body)
{
    jinja_parser parser = {.box = box, .token = tokens->items};
    parse_body(&parser, body, NULL);
    if (!box->failed && parser.token->kind != JINJA_TOKEN_END)
        jinja_unexpected(&parser, "the end of the template");
    return !box->failed;
}

// --- programs -------------------------------------------------------------------------------------------

jinja_program *jinja_parse(const char *text, size_t size_bytes, engine_error *err)
{
    jinja_tokens tokens = {0};
    if (size_bytes > MAX_TEMPLATE_BYTES) {
        engine_fail(err, "a template of %zu bytes is refused: at most %d are read", size_bytes,
                    MAX_TEMPLATE_BYTES);
        return NULL;
    }
    jinja_program *program = engine_alloc(1, sizeof *program);
    jinja_box *box = jinja_box_open(NULL);
    if (!program || !box) {
        free(program);
        jinja_box_close(box);
        engine_fail(err, "not enough memory for a template");
        return NULL;
    }
    program->box = box;
    char *copy = jinja_take(box, size_bytes + 1, 1);
    if (copy)
        memcpy(copy, text, size_bytes);
    if (copy && jinja_scan(box, copy, size_bytes, &tokens) &&
        jinja_read(box, &tokens, &program->body))
        return program;
    engine_fail(err, "the template cannot be read: %s", box->error.text);
    jinja_program_free(program);
    return NULL;
}

void jinja_program_free(jinja_program *program)
{
    if (!program)
        return;
    jinja_box_close(program->box);
    free(program);
}

static bool list_mentions(const jinja_nodes *nodes, const char *name);

static bool node_mentions(const jinja_node *node, const char *name)
{
    if (!node)
        return false;
    bool named = node->kind == JINJA_NODE_NAME || node->kind == JINJA_NODE_ATTRIBUTE;
    bool literal = node->kind == JINJA_NODE_VALUE && node->value.kind == JINJA_TEXT &&
                   jinja_text_is(*node->value.text, name);
    return (named && jinja_text_is(node->text, name)) || literal || node_mentions(node->a, name) ||
           node_mentions(node->b, name) || node_mentions(node->target, name) ||
           list_mentions(&node->list, name) || list_mentions(&node->parameters, name) ||
           list_mentions(&node->body, name) || list_mentions(&node->other, name);
}

static bool list_mentions(const jinja_nodes *nodes, const char *name)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (node_mentions(nodes->items[i], name))
            return true;
    return false;
}

bool jinja_mentions(const jinja_program *program, const char *name)
{
    return list_mentions(&program->body, name);
}
