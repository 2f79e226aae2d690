// SPDX-License-Identifier: MIT
// The first byte of the input chooses: text for fixed vocabularies, a vocabulary made from the input, or
// a GGUF file. Whatever is accepted must encode and decode by the promises of tokenizer.h.

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "engine/gguf/gguf.h"
#include "tests/support/tokenizer_builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check(bool promise)
{
    if (!promise)
        abort();
}

// A refusal gives its reason in one line.
static void check_reason(const engine_error *err)
{
    check(err->text[0] != '\0' && strchr(err->text, '\n') == NULL);
}

// --- promises ---------------------------------------------------------------------------------------

static void check_valid_utf8(const tokenizer_text *text)
{
    for (size_t i = 0; i < text->size_bytes;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t left = (utf8proc_ssize_t)(text->size_bytes - i);
        utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)text->data + i, left, &code);
        check(n > 0);
        i += (size_t)n;
    }
}

static void check_decoding(const tokenizer *t, const tokenizer_ids *list)
{
    for (unsigned flags = 0; flags < 4; flags++) {
        tokenizer_text text = {0};
        check(tokenizer_decode(t, list->ids, list->count, flags, &text, NULL));
        check_valid_utf8(&text);
        tokenizer_text_free(&text);
    }
}

// lossless: the vocabulary has every byte and changes nothing.
static void check_text(const tokenizer *t, const char *text, size_t text_bytes, unsigned flags,
                       bool lossless)
{
    tokenizer_ids list = {0};
    tokenizer_text joined = {0};
    engine_error err = {""};
    if (!tokenizer_encode(t, text, text_bytes, flags, &list, &err)) {
        check_reason(&err);
        check(list.count == 0 && !lossless);
    }
    for (size_t i = 0; i < list.count; i++) {
        tokenizer_bytes piece;
        check(tokenizer_piece(t, list.ids[i], &piece));
        check(flags != 0 || !tokenizer_is_special(t, list.ids[i]) ||
              list.ids[i] == tokenizer_unknown(t));
        check(tokenizer_text_append(&joined, piece.data, piece.size_bytes));
    }
    if (lossless && !(flags & TOKENIZER_ADD_SPECIAL))
        check(joined.size_bytes == text_bytes &&
              (text_bytes == 0 || memcmp(joined.data, text, text_bytes) == 0));
    check_decoding(t, &list);
    tokenizer_text_free(&joined);
    tokenizer_ids_free(&list);
}

// --- fixed vocabularies -----------------------------------------------------------------------------

enum { FIXED_COUNT = 9 };

static void add_pieces(tokenizer_builder *b)
{
    static const char *const pairs[][2] = {{"t", "h"},
                                           {"th", "e"},
                                           {"\xc4\xa0", "a"},
                                           {"\xc4\xa0", "\xc4\xa0"},
                                           {"\xc4\x8a", "\xc4\x8a"},
                                           {"a", "b"},
                                           {"ab", "a"},
                                           {"\xc3\xa9", "a"},
                                           {"1", "2"},
                                           {"aba", "b"},
                                           {"'", "s"}};
    static const char *const scored[] = {"t",
                                         "h",
                                         "e",
                                         "a",
                                         "b",
                                         "th",
                                         "he",
                                         "the",
                                         "\xe2\x96\x81",
                                         "\xe2\x96\x81\x61",
                                         "\xe2\x96\x81\xe2\x96\x81",
                                         "ab",
                                         "ba",
                                         "aba",
                                         "\xc3\xa9",
                                         "\xe6\xbc\xa2",
                                         "\n"};
    if (b->spec.kind == TOKENIZER_WORDPIECE)
        b->spec.unknown = builder_piece(b, "[UNK]", TOKENIZER_CONTROL, 0);
    else
        builder_bytes(b);
    if (b->spec.kind == TOKENIZER_BYTE_LEVEL) {
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
            builder_join(b, pairs[i][0], pairs[i][1]);
    } else {
        for (size_t i = 0; i < sizeof scored / sizeof scored[0]; i++)
            builder_piece(b, scored[i], TOKENIZER_NORMAL, -(float)(i % 7));
    }
    b->spec.bos = builder_piece(b, "<s>", TOKENIZER_CONTROL, 0);
    builder_piece(b, "<|im_end|>", TOKENIZER_CONTROL, 0);
    builder_piece(b, "<s>x", TOKENIZER_USER_DEFINED, 0);
}

static const tokenizer *fixed(size_t index)
{
    static const char *const pres[FIXED_COUNT] = {"gpt-2", "llama-bpe", "smollm", "qwen2", "",
                                                  "",      "tekken",    "",       ""};
    static tokenizer *made[FIXED_COUNT];
    if (!made[index]) {
        tokenizer_kind kind = index == 7       ? TOKENIZER_UNIGRAM
                              : index == 8     ? TOKENIZER_WORDPIECE
                              : pres[index][0] ? TOKENIZER_BYTE_LEVEL
                                               : TOKENIZER_SENTENCEPIECE;
        tokenizer_builder b = builder_new(kind);
        add_pieces(&b);
        b.spec.pre = pres[index];
        b.spec.add_space_prefix = index == 4;
        if (index == 5) // in this one words cannot be cut at spaces
            builder_piece(&b,
                          "a\xe2\x96\x81"
                          "b",
                          TOKENIZER_NORMAL, -1);
        made[index] = builder_finish(&b, NULL);
        check(made[index] != NULL);
    }
    return made[index];
}

