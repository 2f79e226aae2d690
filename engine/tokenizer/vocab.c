// SPDX-License-Identifier: MIT
#include "engine/tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/base/alloc.h"

static const char SPACE_MARK[] = "\xe2\x96\x81"; // U+2581, how SentencePiece writes a space

// A byte-level piece is written with one printable character for each byte: printable Latin-1 characters
// stand for themselves, and U+0100, U+0101, ... for the 68 other bytes in ascending order.
static bool is_printable_latin1(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static int byte_of_shifted(unsigned index)
{
    if (index <= 0x20)
        return (int)index;
    if (index <= 0x20 + 0x22)
        return (int)(0x7f + index - 0x21);
    return index == 0x43 ? 0xad : -1;
}

bool vocab_decode_byte_level(const char *text, size_t text_bytes, char *decoded,
                             size_t *decoded_bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < text_bytes; i++) {
        unsigned c = (unsigned char)text[i];
        int byte = -1;
        if (c < 0x80) {
            byte = is_printable_latin1(c) ? (int)c : -1;
        } else if (c >= 0xc2 && c <= 0xc5 && i + 1 < text_bytes) {
            unsigned low = (unsigned char)text[++i];
            unsigned code = (c & 0x1f) << 6 | (low & 0x3f);
            if ((low & 0xc0) != 0x80)
                return false;
            if (code >= 0x100)
                byte = byte_of_shifted(code - 0x100);
            else if (is_printable_latin1(code))
                byte = (int)code;
        }
        if (byte < 0)
            return false;
        decoded[count++] = (char)byte;
    }
    *decoded_bytes = count;
    return true;
}

static bool has_space_mark(const char *text, size_t text_bytes)
{
    return text_bytes >= 3 && memcmp(text, SPACE_MARK, 3) == 0;
}

// Whose pieces have U+2581 for each space.
static bool marks_spaces(tokenizer_kind kind)
{
    return kind == TOKENIZER_SENTENCEPIECE || kind == TOKENIZER_UNIGRAM;
}

// Of WordPiece a mark in front says that the piece begins a word.
static size_t decode_first_mark(const char *text, size_t text_bytes, char *decoded)
{
    size_t mark = has_space_mark(text, text_bytes) ? 3 : 0;
    decoded[0] = ' ';
    memcpy(decoded + (mark > 0), text + mark, text_bytes - mark);
    return text_bytes - mark + (mark > 0);
}

