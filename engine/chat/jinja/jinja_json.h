// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_JINJA_JINJA_JSON_H
#define ENGINE_CHAT_JINJA_JINJA_JSON_H

// Values from JSON text, whose texts all are from `source`.

#include "engine/chat/jinja/jinja.h"

bool jinja_from_json(jinja_box *box, unsigned char source, const char *json, jinja_value *value,
                     engine_error *err);

// Adds the members of a JSON object to a dict, over those of the same name.
bool jinja_add_json(jinja_box *box, unsigned char source, jinja_value dict, const char *json,
                    engine_error *err);

#endif
