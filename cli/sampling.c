// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"

cli_sampling cli_sampling_default(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (cli_sampling){
        .shaping = engine_shaping_default(),
        .sampling.params = {.temperature = 0.7f,
                            .top_k = 40,
                            .top_p = 0.95f,
                            .min_p = 0.05f,
                            .seed = (uint64_t)(time.tv_sec * 1000 + time.tv_nsec / 1000000)}};
}

static bool add_stop(const cli_command *self, const char *value, cli_sampling *sampling)
{
    if (!*value || sampling->stop_count == CLI_MAX_STOPS) {
        cli_bad_usage(self, *value ? "at most 16 --stop strings" : "--stop must not be empty");
        return false;
    }
    sampling->stops[sampling->stop_count++] = value;
    return true;
}

static bool parse_thinking(const cli_command *self, const char *value, chat_thinking *thinking)
{
    if (strcmp(value, "on") == 0)
        *thinking = CHAT_THINKING_ON;
    else if (strcmp(value, "off") == 0)
        *thinking = CHAT_THINKING_OFF;
    else {
        cli_bad_usage(self, "--thinking must be on or off, not '%s'", value);
        return false;
    }
    return true;
}

// The last one given counts.
static bool read_json(const cli_command *self, const char *path, char **text)
{
    size_t bytes;
    free(*text);
    *text = cli_read_file(self, path, &bytes);
    if (!*text || strlen(*text) == bytes)
        return *text != NULL;
    cli_failed(self, "%s is no text", path);
    return false;
}

static bool read_constraint(const cli_command *self, int option, const char *path,
                            cli_sampling *sampling)
{
    bool schema = option == CLI_OPT_JSON_SCHEMA;
    if (schema ? sampling->grammar : sampling->schema) {
        cli_bad_usage(self, "give --grammar or --json-schema, not both");
        return false;
    }
    return read_json(self, path, schema ? &sampling->schema : &sampling->grammar);
}

void cli_sampling_free(cli_sampling *sampling)
{
    free(sampling->dry_breakers);
    free(sampling->tools);
    free(sampling->documents);
    free(sampling->grammar);
    free(sampling->schema);
}

bool cli_sampling_fits_raw(const cli_command *self, const cli_sampling *sampling)
{
    if (!sampling->system && !sampling->thinking && !sampling->tools && !sampling->documents)
        return true;
    cli_bad_usage(self,
                  "--system, --thinking, --tools and --documents belong to the chat template, "
                  "which --raw leaves out");
    return false;
}

chat_options cli_chat_options(const cli_sampling *sampling)
{
    return (chat_options){.add_generation_prompt = true,
                          .thinking = sampling->thinking,
                          .tools = sampling->tools,
                          .documents = sampling->documents};
}

bool cli_sampling_option(const cli_command *self, int option, const char *value,
                         cli_sampling *sampling)
{
    weft_sample_params *params = &sampling->sampling.params;
    int64_t seed;
    switch (option) {
    case CLI_OPT_TEMP: return cli_float(self, "--temp", value, 0, 100, &params->temperature);
    case CLI_OPT_TOP_K: return cli_int32(self, "--top-k", value, 0, INT32_MAX, &params->top_k);
    case CLI_OPT_TOP_P: return cli_float(self, "--top-p", value, 0, 1, &params->top_p);
    case CLI_OPT_MIN_P: return cli_float(self, "--min-p", value, 0, 1, &params->min_p);
    case CLI_OPT_SEED:
        if (!cli_int(self, "--seed", value, -1, INT64_MAX, &seed))
            return false;
        if (seed >= 0)
            params->seed = (uint64_t)seed;
        return true;
    case CLI_OPT_REPEAT:
        return cli_float(self, "--repeat-penalty", value, 0.01f, 100, &params->repetition_penalty);
    case CLI_OPT_FREQUENCY:
        return cli_float(self, "--frequency-penalty", value, -100, 100, &params->frequency_penalty);
    case CLI_OPT_PRESENCE:
        return cli_float(self, "--presence-penalty", value, -100, 100, &params->presence_penalty);
    case CLI_OPT_STOP: return add_stop(self, value, sampling);
    case CLI_OPT_IGNORE_END: sampling->ignore_end = true; return true;
    case CLI_OPT_SYSTEM: sampling->system = value; return true;
    case CLI_OPT_THINKING: return parse_thinking(self, value, &sampling->thinking);
    case CLI_OPT_TOOLS: return read_json(self, value, &sampling->tools);
    case CLI_OPT_DOCUMENTS: return read_json(self, value, &sampling->documents);
    case CLI_OPT_GRAMMAR:
    case CLI_OPT_JSON_SCHEMA: return read_constraint(self, option, value, sampling);
    default: return cli_shaping_option(self, option, value, &sampling->shaping);
    }
}

double cli_generation_rate(const engine_result *result)
{
    if (result->generated_tokens < 2 || result->generation_seconds <= 0)
        return 0;
    return (result->generated_tokens - 1) / result->generation_seconds;
}

void cli_warn_of_context(const cli_command *self, const engine_model *model,
                         const engine_worker *worker)
{
    engine_model_info info;
    engine_worker_info run;
    engine_model_describe(model, &info);
    engine_worker_describe(worker, &run);
    if (run.context_tokens <= info.trained_context)
        return;
    fprintf(
        stderr,
        "weft %s: a context of %d is longer than the %d that the model was trained with: behind "
        "that its text may be nonsense, unless the file's rope scaling is made for it\n",
        self->name, run.context_tokens, info.trained_context);
}

void cli_print_result(const engine_result *result, const engine_model *model)
{
    engine_model_info info;
    engine_model_describe(model, &info);
    double prompt = result->prompt_seconds;
    fprintf(
        stderr,
        "\n[prompt %s, %.1f tok/s | generated %s, %.1f tok/s (%s) | first token after %.0f ms | "
        "memory %s, weights %s]\n",
        cli_tokens(result->prompt_tokens), prompt > 0 ? result->prompt_tokens / prompt : 0,
        cli_tokens(result->generated_tokens), cli_generation_rate(result),
        engine_finish_name(result->finish), result->first_token_seconds * 1e3,
        cli_bytes(cli_peak_memory_bytes()), cli_bytes(info.weight_bytes));
    if (result->guessed_tokens > 0)
        fprintf(stderr, "[%s guessed, %d of them right (%.0f %%)]\n",
                cli_tokens(result->guessed_tokens), result->accepted_tokens,
                100.0 * result->accepted_tokens / result->guessed_tokens);
}
