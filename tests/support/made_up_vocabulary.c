// SPDX-License-Identifier: MIT
#include "tests/support/made_up_vocabulary.h"

#include <string.h>

#include "tests/support/tokenizer_builder.h"

tokenizer *made_up_vocabulary(uint32_t words, made_up_word *word, engine_error *err)
{
    static const char space[] = "\342\226\201"; // as SentencePiece writes it
    tokenizer_builder b = builder_new(TOKENIZER_SENTENCEPIECE);
    b.spec.unknown = builder_piece(&b, "<unk>", TOKENIZER_UNKNOWN, 0);
    b.spec.eos = builder_piece(&b, "</s>", TOKENIZER_CONTROL, 0);
    b.spec.add_space_prefix = false;
    builder_bytes(&b);
    for (uint32_t n = 0; n < words; n++) {
        char text[sizeof space + MADE_UP_WORD_BYTES];
        size_t before = sizeof space - 1, size = word(n, text + before);
        const char *begin = text + before;
        if (size > 0 && *begin == ' ') {
            begin = memcpy(text + 1, space, before);
            size += before - 1;
        }
        builder_piece_bytes(&b, begin, size, TOKENIZER_NORMAL, -(float)n);
    }
    return builder_finish(&b, err);
}
