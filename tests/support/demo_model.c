// SPDX-License-Identifier: MIT
#include "tests/support/demo_model.h"

#include <stdio.h>
#include <string.h>

engine_model *demo_model_open(const char *text, tokenizer_ids *prompt)
{
    engine_error err = {""};
    engine_model *model = engine_model_open(WEFT_TEST_GOLDEN "/../../models/demo.gguf", &err);
    if (model && (!prompt || tokenizer_encode(engine_model_tokenizer(model), text, strlen(text),
                                              TOKENIZER_ADD_SPECIAL, prompt, &err)))
        return model;
    fprintf(stderr, "%s\n", err.text);
    engine_model_close(model);
    return NULL;
}

bool keep_text(void *user, const char *text, size_t bytes)
{
    return tokenizer_text_append(user, text, bytes);
}
