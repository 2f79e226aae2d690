// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/job.h"

bool job_write_json(server_job *job, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    bool fine = text && tokenizer_text_append(&job->out, text, strlen(text));
    free(text);
    json_decref(object);
    return fine;
}

static bool write_escaped(tokenizer_text *out, char c)
{
    static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\"; // a character, then how it is written
    char code[8] = {'\\'};
    for (const char *letter = letters; *letter; letter += 2)
        if (*letter == c) {
            code[1] = letter[1];
            return tokenizer_text_append(out, code, 2);
        }
    int size = snprintf(code, sizeof code, "\\u%04x", (unsigned char)c);
    return tokenizer_text_append(out, code, (size_t)size);
}

bool job_write_string(server_job *job, const char *text, size_t bytes)
{
    size_t plain = 0; // from here on nothing was written yet
    bool fine = tokenizer_text_append(&job->out, "\"", 1);
    for (size_t i = 0; fine && i < bytes; i++) {
        if ((unsigned char)text[i] >= 0x20 && text[i] != '"' && text[i] != '\\')
            continue;
        fine = tokenizer_text_append(&job->out, text + plain, i - plain) &&
               write_escaped(&job->out, text[i]);
        plain = i + 1;
    }
    return fine && tokenizer_text_append(&job->out, text + plain, bytes - plain) &&
           tokenizer_text_append(&job->out, "\"", 1);
}

void job_write_event(server_job *job, json_t *object)
{
    bool fine = tokenizer_text_append(&job->out, "data: ", 6);
    fine = job_write_json(job, object) && fine;
    if (!fine || !tokenizer_text_append(&job->out, "\n\n", 2))
        job->no_memory = true;
}
