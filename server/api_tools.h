// SPDX-License-Identifier: MIT
#ifndef SERVER_API_TOOLS_H
#define SERVER_API_TOOLS_H

// The fields of a chat request that give its answer a form: tools, tool_choice, parallel_tool_calls, response_format.

#include <jansson.h>

#include "server/api.h"

// Reads them into the wish's form and tools; `root` is its body.
bool api_read_form(api_wish *wish, api_error *error);

// Calls of earlier answers as templates want them: arguments as an object, not as its text. A new reference.
json_t *api_calls_for_template(const json_t *calls);

// The grammar of the answer, and a key that says which; none where any text will do. The form's thoughts are what the
// prompt's end says. The style is the template's.
bool api_make_grammar(api_wish *wish, const call_style *style, const tokenizer *t,
                      api_error *error);

#endif
