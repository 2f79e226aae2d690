// SPDX-License-Identifier: MIT
#include "tests/support/open_worker.h"

#include <stdlib.h>
#include <string.h>

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
