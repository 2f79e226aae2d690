// SPDX-License-Identifier: MIT
#include "engine/tokenizer/pretokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

// White space as the models' tokenizers know it: PCRE2's own \s has U+180E in addition.
#define WS                     "\\p{Z}\\t-\\r\\x{85}"
#define SPACES                 "[" WS "]+"
#define CONTRACTIONS           "'s|'t|'re|'ve|'m|'ll|'d"
#define ANY_CONTRACTIONS       "(?i:" CONTRACTIONS ")"
#define ONE_BEFORE             "[^\\r\\n\\p{L}\\p{N}]?"
#define LETTERS_AND_ONE_BEFORE ONE_BEFORE "\\p{L}+"
#define UPPER                  "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER                  "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define SYMBOLS                " ?[^" WS "\\p{L}\\p{N}]+"
#define LINE_ENDS              "[" WS "]*[\\r\\n]+"
#define SPACES_BUT_LAST        SPACES "(?![^" WS "])" // leaves one space to the word that follows
// Looks at each run of spaces once: \G is where a piece begins.
#define LAST_SPACES  "(?:\\G|(?<![" WS "]))" SPACES "+$"
#define TAIL         SYMBOLS "[\\r\\n]*|" LINE_ENDS "|" SPACES_BUT_LAST "|" SPACES
#define HAN_AND_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define EAST_ASIAN   "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

// A word is upper case, then lower case; what has no case is both: "isHTTPOk" is is, HTTPOk. `end` may
// follow it, `upper` and `lower` are one letter each.
#define CASED_WORDS(upper, lower, end)                                                             \
    ONE_BEFORE upper "*" lower "+" end "|" ONE_BEFORE upper "+" lower "*" end
#define NOT_HAN "(?!\\p{sc:Han})"
#define GPT_4O(digits)                                                                             \
    CASED_WORDS("[" UPPER "]", "[" LOWER "]", ANY_CONTRACTIONS "?")                                \
    "|" digits "|" SYMBOLS "[\\r\\n/]*|" LINE_ENDS "|" SPACES_BUT_LAST "|" SPACES

// Digits in threes from the right. What begins a run decides by its length; behind a digit (\G) the rest of
// the run is known to be of threes, and is not counted again.
#define THREES(digit, run_end)                                                                     \
    "(?<!" digit ")" digit "{1,3}(?=(?:" digit "{3})*+" run_end ")|\\G(?<=" digit ")" digit "{3}"
#define NO_WORD_GOES_ON "(?![\\p{Alphabetic}\\p{M}\\p{N}\\p{Pc}])"

#define LLAMA_3 ANY_CONTRACTIONS "|" LETTERS_AND_ONE_BEFORE "|\\p{N}{1,3}|" TAIL
#define QWEN_2  ANY_CONTRACTIONS "|" LETTERS_AND_ONE_BEFORE "|\\p{N}|" TAIL
// Behind a space that ends no line no line ends in the same run of spaces: that was tried where the run began.
#define SPACES_IN_POWERS                                                                           \
    "(?<![ \\t\\x{B}\\x{C}\\x{85}\\p{Z}])" LINE_ENDS "|(?:[" WS "]{512}|[" WS "]{256}|[" WS        \
    "]{128}|[" WS "]{64}|[" WS "]{32}|[" WS "]{16}|[" WS "]{8}|[" WS "]{4}|[" WS "]{1,2})(?![^" WS \
    "])|[" WS "]"
#define DEEPSEEK_3_WORDS                                                                           \
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define DEEPSEEK_3 DEEPSEEK_3_WORDS "[\\r\\n]*|" LINE_ENDS "|" SPACES_BUT_LAST "|" SPACES
#define GPT_2      CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|" SPACES_BUT_LAST "|" SPACES

