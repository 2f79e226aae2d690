// SPDX-License-Identifier: MIT
#include "tests/support/tokenizer_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *grow(void *array, size_t count, size_t size)
{
    // Exactly as large as needed, so that address checkers see the first element read beyond it.
    void *grown = realloc(array, count * size);
    if (!grown)
        abort();
    return grown;
}

static tokenizer_bytes copy(const void *data, size_t size_bytes)
{
    char *bytes = malloc(size_bytes + (size_bytes == 0));
    if (!bytes)
        abort();
    if (size_bytes > 0)
        memcpy(bytes, data, size_bytes);
    return (tokenizer_bytes){bytes, size_bytes};
}

tokenizer_builder builder_new(tokenizer_kind kind)
{
    tokenizer_builder b = {.spec = tokenizer_spec_default(kind)};
    b.spec.pre = "gpt-2";
    return b;
}

int32_t builder_piece_bytes(tokenizer_builder *b, const void *data, size_t size_bytes, int32_t type,
                            float score)
{
    size_t id = b->spec.piece_count++;
    b->pieces = grow(b->pieces, id + 1, sizeof *b->pieces);
    b->scores = grow(b->scores, id + 1, sizeof *b->scores);
    b->types = grow(b->types, id + 1, sizeof *b->types);
    b->pieces[id] = copy(data, size_bytes);
    b->scores[id] = score;
    b->types[id] = type;
    return (int32_t)id;
}

int32_t builder_piece(tokenizer_builder *b, const char *text, int32_t type, float score)
{
    return builder_piece_bytes(b, text, strlen(text), type, score);
}

static bool is_printable(unsigned byte)
{
    return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
}

void builder_bytes(tokenizer_builder *b)
{
    unsigned shifted = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        unsigned code = is_printable(byte) ? byte : shifted++;
        bool byte_level = b->spec.kind == TOKENIZER_BYTE_LEVEL;
        if (!byte_level)
            snprintf(text, sizeof text, "<0x%02X>", byte);
        else if (code < 0x80)
            snprintf(text, sizeof text, "%c", (int)code);
        else
            snprintf(text, sizeof text, "%c%c", (int)(0xc0 | code >> 6),
                     (int)(0x80 | (code & 0x3f)));
        builder_piece(b, text, byte_level ? TOKENIZER_NORMAL : TOKENIZER_BYTE, 0);
    }
}

void builder_merge_bytes(tokenizer_builder *b, const void *data, size_t size_bytes)
{
    size_t index = b->spec.merge_count++;
    b->merges = grow(b->merges, index + 1, sizeof *b->merges);
    b->merges[index] = copy(data, size_bytes);
}

void builder_merge(tokenizer_builder *b, const char *merge)
{
    builder_merge_bytes(b, merge, strlen(merge));
}

void builder_join(tokenizer_builder *b, const char *left, const char *right)
{
    char text[256];
    snprintf(text, sizeof text, "%s %s", left, right);
    builder_merge(b, text);
    snprintf(text, sizeof text, "%s%s", left, right);
    builder_piece(b, text, TOKENIZER_NORMAL, 0);
}

tokenizer *builder_finish(tokenizer_builder *b, engine_error *err)
{
    b->spec.pieces = b->pieces;
    b->spec.scores = b->scores;
    b->spec.types = b->types;
    b->spec.merges = b->merges;
    tokenizer *t = tokenizer_create(&b->spec, err);
    for (size_t i = 0; i < b->spec.piece_count && b->pieces; i++)
        free((char *)b->pieces[i].data);
    for (size_t i = 0; i < b->spec.merge_count && b->merges; i++)
        free((char *)b->merges[i].data);
    free(b->pieces);
    free(b->scores);
    free(b->types);
    free(b->merges);
    *b = (tokenizer_builder){0};
    return t;
}
