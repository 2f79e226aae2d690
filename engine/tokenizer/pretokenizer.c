// SPDX-License-Identifier: MIT
#include "engine/tokenizer/pretokenizer.h"

#include <string.h>

// White space as the models' tokenizers know it: PCRE2's own \s has U+180E in addition.
#define WS                     "\\p{Z}\\t-\\r\\x{85}"
#define SPACES                 "[" WS "]+"
#define CONTRACTIONS           "'s|'t|'re|'ve|'m|'ll|'d"
#define LETTERS_AND_ONE_BEFORE "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define UPPER                  "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER                  "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define SYMBOLS                " ?[^" WS "\\p{L}\\p{N}]+"
#define LINE_ENDS              "[" WS "]*[\\r\\n]+"
#define SPACES_BUT_LAST        SPACES "(?![^" WS "])" // leaves one space to the word that follows

static const pretokenizer_rules RULES[] = {
    {
        .name = "llama-bpe",
        .pattern = "(?i:" CONTRACTIONS ")|" LETTERS_AND_ONE_BEFORE "|\\p{N}{1,3}|" SYMBOLS
                   "[\\r\\n]*|" LINE_ENDS "|" SPACES_BUT_LAST "|" SPACES,
        .whole_pieces = true,
        .adds_bos = true,
    },
    {
        .name = "qwen2",
        .pattern = "(?i:" CONTRACTIONS ")|" LETTERS_AND_ONE_BEFORE "|\\p{N}|" SYMBOLS
                   "[\\r\\n]*|" LINE_ENDS "|" SPACES_BUT_LAST "|" SPACES,
        .compose = true,
    },
    {
        // A word is upper case, then lower case; what has no case is both: "isHTTPOk" is is, HTTPOk.
        .name = "tekken",
        .pattern = "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+|"
                   "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]+[" LOWER "]*|\\p{N}|" SYMBOLS
                   "[\\r\\n/]*|" LINE_ENDS "|" SPACES_BUT_LAST "|" SPACES,
        .whole_pieces = true,
        .adds_bos = true,
    },
    {
        .name = "gpt-2",
        .pattern = CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|" SPACES_BUT_LAST "|" SPACES,
    },
    {
        // Digits are cut out first, so what stands before one is at the end of its text.
        .name = "smollm",
        .pattern =
            CONTRACTIONS "| ?\\p{L}+|\\p{N}|" SYMBOLS "|" SPACES "(?![^" WS "\\p{N}])|" SPACES,
    },
};

enum {
    MATCH_LIMIT =
        10 * 1000 * 1000, // steps of one match, so that no text costs more than its length
    HEAP_LIMIT_KIB = 64 * 1024,
    UNMATCHED_WORD_BYTES = 1 << 20, // taken as one word where a limit was hit
};

static const pretokenizer_rules *find_rules(const char *name)
{
    static const char *const aliases[][2] = {
        {"llama3", "llama-bpe"},
        {"llama-v3", "llama-bpe"},
    };
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (strcmp(name, aliases[i][0]) == 0)
            name = aliases[i][1];
    }
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
        if (strcmp(name, RULES[i].name) == 0)
            return &RULES[i];
    }
    return NULL;
}

bool pretokenizer_build(pretokenizer *p, const char *name, engine_error *err)
{
    static const char known[] = "weft knows llama-bpe, qwen2, tekken, gpt-2 and smollm";
    if (!name || name[0] == '\0')
        return engine_fail(err,
                           "tokenizer: the file does not say how text is cut into words "
                           "(tokenizer.ggml.pre); %s: convert the model anew",
                           known);
    p->rules = find_rules(name);
    if (!p->rules)
        return engine_fail(err, "tokenizer: unknown pre-tokenizer \"%.64s\"; %s", name, known);
    int code = 0;
    PCRE2_SIZE offset = 0;
    p->code = pcre2_compile((PCRE2_SPTR)p->rules->pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    if (!p->code)
        return engine_fail(err, "tokenizer: PCRE2 refused the pattern of %s with error %d at %zu",
                           p->rules->name, code, (size_t)offset);
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); // where there is no JIT it is interpreted
    p->limits = pcre2_match_context_create(NULL);
    if (!p->limits)
        return engine_fail(err, "tokenizer: not enough memory for the pre-tokenizer");
    pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(p->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(p->limits, HEAP_LIMIT_KIB);
    return true;
}

void pretokenizer_free(pretokenizer *p)
{
    pcre2_match_context_free(p->limits);
    pcre2_code_free(p->code);
    *p = (pretokenizer){0};
}

pcre2_match_data *pretokenizer_start(const pretokenizer *p)
{
    return pcre2_match_data_create_from_pattern(p->code, NULL);
}

size_t pretokenizer_next(const pretokenizer *p, pcre2_match_data *match, const char *text,
                         size_t text_bytes, size_t position)
{
    int result = pcre2_match(p->code, (PCRE2_SPTR)text, text_bytes, position, PCRE2_NO_UTF_CHECK,
                             match, p->limits);
    if (result > 0) {
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(match);
        // Were there a character that no alternative takes, it would be a word of its own.
        return range[0] > position ? range[0] : range[1];
    }
    size_t end = position + UNMATCHED_WORD_BYTES;
    if (result == PCRE2_ERROR_NOMATCH || end >= text_bytes)
        return text_bytes;
    while (((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    return end;
}
