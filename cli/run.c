// SPDX-License-Identifier: MIT
// weft run: one prompt, one answer.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char help[] =
    "usage: weft run MODEL -p PROMPT [options]\n"
    "\n"
    "Writes what the model answers to PROMPT. The prompt becomes a message of the model's chat\n"
    "template; with --raw the model continues the text itself. Without -p or -f the prompt is\n"
    "read from standard input. Text goes to standard output, progress and figures to standard\n"
    "error.\n"
    "\n"
    "  -p, --prompt TEXT   the prompt\n"
    "  -f, --file FILE     read the prompt from FILE; - is standard input\n"
    "  -n, --tokens N      most tokens to write; 0 (default): until the model ends or the\n"
    "                      context is full\n"
    "  --raw               no chat template: continue the prompt\n"
    "  --prompt-cache FILE keeps what was evaluated of the prompt in FILE, and begins with it\n"
    "                      the next time; a file of another model or a damaged one is passed\n"
    "                      over\n"
    "  --quiet             no figures at the end\n"
    "  --json              one JSON object with text and figures instead\n"
    "\n"
    "sampling:\n" CLI_SAMPLING_HELP "\n"
    "speculation:\n" CLI_SPECULATION_HELP "\n"
    "model:\n" CLI_MODEL_HELP;

static const char examples[] =
    "\n"
    "What a model thinks before it answers is dimmed by a terminal, and stands between <think> "
    "and\n"
    "</think> elsewhere; with --json it is \"reasoning_content\".\n"
    "\n"
    "Examples:\n"
    "  weft run models/demo.gguf -p \"Tell me a story about a fox.\"\n"
    "  weft run models/demo.gguf --raw -p \"Once upon a time\" -n 100 --temp 0\n"
    "  weft run model.gguf -p \"Who wrote Faust?\" --json-schema person.json\n"
    "  git diff | weft run model.gguf --ctx 16384 --system \"Summarise this change.\"\n";

enum { OPT_RAW = 1, OPT_QUIET, OPT_JSON, OPT_CACHE };

typedef struct request {
    const cli_command *self;
    const char *model_path, *prompt, *file, *cache;
    int32_t tokens;
    bool raw, quiet, json;
    engine_options options;
    cli_sampling sampling;
    cli_speculation speculation;
} request;

// What a run holds.
typedef struct run_state {
    request *wish;
    char *read;
    size_t prompt_bytes;
    engine_model *model;
    engine_worker *worker;
    engine_session *session;
    tokenizer_ids ids;
    chat_template *template; // NULL: --raw
    cli_thinking answer;
    cli_progress progress;
    engine_result result;
    cli_constraint constraint;
} run_state;

static bool take_option(void *opaque, int option)
{
    request *wish = opaque;
    const cli_command *self = wish->self;
    switch (option) {
    case 'p': wish->prompt = optarg; return true;
    case 'f': wish->file = optarg; return true;
    case 'n': return cli_token_limit(self, optarg, &wish->tokens);
    case OPT_RAW: wish->raw = true; return true;
    case OPT_CACHE: wish->cache = optarg; return true;
    case OPT_QUIET: wish->quiet = true; return true;
    case OPT_JSON: wish->json = true; return true;
    default:
        if (cli_speculation_option(option, optarg, &wish->speculation))
            return true;
        return option >= CLI_OPT_TEMP ? cli_sampling_option(self, option, optarg, &wish->sampling)
                                      : cli_model_option(self, option, optarg, &wish->options);
    }
}

