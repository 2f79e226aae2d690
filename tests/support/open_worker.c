// SPDX-License-Identifier: MIT
#include "tests/support/open_worker.h"

engine_worker *open_worker(const char *path, const engine_options *options, engine_error *err)
{
    engine_model *model = engine_model_open(path, err);
    engine_worker *worker = model ? engine_worker_open(model, options, err) : NULL;
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
