// SPDX-License-Identifier: MIT
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

void job_write_event(server_job *job, json_t *object)
{
    bool fine = tokenizer_text_append(&job->out, "data: ", 6);
    fine = job_write_json(job, object) && fine;
    if (!fine || !tokenizer_text_append(&job->out, "\n\n", 2))
        job->no_memory = true;
}
