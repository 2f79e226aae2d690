// SPDX-License-Identifier: MIT
// weft chat: a conversation. Every turn renders all of it; the session evaluates only what is new.
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/transcript.h"

static const char help[] =
    "usage: weft chat MODEL [options]\n"
    "\n"
    "A conversation with the model, line by line. Ctrl-C stops an answer or discards a line,\n"
    "Ctrl-D ends.\n"
    "\n"
    "  /reset     forget the conversation\n"
    "  /stats     show or hide the figures after each answer\n"
    "  /help      these commands\n"
    "  /quit      end\n"
    "\n"
    "  -n, --tokens N      most tokens of an answer; 0 (default): until the model ends\n"
    "  --when-full HOW     the context: drop (default) the oldest turns, or stop\n"
    "  --raw               no chat template: what is typed and what the model adds is one text;\n"
    "                      end its answers with -n, --stop or Ctrl-C\n"
    "\n"
    "sampling:\n" CLI_SAMPLING_HELP "\n"
    "speculation:\n" CLI_SPECULATION_HELP "\n"
    "model:\n" CLI_MODEL_HELP;

enum { OPT_RAW = 1, OPT_WHEN_FULL };

typedef struct conversation {
    const cli_command *self;
    const char *model_path;
    int32_t tokens;
    int status; // to exit with
    bool raw, keep, stats;
    engine_options options;
    cli_sampling sampling;
    cli_speculation speculation;
    engine_model *model;
    engine_worker *worker;
    engine_session *session;
    chat_template *template;
    cli_transcript transcript;
    cli_progress progress;
    cli_thinking answer;
    cli_constraint constraint;
    cli_line_editor *lines; // NULL: standard input is no terminal
} conversation;

static bool take_option(void *opaque, int option)
{
    conversation *c = opaque;
    switch (option) {
    case 'n': return cli_token_limit(c->self, optarg, &c->tokens);
    case OPT_RAW: c->raw = true; return true;
    case OPT_WHEN_FULL:
        c->keep = strcmp(optarg, "stop") == 0;
        if (c->keep || strcmp(optarg, "drop") == 0)
            return true;
        cli_bad_usage(c->self, "--when-full must be drop or stop, not '%s'", optarg);
        return false;
    default:
        if (cli_speculation_option(option, optarg, &c->speculation))
            return true;
        return option >= CLI_OPT_TEMP ? cli_sampling_option(c->self, option, optarg, &c->sampling)
                                      : cli_model_option(c->self, option, optarg, &c->options);
    }
}

// Returns -1 to go on, or an exit status.
static int parse(conversation *c, int argc, char **argv)
{
    static const struct option options[] = {{"tokens", required_argument, NULL, 'n'},
                                            {"raw", no_argument, NULL, OPT_RAW},
                                            {"when-full", required_argument, NULL, OPT_WHEN_FULL},
                                            CLI_SAMPLING_OPTIONS,
                                            CLI_SPECULATION_OPTIONS,
                                            CLI_MODEL_OPTIONS,
                                            {0}};
    int status = cli_take_options(c->self, argc, argv, options, take_option, c);
    if (status >= 0)
        return status;
    if (c->raw && !cli_sampling_fits_raw(c->self, &c->sampling))
        return CLI_USAGE;
    c->model_path = cli_operand(c->self, argc, argv, "MODEL");
    return c->model_path ? -1 : CLI_USAGE;
}

static bool start_over(conversation *c)
{
    const char *system = c->sampling.system;
    cli_transcript_free(&c->transcript);
    return !system || cli_transcript_add(&c->transcript, "system", system, strlen(system));
}

static bool output(void *user, const engine_token *token)
{
    conversation *c = user;
    cli_progress_clear(&c->progress);
    return cli_thinking_token(&c->answer, token) && !cli_interrupted();
}

static bool show_progress(void *user, int32_t done_tokens, int32_t all_tokens)
{
    conversation *c = user;
    return cli_progress_show(&c->progress, done_tokens, all_tokens);
}

// The conversation as tokens. A quarter of the context is kept for the answer, or what it takes at most;
// the oldest turns go where it would be taken up.
static bool encode(conversation *c, tokenizer_ids *ids, engine_error *err)
{
    engine_worker_info info;
    engine_worker_describe(c->worker, &info);
    size_t most = (size_t)info.context_tokens, answer = most / 4;
    if (c->tokens > 0 && (size_t)c->tokens < answer)
        answer = (size_t)c->tokens;
    cli_transcript_form form = {c->template, cli_chat_options(&c->sampling),
                                engine_model_tokenizer(c->model)};
    int dropped;
    size_t wanted = c->keep ? CLI_TRANSCRIPT_KEEP : most - answer;
    if (!cli_transcript_fit(&c->transcript, &form, wanted, most, ids, &dropped, err))
        return false;
    if (dropped > 0)
        fprintf(
            stderr,
            "[the oldest %s dropped, to make room in the context of %zu: --ctx makes it larger, "
            "/reset forgets all]\n",
            dropped == 1 ? "turn was" : "turns were", most);
    return true;
}