// The cased letters that DeepSeek's first tokenizer lists.
#define CASED_LETTERS                                                                              \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"                 \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                  \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                       \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                 \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                 \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}"                 \
    "\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}"         \
    "\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"                           \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}"                 \
    "\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}"          \
    "\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                  \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"         \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}"                  \
    "\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}"                 \
    "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}"                 \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}"         \
    "\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

static const pretokenizer_rules RULES[] = {
    {.name = "llama-bpe", .patterns = {LLAMA_3}, .whole_pieces = true, .adds_bos = true},
    {.name = "dbrx", .patterns = {LLAMA_3}},
    {.name = "glm4", .patterns = {LLAMA_3}, .whole_pieces = true},
    {.name = "jais-2",
     .patterns = {ANY_CONTRACTIONS "|" LETTERS_AND_ONE_BEFORE "|\\p{N}{1,3}|" SYMBOLS
                                   "[\\r\\n]*|" SPACES_IN_POWERS}},
    {.name = "minicpm5",
     .patterns = {"\\p{N}{1,3}", ANY_CONTRACTIONS "|" LETTERS_AND_ONE_BEFORE "|\\p{N}+|" TAIL},
     .whole_pieces = true},
    {.name = "qwen2", .patterns = {QWEN_2}, .compose = true},
    {.name = "stablelm2", .patterns = {QWEN_2}},
    {.name = "laguna", .patterns = {"[^\\n]+|\\n+", QWEN_2}},
    {.name = "ufakzeka", .patterns = {LETTERS_AND_ONE_BEFORE "|\\p{N}|" TAIL}},
    {
        .name = "qwen35",
        .patterns = {ANY_CONTRACTIONS "|" ONE_BEFORE "[\\p{L}\\p{M}]+|\\p{N}| ?[^" WS
                                      "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINE_ENDS "|" SPACES_BUT_LAST
                                      "|" SPACES},
        .compose = true,
    },
    {
        .name = "tekken",
        .patterns = {CASED_WORDS("[" UPPER "]", "[" LOWER "]", "") "|\\p{N}|" SYMBOLS
                                                                   "[\\r\\n/]*|" LINE_ENDS
                                                                   "|" SPACES_BUT_LAST "|" SPACES},
        .whole_pieces = true,
        .adds_bos = true,
    },
    {.name = "gpt-4o", .patterns = {GPT_4O("\\p{N}{1,3}")}},
    {.name = "granite-embed-multi-97m", .patterns = {GPT_4O("\\p{N}{1,3}")}, .whole_pieces = true},
    {.name = "tiny_aya", .patterns = {THREES("\\p{Nd}", NO_WORD_GOES_ON), GPT_4O("\\p{N}{1,3}")}},
    {
        .name = "youtu",
        .patterns =
            {"[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}"
             "\\x{2018}\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}"
             "\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+|" HAN_AND_KANA,
             GPT_4O("\\p{N}")},
        .whole_pieces = true,
    },
    {
        .name = "kimi-k2",
        .patterns = {"\\p{sc:Han}+|" CASED_WORDS("(?:" NOT_HAN "[" UPPER "])",
                                                 "(?:" NOT_HAN "[" LOWER "])",
                                                 ANY_CONTRACTIONS "?") "|\\p{N}{1,3}|" TAIL},
    },
    {.name = "gpt-2", .patterns = {GPT_2}},
    {.name = "roberta-bpe", .patterns = {GPT_2}, .adds_bos = true, .adds_eos = true},
    {.name = "smollm", .patterns = {"\\p{N}", GPT_2}},
    {.name = "falcon", .patterns = {"[\\p{P}$+<=>^~|`]+", GPT_2, "[0-9]{3}"}},
    {
        .name = "deepseek-llm",
        .patterns = {"[\\r\\n]", "[" WS "]?[" CASED_LETTERS "]+",
                     "[" WS "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}"
                     "\\x{3000}-\\x{3002}]+",
                     LAST_SPACES, EAST_ASIAN, "\\p{N}+"},
    },
    {
        .name = "deepseek-coder",
        .patterns = {"[\\r\\n]", "[" WS "]?\\p{L}+", "[" WS "]?\\p{P}+", EAST_ASIAN, "\\p{N}"},
    },
    {.name = "deepseek-v3", .patterns = {"\\p{N}{1,3}", HAN_AND_KANA, DEEPSEEK_3}},
    {.name = "spark2_5",
     .patterns = {"\\p{N}{1,3}", HAN_AND_KANA,
                  DEEPSEEK_3_WORDS "|[\\r\\n]|" SPACES_BUT_LAST "|" SPACES, "\\p{N}"}},
    {
        .name = "afmoe",
        .patterns = {THREES("\\p{N}", "(?!\\p{N})"),
                     "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}"
                     "\\x{30A0}-\\x{30FF}\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}"
                     "\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}"
                     "\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+",
                     DEEPSEEK_3},
    },
    {
        .name = "bailingmoe",
        .patterns = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^" WS
                     "\\p{L}\\p{N}]++[\\r\\n]*|[" WS "]*[\\r\\n]|" SPACES_BUT_LAST "|" SPACES},
    },
    {
        .name = "seed-coder",
        .patterns = {ANY_CONTRACTIONS "|" LETTERS_AND_ONE_BEFORE "|\\p{N}| ?[^" WS
                                      "\\p{L}\\p{N}\\r\\n]+|" LINE_ENDS "|" SPACES_BUT_LAST
                                      "|" SPACES},
    },
    {
        .name = "exaone-moe",
        .patterns = {ANY_CONTRACTIONS "|" ONE_BEFORE
                                      "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|" SYMBOLS
                                      "[\\r\\n/]?|[" WS "]*[\\r\\n]|" SPACES_BUT_LAST "|" SPACES},
    },
    {.name = "bloom",
     .patterns = {" ?[^(" WS "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}"
                  "\\x{6D4}\\x{60C})]+"}},
    {.name = "viking",
     .patterns = {" ?[^(" WS "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}"
                  "\\x{6D4}\\x{60C})]+",
                  "\\p{N}"}},
    {.name = "chameleon",
     .patterns = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
                  "[\\p{P}!-/:-@\\[-`{-~]", GPT_2},
     .adds_bos = true},
    {.name = "superbpe",
     .patterns = {"\\p{N}+", "\\G(?<=\\p{Nd})\\p{Nd}{3}(?=\\p{Nd})|"
                             "(?=(?:\\p{Nd}{3})++(?!\\p{Nd}))"}},
};

