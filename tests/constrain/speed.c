// SPDX-License-Identifier: MIT
// What constraining costs a token, with a vocabulary of 128,000 pieces made up of syllables, or that of a GGUF
// file: `constrain_speed [FILE]` prints for a few grammars the time of a mask that is new, of one that is
// known, and of asking the likeliest alone, as they are put over logits. For people; docs of the figures:
// engine/constrain/NOTES.md.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/constrain/constraint.h"
#include "engine/gguf/gguf.h"
#include "tests/support/made_up_vocabulary.h"

enum { PIECES = 128000, MAX_PIECES = 1 << 19, MAX_TIMES = 4096 };

static double now_us(void)
{
    struct timespec time; // of the processor: others may use the machine
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

// Words of syllables: every other one begins with a space, some end with what JSON has between words.
static size_t make_piece(uint32_t n, char *text)
{
    static const char syllables[] =
        "taneliromasotidekaruvisemoanerinstalchouprexulybythoxezuquwigoja";
    static const char *const ends[] = {"\"", "\":", "\",", "\"}", ".", ",", "}", "\n"};
    size_t size = 0;
    if (n % 2)
        text[size++] = ' ';
    uint32_t rest = n / 2;
    do {
        memcpy(text + size, syllables + 2 * (rest % 32), 2);
        size += 2;
        rest /= 32;
    } while (rest > 0);
    if (n % 29 == 0) {
        const char *end = ends[n / 29 % 8];
        memcpy(text + size, end, strlen(end));
        size += strlen(end);
    }
    return size;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// The first token of a text, and its bytes.
static size_t next_token(const tokenizer *t, const char *text, size_t bytes, int32_t *id)
{
    tokenizer_ids ids = {0};
    tokenizer_bytes piece = {"", 0};
    *id = -1;
    if (tokenizer_encode(t, text, bytes, 0, &ids, NULL) && ids.count > 0)
        *id = ids.ids[0];
    tokenizer_ids_free(&ids);
    return tokenizer_piece(t, *id, &piece) ? piece.size_bytes : 0;
}

// As a model might give them: any, but the next token is the likeliest.
static void make_logits(float *logits, int32_t vocab, int32_t next)
{
    static uint32_t state = 1;
    for (int32_t id = 0; id < vocab; id++) {
        state = state * 1664525u + 1013904223u;
        logits[id] = (float)(state >> 8) * 0x1p-24f;
    }
    if (next >= 0)
        logits[next] = 2;
}

// A text goes through a constraint; returns how many tokens it has.
static size_t pass_through(constraint *c, const token_trie *trie, const char *text, int32_t most,
                           double times[MAX_TIMES])
{
    static float logits[MAX_PIECES];
    int32_t vocab = trie->vocab < MAX_PIECES ? trie->vocab : MAX_PIECES;
    size_t count = 0, bytes = strlen(text);
    engine_error err = {""};
    constraint_cursor *cursor = constraint_begin(c, &err);
    for (size_t at = 0, size; at < bytes && count < MAX_TIMES; at += size) {
        int32_t id;
        size = next_token(trie->tokenizer, text + at, bytes - at, &id);
        make_logits(logits, vocab, id);
        double started = now_us();
        bool fine = constraint_apply_likeliest(cursor, logits, vocab, most, &err);
        times[count++] = now_us() - started;
        if (!fine || size == 0 || !constraint_accept(cursor, id, &err)) {
            printf("stuck at %.20s: %s\n", text + at, err.text);
            break;
        }
    }
    constraint_end(cursor);
    return count;
}

static void print_times(const char *name, const char *how, double *times, size_t count)
{
    double all = 0;
    for (size_t i = 0; i < count; i++)
        all += times[i];
    qsort(times, count, sizeof *times, by_time);
    printf("%-24s %-12s %4zu tokens  mean %7.1f us  median %7.1f us  worst %8.1f us\n", name, how,
           count, all / (double)count, times[count / 2], times[count - 1]);
}

// `make` parses `source`, anew for each way.
static void measure(const char *name,
                    grammar *make(const char *source, size_t bytes, engine_error *err),
                    const char *source, const token_trie *trie, const char *text)
{
    static const struct {
        const char *how;
        int32_t most;
        bool anew;
    } ways[] = {
        {"new", 0, true}, {"known", 0, false}, {"new, top 40", 40, true}, {"new, greedy", 1, true}};
    static double times[MAX_TIMES];
    constraint *c = NULL;
    engine_error err = {""};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        if (ways[way].anew) {
            constraint_close(c);
            grammar *g = make(source, strlen(source), &err);
            c = g ? constraint_open(g, trie, &err) : NULL;
        }
        if (c)
            print_times(name, ways[way].how, times,
                        pass_through(c, trie, text, ways[way].most, times));
    }
    constraint_close(c);
}

// What users ask for: a schema's object, lists, the JSON of llama.cpp's examples, lines of anything.
static void measure_all(const token_trie *trie)
{
    static const char
        any[] = "{\"type\": \"object\"}",
        text[] = "{\"name\": \"tarome salico dekaruvi\", \"list\": [1, 2.5, {\"a\": \"unveil "
                 "the estate\", \"b\": [true]}], \"more\": \"rotidema viserumo taliro\"}",
        strict[] = "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": "
                   "\"string\", \"maxLength\": 60}, \"list\": {\"type\": \"array\"}, "
                   "\"more\": {\"type\": \"string\", \"pattern\": \"^[a-z ]+$\"}}, "
                   "\"required\": [\"name\", \"list\", \"more\"]}",
        words[] = "root ::= ([a-z] | \" \" | \",\")* \".\"",
        lines[] = "root ::= line (\"\\n\" line)*\nline ::= \"- \" [^\\n]*",
        json[] =
            "root ::= object\nvalue ::= object | array | string | number | (\"true\" | "
            "\"false\" | \"null\") ws\nobject ::= \"{\" ws (string \":\" ws value (\",\" ws "
            "string \":\" ws value)*)? \"}\" ws\narray ::= \"[\" ws (value (\",\" ws "
            "value)*)? \"]\" ws\nstring ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" "
            "([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\" ws\nnumber ::= (\"-\"? ([0-9] | "
            "[1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\n"
            "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}";
    measure("any object", schema_parse, any, trie, text);
    measure("maxLength and pattern", schema_parse, strict, trie, text);
    measure("grammar of words", gbnf_parse, words, trie,
            "tarome salico dekaruvi, nelimo tasote kadevi, rotidema viserumo taliro.");
    measure("grammar of lines", gbnf_parse, lines, trie,
            "- tarome salico, dekaruvi\n- nelimo: \"tasote\" (kadevi)\n- rotidema viserumo");
    measure("grammar of JSON", gbnf_parse, json, trie, text);
}

static tokenizer *open_tokenizer(const char *path, engine_error *err)
{
    gguf_file *file = path ? gguf_open(path, err) : NULL;
    tokenizer *t = !path  ? made_up_vocabulary(PIECES - 258, make_piece, err)
                   : file ? tokenizer_from_gguf(file, err)
                          : NULL;
    gguf_close(file);
    return t;
}

int main(int argc, char **argv)
{
    engine_error err = {""};
    double started = now_us();
    tokenizer *t = open_tokenizer(argc > 1 ? argv[1] : NULL, &err);
    double made = now_us();
    token_trie *trie = t ? token_trie_make(t, &err) : NULL;
    if (!trie) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("vocabulary %d: tokenizer %.0f ms, tree %.0f ms, %u nodes\n", trie->vocab,
           (made - started) / 1e3, (now_us() - made) / 1e3, trie->node_count);
    measure_all(trie);
    token_trie_free(trie);
    tokenizer_free(t);
    return 0;
}
