// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_CHAR_KIND_H
#define ENGINE_CONSTRAIN_CHAR_KIND_H

// Characters in kinds of which grammars mostly take all or none, so that a set of kinds says of many tokens at
// once that they can come: what a text is made of (token_trie.h) and what a place takes (stretch.h). Which
// kinds there are is a matter of speed alone: what is of none of them, or of a kind that a grammar takes a part
// of, is walked byte by byte.

#include <stddef.h>
#include <stdint.h>

//     X(characters)
#define CHAR_KINDS(X)                                                                              \
    X("abcdef")                                                                                    \
    X("ghijklmnopqrstuvwxyz")                                                                      \
    X("ABCDEF")                                                                                    \
    X("GHIJKLMNOPQRSTUVWXYZ")                                                                      \
    X("0123456789")                                                                                \
    X(" ")                                                                                         \
    X("\n")                                                                                        \
    X("\t")                                                                                        \
    X("\r")                                                                                        \
    X("\"")                                                                                        \
    X("\\")                                                                                        \
    X(".")                                                                                         \
    X(",")                                                                                         \
    X("-")                                                                                         \
    X("_")                                                                                         \
    X("'")                                                                                         \
    X(":;")                                                                                        \
    X("/")                                                                                         \
    X("()")                                                                                        \
    X("[]")                                                                                        \
    X("{}")                                                                                        \
    X("<>")                                                                                        \
    X("+*=")                                                                                       \
    X("!?")                                                                                        \
    X("@#$%^&~|`")

enum {
#define CHAR_KIND_ONE(characters) +1
    CHAR_KIND_ASCII = 0 CHAR_KINDS(CHAR_KIND_ONE), // how many
#undef CHAR_KIND_ONE
    CHAR_KIND_ABOVE =
        CHAR_KIND_ASCII, // characters above ASCII, the last of a text maybe without its end
    CHAR_KIND_OTHER,     // whatever else: ends of characters, control characters, special tokens
    CHAR_KIND_COUNT,
    CHAR_KINDS_WORDS = 0xF | 1 << CHAR_KIND_ABOVE, // of which most tokens are: letters
};

// What a text is made of: a bit by kind, and how many characters it has, CHAR_RUN_LONG for that many or more.
// The merit of one number: a tree has one at every node.
typedef uint32_t char_run;

enum { CHAR_RUN_LONG = 31, CHAR_RUN_SHIFT = 5 };
_Static_assert(CHAR_KIND_COUNT + CHAR_RUN_SHIFT <= 32, "a run is one number");

static inline uint32_t char_run_kinds(char_run run)
{
    return run >> CHAR_RUN_SHIFT;
}

static inline uint32_t char_run_length(char_run run)
{
    return run & CHAR_RUN_LONG;
}

static inline char_run char_run_make(uint32_t kinds, uint32_t length)
{
    return kinds << CHAR_RUN_SHIFT | (length < CHAR_RUN_LONG ? length : CHAR_RUN_LONG);
}

// Of the kinds of both, as long as the longer one.
static inline char_run char_run_join(char_run a, char_run b)
{
    uint32_t x = char_run_length(a), y = char_run_length(b);
    return char_run_make(char_run_kinds(a | b), x > y ? x : y);
}

// Is there nothing in `run` but what `all` has, and is it no longer?
static inline int char_run_within(char_run run, char_run all)
{
    return (char_run_kinds(run) & ~char_run_kinds(all)) == 0 &&
           char_run_length(run) <= char_run_length(all);
}

// runs[i] of what stands from byte i to the end, [bytes].
void char_runs(const uint8_t *text, size_t bytes, char_run *runs);

// Of a byte that is an ASCII character; CHAR_KIND_OTHER for the others.
uint32_t char_kind_of(uint8_t byte);

// The characters of an ASCII kind, NUL-terminated.
const char *char_kind_characters(uint32_t kind);

#endif