// Names that files give to the same rules. Source: llama.cpp's list of pre-tokenizers.
static const struct {
    const char *name, *rules;
    bool compose; // though the rules do not. Source: the models' tokenizers in transformers
} ALIASES[] = {
    {.name = "llama3", .rules = "llama-bpe"},
    {.name = "llama-v3", .rules = "llama-bpe"},
    {.name = "falcon3", .rules = "llama-bpe"},
    {.name = "falcon-h1", .rules = "llama-bpe"},
    {.name = "pixtral", .rules = "llama-bpe"},
    {.name = "midm-2.0", .rules = "llama-bpe"},
    {.name = "lfm2", .rules = "llama-bpe"},
    {.name = "jina-v5-nano", .rules = "llama-bpe"},
    {.name = "smaug-bpe", .rules = "dbrx"},
    {.name = "chatglm-bpe", .rules = "dbrx"},
    {.name = "glm5", .rules = "glm4"},
    {.name = "deepseek-r1-qwen", .rules = "qwen2"},
    {.name = "megrez", .rules = "qwen2"},
    {.name = "kormo", .rules = "qwen2"},
    {.name = "f2llmv2", .rules = "qwen2"},
    {.name = "hunyuan", .rules = "stablelm2"},
    {.name = "grok-2", .rules = "stablelm2"},
    {.name = "solar-open", .rules = "stablelm2"},
    {.name = "llama4", .rules = "gpt-4o"},
    {.name = "kanana2", .rules = "gpt-4o"},
    {.name = "cohere2moe", .rules = "tiny_aya"},
    {.name = "minimax-m2", .rules = "gpt-4o"},
    {.name = "talkie", .rules = "gpt-4o"},
    {.name = "phi-2", .rules = "gpt-2"},
    {.name = "mpt", .rules = "gpt-2", .compose = true},
    {.name = "olmo", .rules = "gpt-2", .compose = true},
    {.name = "jais", .rules = "gpt-2"},
    {.name = "trillion", .rules = "gpt-2"},
    {.name = "granite-docling", .rules = "gpt-2"},
    {.name = "exaone4", .rules = "gpt-2"},
    {.name = "gigachat", .rules = "gpt-2"},
    {.name = "mellum", .rules = "gpt-2"},
    {.name = "a.x-4.0", .rules = "gpt-2"},
    {.name = "modern-bert", .rules = "gpt-2"},
    {.name = "jina-v2-es", .rules = "gpt-2"},
    {.name = "jina-v2-de", .rules = "gpt-2"},
    {.name = "jina-es", .rules = "gpt-2"},
    {.name = "jina-de", .rules = "gpt-2"},
    {.name = "jina-v2-code", .rules = "roberta-bpe"},
    {.name = "jina-v1-en", .rules = "roberta-bpe"},
    {.name = "starcoder", .rules = "smollm"},
    {.name = "refact", .rules = "smollm"},
    {.name = "command-r", .rules = "smollm", .compose = true},
    {.name = "codeshell", .rules = "smollm"},
    {.name = "exaone", .rules = "smollm"},
    {.name = "minerva-7b", .rules = "smollm"},
    {.name = "mellum2", .rules = "smollm"},
    {.name = "hunyuan-dense", .rules = "deepseek-v3"},
    {.name = "hy_v4", .rules = "deepseek-v3"},
    {.name = "joyai-llm", .rules = "deepseek-v3"},
    {.name = "bailingmoe2", .rules = "bailingmoe"},
    {.name = "llada-moe", .rules = "bailingmoe"},
    {.name = "poro-chat", .rules = "bloom"},
    {.name = "gpt3-finnish", .rules = "bloom"},
};