static size_t decode_space_marks(const char *text, size_t text_bytes, char *decoded)
{
    size_t count = 0;
    for (size_t i = 0; i < text_bytes;) {
        bool mark = has_space_mark(text + i, text_bytes - i);
        decoded[count++] = mark ? ' ' : text[i];
        i += mark ? 3 : 1;
    }
    return count;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The byte of a piece that is exactly "<0xHH>" with capital digits, else -1.
static int byte_of_piece(tokenizer_bytes piece)
{
    if (piece.size_bytes != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>')
        return -1;
    int high = hex_digit(piece.data[3]);
    int low = hex_digit(piece.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static bool is_marked_id(const tokenizer_spec *spec, size_t id)
{
    const int32_t ids[] = {spec->bos, spec->eos, spec->eot, spec->eom, spec->padding};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (ids[i] >= 0 && (size_t)ids[i] == id)
            return true;
    }
    return false;
}

// For files that do not carry types.
static int32_t guess_type(const tokenizer_spec *spec, size_t id)
{
    tokenizer_bytes piece = spec->pieces[id];
    size_t n = piece.size_bytes;
    if (spec->unknown >= 0 && (size_t)spec->unknown == id)
        return TOKENIZER_UNKNOWN;
    if (is_marked_id(spec, id))
        return TOKENIZER_CONTROL;
    if (n == 0)
        return TOKENIZER_UNUSED;
    if (marks_spaces(spec->kind))
        return byte_of_piece(piece) >= 0 ? TOKENIZER_BYTE : TOKENIZER_NORMAL;
    if (spec->kind == TOKENIZER_WORDPIECE)
        return TOKENIZER_NORMAL;
    bool bracketed =
        n > 4 && memcmp(piece.data, "<|", 2) == 0 && memcmp(piece.data + n - 2, "|>", 2) == 0;
    return bracketed ? TOKENIZER_CONTROL : TOKENIZER_NORMAL;
}

static bool set_type(vocab *v, const tokenizer_spec *spec, size_t id, engine_error *err)
{
    int32_t type = spec->types ? spec->types[id] : guess_type(spec, id);
    size_t n = spec->pieces[id].size_bytes;
    if (type < TOKENIZER_NORMAL || type > TOKENIZER_BYTE)
        return engine_fail(err,
                           "tokenizer: piece %zu has type %d, which is not one of 1 to 6; the "
                           "file is damaged",
                           id, (int)type);
    if (n > TOKENIZER_MAX_PIECE_BYTES)
        return engine_fail(err,
                           "tokenizer: piece %zu has %zu bytes, more than %d; the file is "
                           "damaged",
                           id, n, TOKENIZER_MAX_PIECE_BYTES);
    if (n == 0 && type != TOKENIZER_UNUSED)
        return engine_fail(err, "tokenizer: piece %zu is empty; the file is damaged", id);
    v->types[id] = (uint8_t)type;
    return true;
}

// Writes what the piece stands for to the end of v->bytes. *matchable: it can be found in text.
static bool add_piece(vocab *v, const tokenizer_spec *spec, size_t id, bool *matchable,
                      engine_error *err)
{
    tokenizer_bytes piece = spec->pieces[id];
    char *end = v->bytes + v->starts[id];
    size_t n = piece.size_bytes;
    int type = v->types[id];
    bool decoded = true;
    *matchable = type == TOKENIZER_NORMAL || type == TOKENIZER_USER_DEFINED;
    if (type == TOKENIZER_BYTE) {
        int byte = byte_of_piece(piece);
        if (!marks_spaces(spec->kind) || byte < 0)
            return engine_fail(err,
                               "tokenizer: byte piece %zu is not of the form <0x41> in a "
                               "SentencePiece vocabulary; the file is damaged",
                               id);
        if (v->byte_ids[byte] != TOKENIZER_NONE)
            return engine_fail(err,
                               "tokenizer: pieces %d and %zu are both byte %d; the file is "
                               "damaged",
                               (int)v->byte_ids[byte], id, byte);
        v->byte_ids[byte] = (int32_t)id;
        *end = (char)byte;
        n = 1;
    } else if (marks_spaces(spec->kind) && *matchable) {
        n = decode_space_marks(piece.data, n, end);
    } else if (spec->kind == TOKENIZER_WORDPIECE && *matchable) {
        n = decode_first_mark(piece.data, n, end);
    } else if (spec->kind == TOKENIZER_BYTE_LEVEL &&
               (type == TOKENIZER_NORMAL || type == TOKENIZER_UNUSED)) {
        decoded = vocab_decode_byte_level(piece.data, n, end, &n);
    } else {
        decoded = false;
    }
    // A piece outside the byte alphabet stands for itself, and no merge can make it.
    if (!decoded) {
        if (n > 0)
            memcpy(end, piece.data, n);
        *matchable = *matchable && type == TOKENIZER_USER_DEFINED;
    }
    v->starts[id + 1] = v->starts[id] + (uint32_t)n;
    return true;
}

static size_t find_slot(const vocab *v, const char *text, size_t text_bytes)
{
    size_t slot = (size_t)XXH3_64bits(text, text_bytes) & v->mask;
    for (; v->slots[slot] != 0; slot = (slot + 1) & v->mask) {
        tokenizer_bytes piece = vocab_piece(v, (int32_t)v->slots[slot] - 1);
        if (piece.size_bytes == text_bytes && memcmp(piece.data, text, text_bytes) == 0)
            break;
    }
    return slot;
}

int32_t vocab_find(const vocab *v, const char *text, size_t text_bytes)
{
    return (int32_t)v->slots[find_slot(v, text, text_bytes)] - 1;
}

static bool allocate(vocab *v, const tokenizer_spec *spec, engine_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < spec->piece_count; i++)
        total += spec->pieces[i].size_bytes; // checked: at most 2^24 times 2^16
    if (total >= UINT32_MAX)
        return engine_fail(err,
                           "tokenizer: the pieces have %zu bytes, 4 GiB or more; the file is "
                           "damaged",
                           total);
    size_t slot_count = 16;
    while (slot_count < spec->piece_count * 2)
        slot_count *= 2;
    v->mask = slot_count - 1;
    v->bytes = engine_alloc(total + 1, 1);
    v->starts = engine_alloc(spec->piece_count + 1, sizeof *v->starts);
    v->slots = engine_alloc(slot_count, sizeof *v->slots);
    if (!v->bytes || !v->starts || !v->slots)
        return engine_fail(err, "tokenizer: not enough memory for %zu pieces", spec->piece_count);
    return true;
}

// Of a normal and a user-defined piece with the same text the normal one is found: merges are about it, and
// the user-defined one is cut out of text before any merge. Added tokens of real models repeat pieces.
static bool make_findable(vocab *v, size_t id, engine_error *err)
{
    tokenizer_bytes piece = vocab_piece(v, (int32_t)id);
    size_t slot = find_slot(v, piece.data, piece.size_bytes);
    if (v->slots[slot] != 0) {
        size_t other = v->slots[slot] - 1;
        if (v->types[other] == v->types[id])
            return engine_fail(err,
                               "tokenizer: pieces %zu and %zu are the same text; the file is "
                               "damaged",
                               other, id);
        if (v->types[other] == TOKENIZER_NORMAL)
            return true;
    }
    v->slots[slot] = (uint32_t)id + 1;
    return true;
}

bool vocab_build(vocab *v, const tokenizer_spec *spec, engine_error *err)
{
    if (spec->piece_count == 0 || !spec->pieces)
        return engine_fail(err, "tokenizer: the vocabulary has no pieces; the file is damaged");
    if (spec->piece_count > TOKENIZER_MAX_PIECES)
        return engine_fail(err,
                           "tokenizer: %zu pieces are more than the limit of %d; the file is "
                           "damaged",
                           spec->piece_count, TOKENIZER_MAX_PIECES);
    for (size_t i = 0; i < 256; i++)
        v->byte_ids[i] = TOKENIZER_NONE;
    v->count = spec->piece_count;
    v->types = engine_alloc(v->count, 1);
    if (!v->types)
        return engine_fail(err, "tokenizer: not enough memory for %zu pieces", v->count);
    for (size_t id = 0; id < v->count; id++) {
        if (!set_type(v, spec, id, err))
            return false;
    }
    if (!allocate(v, spec, err))
        return false;
    for (size_t id = 0; id < v->count; id++) {
        bool matchable;
        if (!add_piece(v, spec, id, &matchable, err))
            return false;
        if (!matchable)
            continue;
        if (!make_findable(v, id, err))
            return false;
        tokenizer_bytes piece = vocab_piece(v, (int32_t)id);
        if (spec->kind == TOKENIZER_BYTE_LEVEL && piece.size_bytes == 1 &&
            v->types[id] == TOKENIZER_NORMAL)
            v->byte_ids[(unsigned char)piece.data[0]] = (int32_t)id;
    }
    return true;
}

void vocab_free(vocab *v)
{
    free(v->bytes);
    free(v->starts);
    free(v->types);
    free(v->slots);
    *v = (vocab){0};
}
