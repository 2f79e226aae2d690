// SPDX-License-Identifier: MIT
#include "engine/chat/chat.h"

#include "engine/chat/chat_data.h"
#include "engine/gguf/gguf.h"

static const chat_options DEFAULTS = {0};

chat_template *chat_template_from_gguf(const gguf_file *file, engine_error *err)
{
    static const char key[] = "tokenizer.chat_template";
    gguf_string text = {"", 0};
    gguf_lookup lookup = gguf_get_string(file, key, &text);
    if (!gguf_wanted(file, lookup, key, "a string", err))
        return NULL;
    return chat_template_recognise(text.data, text.size_bytes, err);
}

const char *chat_template_name(const chat_template *t)
{
    return t->name;
}

bool chat_template_can_think(const chat_template *t)
{
    return t->toggles_thinking;
}

static bool no_memory(engine_error *err)
{
    return engine_fail(err, "chat: not enough memory for the conversation");
}

// The id that a part is, TOKENIZER_NONE if it is plain text.
static bool resolve(const tokenizer *tok, const chat_script *script, const chat_part *part,
                    int32_t *id, engine_error *err)
{
    *id = TOKENIZER_NONE;
    if (part->kind == CHAT_PART_TEXT)
        return true;
    if (part->kind == CHAT_PART_MARK) {
        *id = tokenizer_find_special(tok, script->text.data + part->start, part->size_bytes);
        return true;
    }
    bool bos = part->kind == CHAT_PART_BOS;
    *id = bos ? tokenizer_bos(tok) : tokenizer_eos(tok);
    if (*id == TOKENIZER_NONE)
        return engine_fail(err,
                           "chat: the template writes the %s token and the vocabulary has none; "
                           "use --raw to send the prompt as it is",
                           bos ? "bos" : "eos");
    return true;
}

// Plain text stands together in the script between two control tokens, and is encoded together: so the
// ids are those of the whole rendered text, but for what only looks like a control token. Where the
// template writes a space behind a control token ("[INST] "), that is the space that SentencePiece puts in
// front of text, as the models saw it.
static bool encode_script(const chat_script *script, const tokenizer *tok, tokenizer_ids *ids,
                          engine_error *err)
{
    size_t plain = 0;
    bool has_bos = script->count > 0 && script->parts[0].kind == CHAT_PART_BOS;
    if (tokenizer_adds_bos(tok) && !has_bos && !tokenizer_ids_push(ids, tokenizer_bos(tok)))
        return no_memory(err);
    for (size_t i = 0; i < script->count; i++) {
        const chat_part *part = &script->parts[i];
        int32_t id;
        if (!resolve(tok, script, part, &id, err))
            return false;
        if (id == TOKENIZER_NONE)
            continue;
        if (!tokenizer_encode(tok, script->text.data + plain, part->start - plain,
                              TOKENIZER_SPACE_IS_PREFIX, ids, err))
            return false;
        if (!tokenizer_ids_push(ids, id))
            return no_memory(err);
        plain = part->start + part->size_bytes;
    }
    return tokenizer_encode(tok, script->text.data + plain, script->text.size_bytes - plain,
                            TOKENIZER_SPACE_IS_PREFIX, ids, err);
}

bool chat_encode(const chat_template *t, const tokenizer *tok, const chat_message *messages,
                 size_t message_count, const chat_options *options, tokenizer_ids *ids,
                 engine_error *err)
{
    chat_script script = {0};
    size_t count = ids->count;
    bool ok = chat_write(t, messages, message_count, options ? options : &DEFAULTS, &script, err) &&
              encode_script(&script, tok, ids, err);
    if (!ok)
        ids->count = count;
    chat_script_free(&script);
    return ok;
}

bool chat_render(const chat_template *t, const tokenizer *tok, const chat_message *messages,
                 size_t message_count, const chat_options *options, tokenizer_text *text,
                 engine_error *err)
{
    chat_script script = {0};
    bool ok = chat_write(t, messages, message_count, options ? options : &DEFAULTS, &script, err);
    for (size_t i = 0; ok && i < script.count; i++) {
        const chat_part *part = &script.parts[i];
        tokenizer_bytes piece = {script.text.data + part->start, part->size_bytes};
        int32_t id;
        ok = resolve(tok, &script, part, &id, err);
        if (ok && part->kind != CHAT_PART_TEXT && part->kind != CHAT_PART_MARK)
            tokenizer_piece(tok, id, &piece);
        if (ok && !tokenizer_text_append(text, piece.data, piece.size_bytes))
            ok = no_memory(err);
    }
    chat_script_free(&script);
    return ok;
}