// Answers the last message and keeps the answer.
static bool answer(conversation *c, engine_error *err)
{
    tokenizer_ids ids = {0};
    engine_result result;
    engine_generation generation = {.max_tokens = c->tokens,
                                    .sampling = cli_sampling_of(&c->sampling, c->model),
                                    .stops = c->sampling.stops,
                                    .ignore_end = c->sampling.ignore_end,
                                    .speculation = cli_speculation_wish(&c->speculation),
                                    .constraint = c->constraint.made,
                                    .token = output,
                                    .progress = show_progress,
                                    .user = c};
    c->progress.label = "reading";
    bool fine = encode(c, &ids, err);
    cli_thinking_start(&c->answer, c->template, engine_model_tokenizer(c->model), &ids,
                       c->sampling.thinking, true);
    fine =
        fine && engine_generate(c->session, ids.ids, (int32_t)ids.count, &generation, &result, err);
    cli_progress_clear(&c->progress);
    cli_thinking_end(&c->answer);
    tokenizer_ids_free(&ids);
    putchar('\n');
    if (!fine)
        return false;
    if (result.finish == ENGINE_FINISH_CONTEXT)
        fprintf(stderr, "[the context is full: %s, or start with a larger --ctx]\n",
                c->keep ? "/reset forgets the conversation"
                        : "the next message drops the oldest turns, /reset all");
    if (c->stats)
        cli_print_result(&result, c->model);
    return cli_transcript_answer(&c->transcript, &c->answer.text, &c->answer.thoughts) ||
           engine_fail(err, "out of memory");
}

// The next line, without its end; NULL at the end of input. The caller frees it.
static char *next_line(const conversation *c)
{
    if (c->lines)
        return cli_line_editor_read(c->lines);
    char *line = NULL;
    size_t room = 0;
    cli_let_interrupt_end_reading();
    ssize_t bytes = getline(&line, &room, stdin);
    if (bytes < 0) {
        free(line);
        return NULL;
    }
    if (bytes > 0 && line[bytes - 1] == '\n')
        line[bytes - 1] = 0;
    cli_catch_interrupt();
    return line;
}

// Obeys a line that begins with a slash; false to end the conversation.
static bool obey(conversation *c, const char *line)
{
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        return false;
    if (strcmp(line, "/reset") == 0) {
        if (c->lines)
            fputs("[the conversation is forgotten]\n", stderr);
        return start_over(c);
    }
    if (strcmp(line, "/stats") == 0) {
        c->stats = !c->stats;
        fprintf(stderr, "[figures after each answer: %s]\n", c->stats ? "on" : "off");
        return true;
    }
    if (strcmp(line, "/help") != 0)
        fprintf(stderr, "unknown command %s; put a space before a message that begins with /\n",
                line);
    fputs("/reset forgets the conversation, /stats shows figures or hides them, /quit ends\n",
          stderr);
    return true;
}

// Answers a message; false if the conversation cannot go on. At a terminal it can after any failure but
// that of standard output, of which main tells.
static bool reply(conversation *c, const char *line)
{
    engine_error err = {{0}};
    bool added = cli_transcript_add(&c->transcript, "user", line, strlen(line));
    if (added && answer(c, &err))
        return !ferror(stdout);
    if (added)
        cli_transcript_remove_last(&c->transcript);
    int status = cli_failed(c->self, "%s", err.text[0] ? err.text : "out of memory");
    c->status = c->lines ? CLI_DONE : status;
    return c->lines != NULL;
}

static int converse(conversation *c)
{
    char *line;
    if (!start_over(c))
        return cli_failed(c->self, "out of memory");
    for (bool go_on = true; go_on; free(line)) {
        line = next_line(c);
        if (!line && ferror(stdin) && !cli_interrupted())
            return cli_failed(c->self, "standard input cannot be read: %s", strerror(errno));
        if (!line)
            break;
        if (line[0] == '/')
            go_on = obey(c, line);
        else if (*line)
            go_on = reply(c, line);
    }
    return c->status;
}

static int open_and_converse(conversation *c)
{
    engine_error err = {{0}};
    c->model = engine_model_open(c->model_path, &err);
    if (c->model)
        c->worker = engine_worker_open(c->model, &c->options, &err);
    if (c->worker && !cli_speculation_open(&c->speculation, c->model, c->worker, &c->options, &err))
        return cli_failed(c->self, "%s", err.text);
    if (c->worker && !c->raw)
        c->template = chat_template_from_gguf(engine_model_file(c->model), &err);
    if (c->worker && (c->template || c->raw) &&
        cli_constraint_open(&c->constraint, &c->sampling, c->model, &err))
        c->session = engine_session_open(c->worker, &err);
    if (!c->session)
        return cli_failed(c->self, "%s", err.text);
    cli_warn_of_context(c->self, c->model, c->worker);
    if (isatty(STDIN_FILENO)) {
        c->lines = cli_line_editor_open();
        if (!c->lines)
            return cli_failed(c->self, "out of memory");
        fprintf(stderr, "Type a message; /help lists commands, Ctrl-D ends.\n");
    }
    return converse(c);
}

static int chat_main(const cli_command *self, int argc, char **argv)
{
    conversation c = {.self = self, .sampling = cli_sampling_default()};
    int status = parse(&c, argc, argv);
    if (status < 0)
        status = open_and_converse(&c);
    cli_line_editor_close(c.lines);
    cli_transcript_free(&c.transcript);
    cli_thinking_free(&c.answer);
    cli_sampling_free(&c.sampling);
    chat_template_free(c.template);
    engine_session_close(c.session);
    cli_constraint_close(&c.constraint);
    engine_worker_close(c.worker);
    cli_speculation_close(&c.speculation);
    engine_model_close(c.model);
    return status;
}

const cli_command cli_chat = {"chat", "talk with a model", {help}, chat_main};
