// SPDX-License-Identifier: MIT
#ifndef SERVER_JOB_PARTS_H
#define SERVER_JOB_PARTS_H

// What the parts of an answer become in JSON: piece by piece in a stream, or gathered for a whole message.

#include "server/job.h"

// A delta that says a part; calls are numbered as they come.
json_t *parts_delta(const server_choice *choice, answer_part part, const char *text, size_t bytes);

// Gathers a part for parts_message; false when memory is short.
bool parts_collect(server_choice *choice, answer_part part, const char *text, size_t bytes);

json_t *parts_message(server_choice *choice);

// The id of the call that began last: nine letters and digits, as some templates take no others.
void parts_call_id(const server_choice *choice, char id[10]);

#endif