// Returns -1 to go on, or an exit status.
static int parse(request *wish, int argc, char **argv)
{
    static const struct option options[] = {{"prompt", required_argument, NULL, 'p'},
                                            {"file", required_argument, NULL, 'f'},
                                            {"tokens", required_argument, NULL, 'n'},
                                            {"raw", no_argument, NULL, OPT_RAW},
                                            {"prompt-cache", required_argument, NULL, OPT_CACHE},
                                            {"quiet", no_argument, NULL, OPT_QUIET},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            CLI_SAMPLING_OPTIONS,
                                            CLI_SPECULATION_OPTIONS,
                                            CLI_MODEL_OPTIONS,
                                            {0}};
    int status =
        cli_take_model(wish->self, argc, argv, options, take_option, wish, &wish->model_path);
    if (status >= 0)
        return status;
    if (wish->prompt && wish->file)
        return cli_bad_usage(wish->self, "give the prompt with -p or with -f, not both");
    if (wish->raw && !cli_sampling_fits_raw(wish->self, &wish->sampling))
        return CLI_USAGE;
    return -1;
}

static bool read_prompt(run_state *run, const char **prompt)
{
    const request *wish = run->wish;
    if (wish->prompt) {
        *prompt = wish->prompt;
        run->prompt_bytes = strlen(wish->prompt);
        return true;
    }
    run->read = cli_read_file(wish->self, wish->file ? wish->file : "-", &run->prompt_bytes);
    *prompt = run->read;
    return run->read != NULL;
}

static bool encode_chat(run_state *run, const char *prompt, engine_error *err)
{
    const cli_sampling *sampling = &run->wish->sampling;
    chat_message messages[2];
    size_t count = 0;
    run->template = chat_template_from_gguf(engine_model_file(run->model), err);
    if (!run->template)
        return false;
    if (sampling->system)
        messages[count++] =
            (chat_message){"system", sampling->system, strlen(sampling->system), NULL};
    messages[count++] = (chat_message){"user", prompt, run->prompt_bytes, NULL};
    chat_options options = cli_chat_options(sampling);
    return chat_encode(run->template, engine_model_tokenizer(run->model), messages, count, &options,
                       &run->ids, err);
}

static bool encode(run_state *run, const char *prompt, engine_error *err)
{
    if (!run->wish->raw)
        return encode_chat(run, prompt, err);
    return tokenizer_encode(engine_model_tokenizer(run->model), prompt, run->prompt_bytes,
                            TOKENIZER_ADD_SPECIAL, &run->ids, err);
}

static bool output(void *user, const engine_token *token)
{
    run_state *run = user;
    cli_progress_clear(&run->progress);
    return cli_thinking_token(&run->answer, token) && !cli_interrupted();
}

static bool show_progress(void *user, int32_t done_tokens, int32_t all_tokens)
{
    run_state *run = user;
    return cli_progress_show(&run->progress, done_tokens, all_tokens);
}

// Begins with what the file has of the prompt; returns how many of its tokens.
static int32_t open_cache(run_state *run)
{
    const char *path = run->wish->cache;
    engine_error err = {""};
    if (!path || access(path, F_OK) != 0)
        return 0;
    if (!engine_session_restore(run->session, path, &err))
        fprintf(stderr, "weft run: the prompt's cache is passed over: %s\n", err.text);
    return engine_session_common(run->session, run->ids.ids, (int32_t)run->ids.count);
}

// Keeps the prompt's part of the timeline where the file had less.
static void close_cache(run_state *run, int32_t cached)
{
    engine_error err = {""};
    int32_t prompt = (int32_t)run->ids.count;
    if (!run->wish->cache || cached >= prompt - 1)
        return;
    engine_session_truncate(run->session, prompt);
    if (!engine_session_save(run->session, run->wish->cache, &err))
        fprintf(stderr, "weft run: the prompt's cache is not kept: %s\n", err.text);
}

