// SPDX-License-Identifier: MIT
// Which program decodes a token.
#include "cli/cli.h"

const char *cli_layers_of(const engine_worker *worker)
{
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    return info.one_launches ? "one launch" : "launches";
}