#define OWN "patterns:"

enum {
    MATCH_LIMIT =
        10 * 1000 * 1000, // steps of one match, so that no text costs more than its length
    HEAP_LIMIT_KIB = 64 * 1024,
    UNMATCHED_WORD_BYTES = 1 << 20, // taken as one word where a limit was hit
};

static void find_rules(pretokenizer *p, const char *name)
{
    for (size_t i = 0; i < sizeof ALIASES / sizeof ALIASES[0]; i++)
        if (strcmp(name, ALIASES[i].name) == 0) {
            p->compose = ALIASES[i].compose;
            name = ALIASES[i].rules;
            break;
        }
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++)
        if (strcmp(name, RULES[i].name) == 0) {
            p->rules = &RULES[i];
            p->compose |= RULES[i].compose;
        }
}

const char *pretokenizer_name_at(size_t n)
{
    return n < sizeof RULES / sizeof RULES[0] ? RULES[n].name : NULL;
}

static bool refuse_name(const char *name, engine_error *err)
{
    char known[400] = "";
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 RULES[i].name);
    if (!name || name[0] == '\0')
        return engine_fail(err,
                           "tokenizer: the file does not say how text is cut into words "
                           "(tokenizer.ggml.pre): convert the model anew; weft knows %s",
                           known);
    return engine_fail(err, "tokenizer: unknown pre-tokenizer \"%.64s\"; weft knows %s", name,
                       known);
}