static bool generate(run_state *run, engine_error *err)
{
    request *wish = run->wish;
    run->session = engine_session_open(run->worker, err);
    if (!run->session)
        return false;
    engine_generation generation = {.max_tokens = wish->tokens,
                                    .sampling = cli_sampling_of(&wish->sampling, run->model),
                                    .stops = wish->sampling.stops,
                                    .ignore_end = wish->sampling.ignore_end,
                                    .speculation = cli_speculation_wish(&wish->speculation),
                                    .constraint = run->constraint.made,
                                    .token = output,
                                    .progress = show_progress,
                                    .user = run};
    run->progress.label = "prompt";
    cli_thinking_start(&run->answer, run->template, engine_model_tokenizer(run->model), &run->ids,
                       wish->sampling.thinking, !wish->json);
    cli_warn_of_context(wish->self, run->model, run->worker);
    cli_catch_interrupt();
    int32_t cached = open_cache(run);
    bool fine = engine_generate(run->session, run->ids.ids, (int32_t)run->ids.count, &generation,
                                &run->result, err);
    cli_progress_clear(&run->progress);
    cli_thinking_end(&run->answer);
    if (fine)
        close_cache(run, cached);
    return fine;
}

static int print_json(const run_state *run)
{
    const request *wish = run->wish;
    const engine_result *result = &run->result;
    const tokenizer_text *text = &run->answer.text, *thoughts = &run->answer.thoughts;
    double prompt_seconds = result->prompt_seconds, seconds = result->generation_seconds;
    json_t *object =
        json_pack("{s:s%, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:I, s:I}", "text",
                  text->data ? text->data : "", text->size_bytes, "finish",
                  engine_finish_name(result->finish), "prompt_tokens", result->prompt_tokens,
                  "generated_tokens", result->generated_tokens, "prompt_tokens_per_second",
                  prompt_seconds > 0 ? result->prompt_tokens / prompt_seconds : 0.0,
                  "generated_tokens_per_second", cli_generation_rate(result), "first_token_seconds",
                  result->first_token_seconds, "total_seconds", prompt_seconds + seconds, "seed",
                  (json_int_t)wish->sampling.sampling.params.seed, "peak_memory_bytes",
                  (json_int_t)cli_peak_memory_bytes());
    if (thoughts->size_bytes > 0)
        json_object_set_new(object, "reasoning_content",
                            json_stringn(thoughts->data, thoughts->size_bytes));
    if (cli_speculation_wish(&wish->speculation))
        json_object_update_new(object,
                               json_pack("{s:i, s:i}", "guessed_tokens", result->guessed_tokens,
                                         "accepted_tokens", result->accepted_tokens));
    return cli_print_json(wish->self, object);
}

static int report(const run_state *run)
{
    const request *wish = run->wish;
    if (wish->json)
        return print_json(run);
    putchar('\n');
    if (fflush(stdout) != 0)
        return cli_failed(wish->self, "standard output cannot be written");
    if (!wish->quiet)
        cli_print_result(&run->result, run->model);
    return CLI_DONE;
}

static int execute(run_state *run)
{
    request *wish = run->wish;
    const char *prompt;
    engine_error err = {{0}};
    if (!read_prompt(run, &prompt))
        return CLI_FAILED;
    run->model = engine_model_open(wish->model_path, &err);
    if (run->model)
        run->worker = engine_worker_open(run->model, &wish->options, &err);
    if (run->worker &&
        !cli_speculation_open(&wish->speculation, run->model, run->worker, &wish->options, &err))
        return cli_failed(wish->self, "%s", err.text);
    if (!run->worker || !encode(run, prompt, &err) ||
        !cli_constraint_open(&run->constraint, &wish->sampling, run->model, &err) ||
        !generate(run, &err))
        return cli_failed(wish->self, "%s", err.text);
    return report(run);
}

static int run_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.self = self, .sampling = cli_sampling_default()};
    run_state run = {.wish = &wish};
    int status = parse(&wish, argc, argv);
    if (status < 0)
        status = execute(&run);
    engine_session_close(run.session);
    cli_constraint_close(&run.constraint);
    engine_worker_close(run.worker);
    cli_speculation_close(&wish.speculation);
    engine_model_close(run.model);
    tokenizer_ids_free(&run.ids);
    cli_thinking_free(&run.answer);
    chat_template_free(run.template);
    free(run.read);
    cli_sampling_free(&wish.sampling);
    return status;
}

const cli_command cli_run = {"run", "answer a prompt", {help, examples}, run_main};
