// SPDX-License-Identifier: MIT
// BERT's WordPiece: text is cleaned and cut into words, each of which is cut into the longest pieces from
// its beginning on. Pieces that begin a word have a space in front here, as files mark them with U+2581.
#include <string.h>

#include <utf8proc.h>

#include "engine/tokenizer/tokenizer_data.h"

enum {
    MAX_WORD_CHARACTERS = 100, // longer ones are unknown
    MAX_WORD_BYTES = 4 * MAX_WORD_CHARACTERS,
    MAX_PARTS = 8, // that a character is decomposed into
};

typedef struct word {
    char text[1 + MAX_WORD_BYTES]; // a space, then the word
    size_t size_bytes;             // without the space
    size_t characters;             // all of them; text has the first MAX_WORD_CHARACTERS
} word;

// White space of Unicode but for what counts as control characters.
static bool is_space(utf8proc_int32_t c)
{
    utf8proc_category_t kind = utf8proc_category(c);
    return c == '\t' || c == '\n' || c == '\r' || kind == UTF8PROC_CATEGORY_ZS ||
           kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

// What cleaning takes away.
static bool is_dropped(utf8proc_int32_t c)
{
    utf8proc_category_t kind = utf8proc_category(c);
    return c == 0xfffd || kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
           kind == UTF8PROC_CATEGORY_CN || kind == UTF8PROC_CATEGORY_CO ||
           kind == UTF8PROC_CATEGORY_CS;
}

// Chinese characters are words by themselves. The ranges are those of BERT's own tokenizer.
static bool is_chinese(utf8proc_int32_t c)
{
    static const utf8proc_int32_t ranges[][2] = {
        {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
        {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

static bool is_punctuation(utf8proc_int32_t c)
{
    utf8proc_category_t kind = utf8proc_category(c);
    bool ascii = (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) ||
                 (c >= 0x7b && c <= 0x7e);
    return ascii || (kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO);
}

// The character without accents and in lower case, as the vocabulary wants it.
static size_t simplify(const tokenizer *t, utf8proc_int32_t c,
                       utf8proc_int32_t parts[MAX_PARTS + 1])
{
    utf8proc_int32_t whole[MAX_PARTS] = {c};
    utf8proc_ssize_t count = 1;
    int boundary = 0;
    size_t kept = 0;
    if (t->strip_accents && c >= 0x80)
        count = utf8proc_decompose_char(c, whole, MAX_PARTS, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
                                        &boundary);
    for (utf8proc_ssize_t i = 0; i < count && i < MAX_PARTS; i++) {
        if (t->strip_accents && utf8proc_category(whole[i]) == UTF8PROC_CATEGORY_MN)
            continue;
        bool dotted = t->lower_case && whole[i] == 0x130; // i with the dot as a mark of its own
        parts[kept++] = dotted ? 'i' : t->lower_case ? utf8proc_tolower(whole[i]) : whole[i];
        if (dotted && kept < MAX_PARTS)
            parts[kept++] = 0x307;
    }
    return kept;
}

// The longest piece that word->text has from `start` on (with the space, if start is 0); *end is where it
// ends in the word.
static int32_t longest_piece(const vocab *v, const word *w, size_t start, size_t *end)
{
    const char *from = w->text + (start ? start + 1 : 0);
    for (*end = w->size_bytes; *end > start; --*end) {
        if (*end < w->size_bytes && ((unsigned char)w->text[*end + 1] & 0xc0) == 0x80)
            continue;
        int32_t id = vocab_find(v, from, *end - start + (start ? 0 : 1));
        if (id != TOKENIZER_NONE && v->types[id] == TOKENIZER_NORMAL)
            return id;
    }
    return TOKENIZER_NONE;
}

// A word that is not pieces to its end is unknown as a whole.
static bool end_word(encode_work *work, word *w)
{
    size_t before = work->list->count;
    bool known = w->characters <= MAX_WORD_CHARACTERS;
    for (size_t start = 0, end; known && start < w->size_bytes; start = end) {
        int32_t id = longest_piece(&work->t->vocab, w, start, &end);
        known = id != TOKENIZER_NONE;
        if (known && !tokenizer_ids_push(work->list, id))
            return encode_no_memory(work);
    }
    if (!known) {
        work->list->count = before;
        if (!tokenizer_ids_push(work->list, work->t->unknown))
            return encode_no_memory(work);
    }
    w->size_bytes = w->characters = 0;
    return true;
}

static void add_character(word *w, utf8proc_int32_t c)
{
    if (w->characters++ >= MAX_WORD_CHARACTERS)
        return;
    w->size_bytes +=
        (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)w->text + 1 + w->size_bytes);
}

static bool add_cleaned(encode_work *work, word *w, utf8proc_int32_t c)
{
    utf8proc_int32_t parts[MAX_PARTS + 1];
    size_t count = simplify(work->t, c, parts);
    for (size_t i = 0; i < count; i++) {
        bool alone = is_punctuation(parts[i]);
        if (alone && !end_word(work, w))
            return false;
        add_character(w, parts[i]);
        if (alone && !end_word(work, w))
            return false;
    }
    return true;
}

bool wordpiece_encode(encode_work *work, const char *text, size_t text_bytes)
{
    word w = {.text = " "};
    for (size_t i = 0; i < text_bytes;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t left = text_bytes - i > 4 ? 4 : (utf8proc_ssize_t)(text_bytes - i);
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + i, left, &c);
        i += n > 0 ? (size_t)n : 1;
        if (n <= 0)
            continue;
        bool space = is_space(c), chinese = is_chinese(c);
        if (!space && is_dropped(c))
            continue;
        if (((space || chinese) && w.characters > 0 && !end_word(work, &w)) ||
            (!space && !add_cleaned(work, &w, c)) ||
            (chinese && w.characters > 0 && !end_word(work, &w)))
            return false;
    }
    return w.characters == 0 || end_word(work, &w);
}

// --- what the pieces tell ----------------------------------------------------------------------------------

static bool changes(const tokenizer *t, tokenizer_bytes piece)
{
    for (size_t i = 0; i < piece.size_bytes;) {
        utf8proc_int32_t c, parts[MAX_PARTS + 1];
        utf8proc_ssize_t left = (utf8proc_ssize_t)(piece.size_bytes - i);
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)piece.data + i, left, &c);
        if (n <= 0)
            return false;
        if (simplify(t, c, parts) != 1 || parts[0] != c)
            return true;
        i += (size_t)n;
    }
    return false;
}

// Would text that is simplified never reach more than a few of the pieces?
static bool loses_pieces(const tokenizer *t)
{
    enum { ONE_IN = 500 };
    size_t lost = 0;
    for (size_t id = 0; id < t->vocab.count; id++)
        if (t->vocab.types[id] == TOKENIZER_NORMAL) {
            tokenizer_bytes piece = vocab_piece(&t->vocab, (int32_t)id);
            bool bracketed = piece.size_bytes > 1 && piece.data[0] == '[';
            lost += !bracketed && changes(t, piece);
        }
    return lost > t->vocab.count / ONE_IN;
}

void wordpiece_guess(tokenizer *t, int lower_case, int strip_accents)
{
    t->lower_case = true;
    t->strip_accents = false;
    t->lower_case = lower_case < 0 ? !loses_pieces(t) : lower_case > 0;
    t->strip_accents = strip_accents > 0;
    if (strip_accents >= 0 || !t->lower_case)
        return;
    t->strip_accents = true;
    t->strip_accents = !loses_pieces(t);
}
