// SPDX-License-Identifier: MIT
// Jobs that want vectors: all that wait become one call of the engine.
#include "server/runner_embed.h"

#include <stdlib.h>

enum { MOST_AT_ONCE = 4096 }; // texts, so that strangers do not say how much memory a call takes

// The texts of the jobs from one to another in the list, without the latter.
static bool embed(engine_worker *worker, server_job *first, const server_job *end,
                  engine_error *err)
{
    int32_t count = 0, at = 0, dim = first->embedding.dim;
    for (server_job *job = first; job != end; job = job->next)
        count += job->embedding.count;
    engine_text *texts = calloc((size_t)count, sizeof *texts);
    float *vectors = calloc((size_t)count * (size_t)dim, sizeof *vectors);
    for (server_job *job = first; texts && job != end; job = job->next)
        for (int32_t i = 0; i < job->embedding.count; i++)
            texts[at++] = (engine_text){.ids = job->embedding.ids[i].ids,
                                        .count = (int32_t)job->embedding.ids[i].count};
    bool fine = texts && vectors ? engine_embed(worker, texts, count, NULL, vectors, err)
                                 : engine_fail(err, "not enough memory for the texts");
    const float *from = vectors;
    for (server_job *job = first; fine && job != end; job = job->next) {
        size_t floats = (size_t)job->embedding.count * (size_t)dim;
        for (size_t i = 0; i < floats; i++)
            job->embedding.vectors[i] = from[i];
        from += floats;
    }
    free(texts);
    free(vectors);
    return fine;
}

// The first job that is too many for one call with those from `first` on.
static server_job *end_of_call(server_job *first)
{
    int32_t count = first->embedding.count;
    server_job *job = first->next;
    for (; job && count + job->embedding.count <= MOST_AT_ONCE; job = job->next)
        count += job->embedding.count;
    return job;
}

void runner_embed(engine_worker *worker, server_job *jobs)
{
    engine_error err = {""};
    for (server_job *first = jobs, *end; first; first = end) {
        end = end_of_call(first);
        if (embed(worker, first, end, &err))
            continue;
        // One of them may be to blame: then it alone fails.
        for (server_job *job = first; job != end; job = job->next)
            if (!embed(worker, job, job->next, &err))
                api_fail(&job->error, 500, NULL, "%s", err.text);
    }
}
