// SPDX-License-Identifier: MIT
// How the tokenizer.json of a byte-level vocabulary cuts text into words: by the name that GGUF has for it, else by
// its patterns.
#include <stdio.h>
#include <string.h>

#include "engine/safetensors/checkpoint_tokenizer.h"

enum { STAGES = 6, PATTERN_BYTES = 4096 };

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS        "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define TAIL         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER        "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define CASED(end)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+" end "|[^\\r\\n\\p{L}\\p{N}]?[" UPPER          \
    "]+[" LOWER "]*" end "|"
#define SLASHED_TAIL " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT_2        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

// Patterns of the stages, the names that GGUF has for them, and what else the name stands for.
static const struct {
    const char *stages[STAGES];
    const char *name;
    bool whole_pieces, compose;
} known[] = {
    {{CONTRACTIONS "|" WORDS "\\p{N}{1,3}|" TAIL}, "llama-bpe", true, false},
    {{CONTRACTIONS "|" WORDS "\\p{N}{1,3}|" TAIL}, "dbrx", false, false},
    {{CONTRACTIONS "|" WORDS "\\p{N}|" TAIL}, "qwen2", false, true},
    {{CONTRACTIONS "|" WORDS "\\p{N}|" TAIL}, "stablelm2", false, false},
    {{CASED("") "\\p{N}|" SLASHED_TAIL}, "tekken", true, false},
    {{CASED(CONTRACTIONS "?") "\\p{N}{1,3}|" SLASHED_TAIL}, "gpt-4o", false, false},
    {{CASED(CONTRACTIONS "?") "\\p{N}{1,3}|" SLASHED_TAIL}, "granite-embed-multi-97m", true, false},
    {{"\\d{1,3}(?=(?:\\d{3})*\\b)", CASED(CONTRACTIONS "?") "\\p{N}{1,3}|" SLASHED_TAIL},
     "tiny_aya",
     false,
     false},
    {{"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}, "superbpe", false, false},
    {{GPT_2}, "gpt-2", false, false},
    {{GPT_2}, "mpt", false, true},
    {{"\\p{N}", GPT_2}, "smollm", false, false},
    {{"\\p{N}", GPT_2}, "command-r", false, true},
};

typedef struct word_reader {
    const tokenizer_json *r;
    char stages[STAGES][PATTERN_BYTES]; // as the file has them
    int count;
} word_reader;

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static bool refuse(const word_reader *w, const char *what)
{
    return engine_fail(
        w->r->err, "tokenizer.json: text is cut in a way that weft does not know: '%.100s'", what);
}

static bool add_stage(word_reader *w, const char *pattern)
{
    if (w->count == STAGES || strlen(pattern) >= PATTERN_BYTES)
        return refuse(w, "patterns that are many or long");
    strcpy(w->stages[w->count++], pattern);
    return true;
}

static bool add_split(word_reader *w, const json_t *split)
{
    const json_t *pattern = json_object_get(split, "pattern");
    const char *regex = text_of(pattern, "Regex"), *behavior = text_of(split, "behavior");
    bool inverted = json_is_true(json_object_get(split, "invert"));
    // What matches is kept and all else is dropped: nothing is else, where a pattern takes all text.
    bool kept = behavior && strcmp(behavior, inverted ? "Removed" : "Isolated") == 0;
    return (regex && kept && add_stage(w, regex)) || refuse(w, regex ? regex : "no pattern");
}

static bool add_bytes(word_reader *w, const json_t *bytes)
{
    if (json_is_true(json_object_get(bytes, "add_prefix_space")))
        return refuse(w, "a space put in front");
    return json_is_false(json_object_get(bytes, "use_regex")) || add_stage(w, GPT_2);
}

static bool add_node(word_reader *w, const json_t *node)
{
    const char *type = text_of(node, "type"), *behavior = text_of(node, "behavior");
    if (type && strcmp(type, "Split") == 0)
        return add_split(w, node);
    if (type && strcmp(type, "ByteLevel") == 0)
        return add_bytes(w, node);
    if (type && strcmp(type, "Digits") == 0)
        return add_stage(w, json_is_true(json_object_get(node, "individual_digits")) ? "\\p{N}"
                                                                                     : "\\p{N}+");
    if (type && strcmp(type, "Punctuation") == 0 && behavior &&
        (strcmp(behavior, "Isolated") == 0 || strcmp(behavior, "Contiguous") == 0))
        return add_stage(w,
                         *behavior == 'I' ? "[!-/:-@\\[-`{-~\\p{P}]" : "[!-/:-@\\[-`{-~\\p{P}]+");
    return refuse(w, type ? type : "nothing");
}

static bool add_nodes(word_reader *w, const json_t *pre)
{
    const json_t *list = json_object_get(pre, "pretokenizers"), *node;
    const char *type = text_of(pre, "type");
    size_t i;
    if (!type || strcmp(type, "Sequence") != 0)
        return add_node(w, pre);
    json_array_foreach(list, i, node)
    {
        if (!add_node(w, node))
            return false;
    }
    return w->count > 0 || refuse(w, "no pattern");
}

// NFC, or nothing.
static bool read_normalizer(const tokenizer_json *r, bool *compose)
{
    const json_t *node = json_object_get(r->root, "normalizer");
    const json_t *list = json_object_get(node, "normalizers");
    const char *type = text_of(node, "type");
    *compose = false;
    if (!node || json_is_null(node) || (json_is_array(list) && json_array_size(list) == 0))
        return true;
    if (json_array_size(list) == 1)
        type = text_of(json_array_get(list, 0), "type");
    *compose = type && strcmp(type, "NFC") == 0;
    return *compose || engine_fail(r->err,
                                   "tokenizer.json: text is normalised by '%.32s', which weft "
                                   "cannot do",
                                   type ? type : "several rules");
}

static bool is_known(const word_reader *w, size_t row, bool whole_pieces, bool compose)
{
    for (int i = 0; i < w->count; i++)
        if (!known[row].stages[i] || strcmp(known[row].stages[i], w->stages[i]) != 0)
            return false;
    return (w->count == STAGES || !known[row].stages[w->count]) &&
           known[row].whole_pieces == whole_pieces && known[row].compose == compose;
}

// --- from Oniguruma to PCRE2 ----------------------------------------------------------------------------

// White space as the files' own programs know it.
#define SPACE "\\p{Z}\\t-\\r\\x{85}"

typedef struct translation {
    const char *from;
    char *to, *end;
    bool in_class;
} translation;

static bool put(translation *t, const char *text, size_t length)
{
    if ((size_t)(t->end - t->to) <= length)
        return false;
    memcpy(t->to, text, length);
    t->to += length;
    *t->to = '\0';
    return true;
}

static bool put_text(translation *t, const char *text)
{
    return put(t, text, strlen(text));
}

// \p{Han} means the script alone in these files, in PCRE2 whatever is written with it, too.
static bool is_script(const char *name, size_t length)
{
    static const char *const scripts[] = {"Han",   "Hiragana", "Katakana",  "Hangul", "Arabic",
                                          "Thai",  "Cyrillic", "Greek",     "Latin",  "Hebrew",
                                          "Tamil", "Bengali",  "Devanagari"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (strlen(scripts[i]) == length && memcmp(scripts[i], name, length) == 0)
            return true;
    return false;
}

// One escape. \s and \d mean other things in PCRE2; what is not here is refused.
static bool put_escape(translation *t)
{
    const char c = t->from[1];
    size_t length = 2;
    if (c == 's')
        return (t->from += 2, put_text(t, t->in_class ? SPACE : "[" SPACE "]"));
    if (c == 'S' && !t->in_class)
        return (t->from += 2, put_text(t, "[^" SPACE "]"));
    if (c == 'd')
        return (t->from += 2, put_text(t, "\\p{Nd}"));
    if ((c == 'p' || c == 'P') && t->from[2] == '{') {
        length = strcspn(t->from, "}") + 1;
        if (length > 32 || t->from[length - 1] != '}')
            return false;
        if (is_script(t->from + 3, length - 4)) {
            if (!put(t, t->from, 3) || !put_text(t, "sc:"))
                return false;
            t->from += 3;
            length -= 3;
        }
    } else if (!c || (!strchr("rntfv", c) && !strchr("\\^$.|?*+()[]{}-/'\"`~!@#%&=<>,;:_ ", c))) {
        return false;
    }
    t->from += length;
    return put(t, t->from - length, length);
}

// Groups that match and look around; no recursion, no verbs, no callouts.
static bool is_plain_group(const char *open)
{
    static const char *const plain[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?i)", "(?>"};
    if (open[1] != '?' && open[1] != '*')
        return true;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strncmp(open, plain[i], strlen(plain[i])) == 0)
            return true;
    return false;
}

// What means something else in PCRE2, or may: classes in classes and those that begin with a bracket, anchors,
// {2}+, which repeats there and takes hold here, and {,2}.
static bool is_other(const translation *t)
{
    static const char *const in_class[] = {"[", "&&"};
    static const char *const outside[] = {"^", "[]", "[^]", "}+", "{,"};
    const char *const *others = t->in_class ? in_class : outside;
    size_t count =
        t->in_class ? sizeof in_class / sizeof *in_class : sizeof outside / sizeof *outside;
    for (size_t i = 0; i < count; i++)
        if (strncmp(t->from, others[i], strlen(others[i])) == 0)
            return true;
    return (unsigned char)*t->from < ' ' ||
           (!t->in_class && *t->from == '(' && !is_plain_group(t->from));
}

static bool translate(const char *from, char *to, size_t room)
{
    translation t = {from, to, to + room, false};
    for (*to = '\0'; *t.from;) {
        const char c = *t.from;
        bool starts = c == '[' && !t.in_class;
        if (is_other(&t))
            return false;
        if (c == '\\') {
            if (!put_escape(&t))
                return false;
            continue;
        }
        if (c == '$' && !t.in_class) { // the end of a line
            if (!put_text(&t, "(?=\\n|\\z)"))
                return false;
            t.from++;
            continue;
        }
        size_t length = starts && t.from[1] == '^' ? 2 : 1;
        if (starts)
            t.in_class = true;
        else if (c == ']')
            t.in_class = false;
        if (!put(&t, t.from, length))
            return false;
        t.from += length;
    }
    return !t.in_class;
}

// "patterns:", a letter for each flag, and a line for each stage.
static bool put_patterns(const word_reader *w, bool whole_pieces, bool compose)
{
    char text[STAGES * 2 * PATTERN_BYTES];
    size_t used = (size_t)snprintf(text, sizeof text, "patterns:%s%s", whole_pieces ? "w" : "",
                                   compose ? "c" : "");
    for (int i = 0; i < w->count; i++) {
        text[used++] = '\n';
        if (!translate(w->stages[i], text + used, 2 * PATTERN_BYTES - 32))
            return refuse(w, w->stages[i]);
        used += strlen(text + used);
    }
    gguf_output_text(w->r->output, "tokenizer.ggml.pre", text);
    return true;
}

bool tokenizer_json_put_words(const tokenizer_json *r)
{
    word_reader w = {.r = r, .count = 0};
    bool whole_pieces = json_is_true(json_object_get(r->model, "ignore_merges")), compose;
    if (!read_normalizer(r, &compose) || !add_nodes(&w, json_object_get(r->root, "pre_tokenizer")))
        return false;
    for (size_t row = 0; row < sizeof known / sizeof *known; row++)
        if (is_known(&w, row, whole_pieces, compose)) {
            gguf_output_text(r->output, "tokenizer.ggml.pre", known[row].name);
            return true;
        }
    return put_patterns(&w, whole_pieces, compose);
}
