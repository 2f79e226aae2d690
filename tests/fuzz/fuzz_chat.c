// SPDX-License-Identifier: MIT
// A chat template, and messages for it, from the input: two length bytes, the template, the messages'
// text. What a message holds must not come back as one of the vocabulary's control tokens.

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "engine/chat/chat.h"
#include "tests/support/tokenizer_builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check(bool promise)
{
    if (!promise)
        abort();
}

static tokenizer *vocabulary(void)
{
    static const char *const controls[] = {
        "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
        "<s>",          "</s>"};
    static tokenizer *made;
    if (made)
        return made;
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    builder_bytes(&b);
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++)
        b.spec.eos = builder_piece(&b, controls[i], TOKENIZER_CONTROL, 0);
    b.spec.bos = b.spec.eos - 1;
    made = builder_finish(&b, NULL);
    check(made != NULL);
    return made;
}

static size_t count_controls(const tokenizer_ids *ids)
{
    size_t count = 0;
    for (size_t i = 0; i < ids->count; i++)
        count += ids->ids[i] >= 256;
    return count;
}

// A template without these can write no control token: not by its own text, nor by a code or a number.
static bool is_harmless(const char *text, size_t text_bytes)
{
    static const char *const ways[] = {"<", "\\", "bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (memmem(text, text_bytes, ways[i], strlen(ways[i])))
            return false;
    return true;
}

static void check_conversation(const chat_template *t, bool harmless, const char *text,
                               size_t text_bytes, unsigned choice)
{
    static const char *const roles[] = {"system", "user", "assistant", "user", "assistant"};
    size_t first = choice & 1, count = 1 + (choice >> 1) % 3;
    chat_message messages[3];
    chat_options options = {.add_generation_prompt = choice & 8,
                            .thinking = (chat_thinking)(choice >> 4) % 3};
    for (size_t i = 0; i < count; i++) {
        size_t start = text_bytes * i / count, end = text_bytes * (i + 1) / count;
        messages[i] = (chat_message){roles[first + i], text + start, end - start, NULL};
    }
    tokenizer *tok = vocabulary();
    tokenizer_ids ids = {0};
    tokenizer_text rendered = {0};
    engine_error err = {""};
    if (chat_encode(t, tok, messages, count, &options, &ids, &err)) {
        check(chat_render(t, tok, messages, count, &options, &rendered, &err));
        check(!harmless || count_controls(&ids) == 0);
    } else {
        check(err.text[0] != '\0' && ids.count == 0);
    }
    tokenizer_ids_free(&ids);
    tokenizer_text_free(&rendered);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 3)
        return 0;
    size_t template_bytes = (size_t)data[0] << 8 | data[1];
    unsigned choice = data[2];
    const char *text = (const char *)data + 3;
    size_bytes -= 3;
    if (template_bytes > size_bytes)
        template_bytes = size_bytes;
    engine_error err = {""};
    chat_template *t = chat_template_parse(text, template_bytes, &err);
    if (t)
        check_conversation(t, is_harmless(text, template_bytes), text + template_bytes,
                           size_bytes - template_bytes, choice);
    else
        check(strstr(err.text, "--raw") != NULL);
    chat_template_free(t);
    return 0;
}
