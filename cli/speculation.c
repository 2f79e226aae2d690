// SPDX-License-Identifier: MIT
// What guesses tokens ahead: options that several commands have.
#include "cli/cli.h"

bool cli_speculation_option(int option, const char *value, cli_speculation *speculation)
{
    if (option == CLI_OPT_LOOKUP)
        speculation->wish.lookup = true;
    else if (option == CLI_OPT_DRAFT)
        speculation->draft_path = value;
    else
        return false;
    return true;
}

bool cli_speculation_open(cli_speculation *speculation, const engine_model *model,
                          const engine_worker *worker, const engine_options *options,
                          engine_error *err)
{
    engine_worker_info info;
    engine_options drafts = *options;
    if (!speculation->draft_path)
        return true;
    engine_worker_describe(worker, &info);
    drafts.context_tokens = info.context_tokens;
    drafts.adapter_count = 0;
    speculation->draft = engine_model_open(speculation->draft_path, err);
    if (!speculation->draft || !engine_speculation_fits(model, speculation->draft, err))
        return false;
    speculation->wish.draft = engine_worker_open(speculation->draft, &drafts, err);
    return speculation->wish.draft != NULL;
}

void cli_speculation_close(cli_speculation *speculation)
{
    engine_worker_close(speculation->wish.draft);
    engine_model_close(speculation->draft);
    speculation->wish.draft = NULL;
    speculation->draft = NULL;
}

const engine_speculation *cli_speculation_wish(const cli_speculation *speculation)
{
    return speculation->wish.lookup || speculation->wish.draft ? &speculation->wish : NULL;
}
