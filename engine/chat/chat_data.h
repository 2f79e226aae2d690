// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_CHAT_DATA_H
#define ENGINE_CHAT_CHAT_DATA_H

// What lies behind a chat_template; for the files of this room only.

#include "engine/chat/chat.h"

typedef enum chat_family {
    CHAT_CHATML, // <|im_start|>ROLE \n CONTENT <|im_end|> \n
    CHAT_HEADER, // <|start_header_id|>ROLE<|end_header_id|> \n\n CONTENT <|eot_id|>
    CHAT_INST,   // [INST] CONTENT [/INST] REPLY eos
} chat_family;

typedef enum chat_system {
    CHAT_SYSTEM_TURN,  // a turn like the others
    CHAT_SYSTEM_TAGS,  // <<SYS>> in the first user turn
    CHAT_SYSTEM_FIRST, // a paragraph before the first user turn's content
    CHAT_SYSTEM_LAST,  // ... before the last one's, if it ends the conversation
    CHAT_SYSTEM_NONE,  // not known to the family
} chat_system;

enum { CHAT_LITERAL_BYTES = 32 };

struct chat_template {
    chat_family family;
    const char *name;
    chat_system system;
    bool begins_with_bos;
    bool trims; // content, at both ends
    // ChatML
    char *default_system; // for conversations without one; NULL if there is none
    bool toggles_thinking;
    bool opens_thinking; // a reply begins inside <think>
    bool drops_thinking; // of replies before the last question
    // Llama 3.1 and newer
    char *knowledge_date; // NULL: dates are not stated
    char *default_date;
    // [INST]
    bool bos_each_turn;
    bool trims_reply;
    char user_open[CHAT_LITERAL_BYTES];  // "[INST] "
    char user_close[CHAT_LITERAL_BYTES]; // " [/INST]"
    char reply_open[CHAT_LITERAL_BYTES];
    char reply_close[CHAT_LITERAL_BYTES]; // before eos
    char reply_end[CHAT_LITERAL_BYTES];   // after eos
};

// Reads the [INST] family's literals and habits out of a template's expressions; false if they are not
// of the form that the family has.
bool chat_read_inst(chat_template *t, const char *text, size_t text_bytes);

// A conversation taken apart into what the template writes as control tokens and plain text.
typedef enum chat_part_kind {
    CHAT_PART_TEXT,
    CHAT_PART_MARK, // a control token's name; plain text where the vocabulary does not have it
    CHAT_PART_BOS,
    CHAT_PART_EOS,
} chat_part_kind;

typedef struct chat_part {
    chat_part_kind kind;
    size_t start; // in text
    size_t size_bytes;
} chat_part;

typedef struct chat_script {
    tokenizer_text text;
    chat_part *parts;
    size_t count;
    size_t capacity;
    bool failed; // memory was short
} chat_script;

// Into a zeroed script, which must be freed on failure too.
bool chat_write(const chat_template *t, const chat_message *messages, size_t message_count,
                const chat_options *options, chat_script *script, engine_error *err);

void chat_script_free(chat_script *script);

// --- pieces of text ---------------------------------------------------------------------------------

typedef struct chat_span {
    const char *data;
    size_t size_bytes;
} chat_span;

chat_span chat_span_of(const char *text);

// Where needle begins in the span, or SIZE_MAX.
size_t chat_find(chat_span span, const char *needle);
size_t chat_find_last(chat_span span, const char *needle);

// Without the white space at its ends, as Python's str.strip() sees it.
chat_span chat_trim(chat_span span);

// Without the line feeds at its ends.
chat_span chat_trim_lines_left(chat_span span);
chat_span chat_trim_lines_right(chat_span span);

#endif
