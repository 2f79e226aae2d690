// SPDX-License-Identifier: MIT
#ifndef SERVER_RESPONSE_H
#define SERVER_RESPONSE_H

// OpenAI's /v1/responses as far as text and functions go: a conversation like that of chat/completions, told in other
// words.

#include "server/job.h"

// Reads a body into a wish for a conversation. As api_read_wish.
bool response_read(api_wish *wish, const char *body, size_t bytes, int32_t vocab, api_error *error);

// What job.c writes for the other forms: the beginning, which is written once; a part of the answer; the end.
void response_write_begin(server_job *job);
void response_write_part(server_choice *choice, answer_part part, const char *text, size_t bytes);
void response_write_done(server_job *job);

#endif