static void fuzz_text(unsigned choice, const char *text, size_t text_bytes)
{
    size_t index = choice % FIXED_COUNT;
    check_text(fixed(index), text, text_bytes, choice / FIXED_COUNT % 8, index < 3 || index == 6);
}

// --- vocabularies from the input --------------------------------------------------------------------

typedef struct input {
    const uint8_t *data;
    size_t size_bytes;
} input;

static unsigned take(input *in)
{
    if (in->size_bytes == 0)
        return 0;
    in->size_bytes--;
    return *in->data++;
}

static input take_span(input *in, size_t size_bytes)
{
    input span = {in->data, size_bytes < in->size_bytes ? size_bytes : in->size_bytes};
    in->data += span.size_bytes;
    in->size_bytes -= span.size_bytes;
    return span;
}

// "left right" of two pieces, and their joint piece if it may be new.
static void add_merge(tokenizer_builder *b, input *in)
{
    unsigned left_id = take(in), right_id = take(in);
    size_t count = b->spec.piece_count;
    if (count == 0)
        return;
    tokenizer_bytes left = b->pieces[left_id % count], right = b->pieces[right_id % count];
    char text[128];
    if (left.size_bytes + right.size_bytes + 1 > sizeof text)
        return;
    memcpy(text, left.data, left.size_bytes);
    text[left.size_bytes] = ' ';
    memcpy(text + left.size_bytes + 1, right.data, right.size_bytes);
    builder_merge_bytes(b, text, left.size_bytes + 1 + right.size_bytes);
    memmove(text + left.size_bytes, text + left.size_bytes + 1, right.size_bytes);
    if ((left_id ^ right_id) & 1)
        builder_piece_bytes(b, text, left.size_bytes + right.size_bytes, TOKENIZER_NORMAL,
                            -(float)(left_id & 3));
}

// A charsmap in its own bytes: as many units, and what follows as texts.
static void set_charsmap(tokenizer_builder *b, input *in, unsigned char room[2048])
{
    size_t units = take(in), bytes = 4 + 4 * units;
    room[0] = (unsigned char)(4 * units & 0xff);
    room[1] = (unsigned char)(4 * units >> 8);
    room[2] = room[3] = 0;
    for (size_t i = 4; i < bytes; i++)
        room[i] = (unsigned char)take(in);
    for (unsigned count = take(in); count > 0; count--)
        room[bytes++] = (unsigned char)take(in);
    room[bytes++] = 0;
    b->spec.charsmap = room;
    b->spec.charsmap_bytes = bytes;
}

static void fuzz_vocabulary(input in)
{
    static const char *const pres[] = {"gpt-2", "llama-bpe", "smollm",
                                       "qwen2", "default",   "tekken"};
    unsigned char room[2048];
    unsigned choice = take(&in), pre = take(&in);
    tokenizer_builder b = builder_new(pre >= 192   ? TOKENIZER_WORDPIECE
                                      : pre >= 128 ? TOKENIZER_UNIGRAM
                                      : choice & 1 ? TOKENIZER_SENTENCEPIECE
                                                   : TOKENIZER_BYTE_LEVEL);
    if (choice & 2)
        builder_bytes(&b);
    b.spec.pre = pres[pre % 6];
    if (pre >= 160 && pre < 192)
        set_charsmap(&b, &in, room);
    b.spec.lower_case = (int)(pre % 3) - 1;
    b.spec.strip_accents = (int)(pre / 3 % 3) - 1;
    b.spec.add_space_prefix = choice & 4;
    b.spec.remove_extra_whitespaces = choice & 8;
    b.spec.bos = (int32_t)take(&in) - 1;
    b.spec.unknown = (int32_t)take(&in) - 1;
    b.spec.add_bos = choice & 16 ? 1 : -1;
    for (unsigned count = take(&in) % 32; count > 0; count--) {
        unsigned shape = take(&in);
        input text = take_span(&in, shape & 15);
        builder_piece_bytes(&b, text.data, text.size_bytes, (int32_t)(shape >> 4) % 8,
                            -(float)(shape >> 5));
    }
    for (unsigned count = take(&in) % 16; count > 0; count--)
        add_merge(&b, &in);
    engine_error err = {""};
    tokenizer *t = builder_finish(&b, &err);
    if (t)
        check_text(t, (const char *)in.data, in.size_bytes, choice >> 5 & 3, false);
    else
        check_reason(&err);
    tokenizer_free(t);
}

// --- files ------------------------------------------------------------------------------------------

static void fuzz_file(const uint8_t *data, size_t size_bytes)
{
    uint8_t *aligned = malloc(size_bytes + (size_bytes == 0));
    check(aligned != NULL);
    memcpy(aligned, data, size_bytes);
    engine_error err = {""};
    gguf_file *file = gguf_open_memory(aligned, size_bytes, &err);
    tokenizer *t = file ? tokenizer_from_gguf(file, &err) : NULL;
    if (t)
        check_text(t, "the <s> ab\xff\n", 11, TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL,
                   false);
    else
        check_reason(&err);
    tokenizer_free(t);
    gguf_close(file);
    free(aligned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes == 0)
        return 0;
    unsigned choice = data[0];
    data++;
    size_bytes--;
    if (choice < 192)
        fuzz_text(choice, (const char *)data, size_bytes);
    else if (choice < 240)
        fuzz_vocabulary((input){data, size_bytes});
    else
        fuzz_file(data, size_bytes);
    return 0;
}