// The lines of a name that brings its own rules.
static bool read_own(pretokenizer *p, const char *name, engine_error *err)
{
    p->text = engine_copy_text(name, strlen(name));
    if (!p->text)
        return engine_fail(err, "tokenizer: not enough memory for the pre-tokenizer");
    char *line = p->text, *next;
    p->own.name = "patterns";
    const char *flags = line + sizeof OWN - 1;
    p->own.whole_pieces = memchr(flags, 'w', strcspn(flags, "\n")) != NULL;
    p->own.compose = memchr(flags, 'c', strcspn(flags, "\n")) != NULL;
    for (int i = 0; (next = strchr(line, '\n')); i++) {
        *next = '\0';
        line = next + 1;
        if (i == PRETOKENIZER_STAGES || *line == '\n' || *line == '\0')
            return engine_fail(err, "tokenizer: its own patterns are more than %d, or empty",
                               PRETOKENIZER_STAGES);
        p->own.patterns[i] = line;
    }
    p->rules = &p->own;
    p->compose = p->own.compose;
    return p->own.patterns[0] || engine_fail(err, "tokenizer: it brings no pattern");
}

bool pretokenizer_build(pretokenizer *p, const char *name, engine_error *err)
{
    bool own = name && strncmp(name, OWN, sizeof OWN - 1) == 0;
    p->rules = NULL;
    if (name && !own)
        find_rules(p, name);
    if (own ? !read_own(p, name, err) : !p->rules && !refuse_name(name, err))
        return false;
    for (int i = 0; i < PRETOKENIZER_STAGES && p->rules->patterns[i]; i++) {
        int code = 0;
        PCRE2_SIZE offset = 0;
        p->codes[i] =
            pcre2_compile((PCRE2_SPTR)p->rules->patterns[i], PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, NULL);
        if (!p->codes[i])
            return engine_fail(err,
                               "tokenizer: PCRE2 refused the pattern of %s with error %d at %zu",
                               p->rules->name, code, (size_t)offset);
        (void)pcre2_jit_compile(p->codes[i], PCRE2_JIT_COMPLETE); // else it is interpreted
        p->stages = i + 1;
    }
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
    free(p->text);
    for (int i = 0; i < PRETOKENIZER_STAGES; i++)
        pcre2_code_free(p->codes[i]);
    *p = (pretokenizer){0};
}

bool pretokenizer_start(const pretokenizer *p, pretokenizer_walk *walk)
{
    *walk = (pretokenizer_walk){.p = p};
    walk->match = pcre2_match_data_create(1, NULL);
    return walk->match != NULL;
}

void pretokenizer_text(pretokenizer_walk *walk, const char *text, size_t text_bytes)
{
    walk->text = text;
    walk->text_bytes = text_bytes;
    memset(walk->ends, 0, sizeof walk->ends);
}

void pretokenizer_stop(pretokenizer_walk *walk)
{
    pcre2_match_data_free(walk->match);
    *walk = (pretokenizer_walk){0};
}

// The end of the piece that stage `stage` cuts off at `position` of a text that ends at `end`: a match, or
// what lies between two. A match of nothing cuts where it is.
static size_t cut(const pretokenizer_walk *walk, int stage, size_t position, size_t end)
{
    int result =
        pcre2_match(walk->p->codes[stage], (PCRE2_SPTR)walk->text, end, position,
                    PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY_ATSTART, walk->match, walk->p->limits);
    if (result >= 0) {
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(walk->match);
        size_t stop = range[0] > position ? range[0] : range[1];
        return stop > position && stop <= end ? stop : end;
    }
    size_t limit = position + UNMATCHED_WORD_BYTES;
    if (result == PCRE2_ERROR_NOMATCH || limit >= end)
        return end;
    while (((unsigned char)walk->text[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

size_t pretokenizer_next(pretokenizer_walk *walk, size_t position)
{
    size_t end = walk->text_bytes;
    for (int stage = 0; stage < walk->p->stages; stage++) {
        if (walk->ends[stage] <= position)
            walk->ends[stage] = cut(walk, stage, position, end);
        end = walk->ends[stage];
    }
    return end;
}
