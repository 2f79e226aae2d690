// SPDX-License-Identifier: MIT
#include "tests/support/open_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

engine_worker *open_worker_of(engine_model *model, const engine_options *options, engine_error *err)
{
    const char *device = getenv("WEFT_TEST_DEVICE");
    engine_options on = options ? *options : (engine_options){0};
    if (device && strcmp(device, "cuda") == 0)
        on.device = WEFT_DEVICE_CUDA;
    return engine_worker_open(model, &on, err);
}

engine_worker *open_worker(const char *path, const engine_options *options, engine_error *err)
{
    engine_model *model = engine_model_open(path, err);
    engine_worker *worker = model ? open_worker_of(model, options, err) : NULL;
    if (!worker)
        engine_model_close(model);
    return worker;
}

void close_worker(engine_worker *worker)
{
    if (!worker)
        return;
    engine_model *model = (engine_model *)engine_worker_model(worker);
    engine_worker_close(worker);
    engine_model_close(model);
}

engine_session *must_open_session(engine_worker *worker)
{
    return must_sync_session(worker, NULL, 0);
}

engine_session *must_sync_session(engine_worker *worker, const int32_t *ids, int32_t count)
{
    engine_error err = {""};
    engine_session *session = engine_session_open(worker, &err);
    if (!session || (count > 0 && !engine_session_sync(session, ids, count, NULL, NULL, &err)))
        fail_msg("%s", err.text);
    return session;
}
