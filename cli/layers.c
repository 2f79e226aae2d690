// SPDX-License-Identifier: MIT
// Which program decodes a token.
#include "cli/cli.h"

const char *cli_layers_of(const engine_worker *worker)
{
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    return info.one_launches ? "one launch" : "launches";
}

const char *cli_try_layers(engine_worker *worker, engine_error *err)
{
    enum { TOKENS = 3 }; // what decodes is recorded at the first
    const int32_t ids[] = {0};
    engine_session *session = engine_session_open(worker, err);
    bool fine = session != NULL;
    for (int i = 0; fine && i < TOKENS; i++) {
        engine_feed feed = {.session = session, .ids = ids, .count = 1};
        fine = engine_eval(worker, &feed, 1, NULL, NULL, err);
    }
    engine_session_close(session);
    return fine ? cli_layers_of(worker) : NULL;
}
