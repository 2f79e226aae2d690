// SPDX-License-Identifier: MIT
// Jobs that want vectors: all that wait become one call of the engine.
#include "server/runner_embed.h"

#include <stdlib.h>

// The texts of one job, or of all in the list.
static bool embed(engine_worker *worker, server_job *first, bool all, engine_error *err)
{
    int32_t count = 0, at = 0, dim = first->embedding.dim;
    for (server_job *job = first; job; job = all ? job->next : NULL)
        count += job->embedding.count;
    engine_text *texts = calloc((size_t)count, sizeof *texts);
    float *vectors = calloc((size_t)count * (size_t)dim, sizeof *vectors);
    for (server_job *job = first; texts && job; job = all ? job->next : NULL)
        for (int32_t i = 0; i < job->embedding.count; i++)
            texts[at++] = (engine_text){.ids = job->embedding.ids[i].ids,
                                        .count = (int32_t)job->embedding.ids[i].count};
    bool fine = texts && vectors ? engine_embed(worker, texts, count, NULL, vectors, err)
                                 : engine_fail(err, "not enough memory for the texts");
    const float *from = vectors;
    for (server_job *job = first; fine && job; job = all ? job->next : NULL) {
        size_t floats = (size_t)job->embedding.count * (size_t)dim;
        for (size_t i = 0; i < floats; i++)
            job->embedding.vectors[i] = from[i];
        from += floats;
    }
    free(texts);
    free(vectors);
    return fine;
}

void runner_embed(engine_worker *worker, server_job *jobs)
{
    engine_error err = {""};
    if (!jobs || embed(worker, jobs, true, &err))
        return;
    // One of them may be to blame: then it alone fails.
    for (server_job *job = jobs; job; job = job->next)
        if (!embed(worker, job, false, &err))
            api_fail(&job->error, 500, NULL, "%s", err.text);
}
