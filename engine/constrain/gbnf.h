// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_GBNF_H
#define ENGINE_CONSTRAIN_GBNF_H

// Grammars as llama.cpp's users write them (GBNF):
//
//     root  ::= "yes" | "no" | list        # the whole text is what `root` says
//     list  ::= item ("," item){0,9}       # ( ) group; * + ? {3} {2,} {2,5} repeat what stands before
//     item  ::= [a-z0-9_]+ | [^"\\] | .    # [ ] one character of these, [^ ] of all others, . any
//     mark  ::= <|tool|>                   # the special token of this name, not its name as text
//
// Escapes in "..." and [...]: \n \r \t \" \\ \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH (code points). A rule goes on
// to the next line inside parentheses and where that line begins with |. A rule may not begin with itself.

#include "engine/constrain/grammar.h"

// NULL with the line of what is wrong.
grammar *gbnf_parse(const char *text, size_t bytes, engine_error *err);

#endif
