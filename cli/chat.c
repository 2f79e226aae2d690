// SPDX-License-Identifier: MIT
// weft chat: a conversation. Every turn renders all of it; the session evaluates only what is new.
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char help[] =
    "usage: weft chat MODEL [options]\n"
    "\n"
    "A conversation with the model, line by line. Ctrl-C stops an answer or discards a line, "
    "Ctrl-D\n"
    "ends.\n"
    "\n"
    "  /reset     forget the conversation\n"
    "  /stats     show or hide the figures after each answer\n"
    "  /help      these commands\n"
    "  /quit      end\n"
    "\n"
    "  -n, --tokens N      most tokens of an answer; 0 (default): until the model ends\n"
    "\n"
    "sampling:\n" CLI_SAMPLING_HELP "\n"
    "model:\n" CLI_MODEL_HELP;

typedef struct conversation {
    const cli_command *self;
    const char *model_path;
    int32_t tokens;
    int status; // to exit with
    bool stats;
    engine_options options;
    cli_sampling sampling;
    engine_model *model;
    engine_worker *worker;
    engine_session *session;
    chat_template *template;
    chat_message *messages; // content is owned
    size_t message_count, message_room;
    tokenizer_text answer;
    cli_progress progress;
    cli_line_editor *lines; // NULL: standard input is no terminal
} conversation;

static int parse(conversation *c, int argc, char **argv)
{
    static const struct option options[] = {
        {"tokens", required_argument, NULL, 'n'}, CLI_SAMPLING_OPTIONS, CLI_MODEL_OPTIONS, {0}};
    int option, status;
    while ((option = cli_next_option(c->self, argc, argv, options, &status)) != CLI_OPTIONS_END) {
        bool fine = option != CLI_OPTIONS_BAD;
        if (!fine)
            return status;
        if (option == 'n')
            fine = cli_token_limit(c->self, optarg, &c->tokens);
        else if (option >= CLI_OPT_TEMP)
            fine = cli_sampling_option(c->self, option, optarg, &c->sampling);
        else
            fine = cli_model_option(c->self, option, optarg, &c->options);
        if (!fine)
            return CLI_USAGE;
    }
    c->model_path = cli_operand(c->self, argc, argv, "MODEL");
    return c->model_path ? -1 : CLI_USAGE;
}

static bool add_message(conversation *c, const char *role, const char *content, size_t bytes)
{
    if (c->message_count == c->message_room) {
        size_t room = c->message_room ? 2 * c->message_room : 16;
        chat_message *larger = realloc(c->messages, room * sizeof *larger);
        if (!larger)
            return false;
        c->messages = larger;
        c->message_room = room;
    }
    char *copy = malloc(bytes + 1);
    if (!copy)
        return false;
    memcpy(copy, content, bytes);
    copy[bytes] = 0;
    c->messages[c->message_count++] = (chat_message){role, copy, bytes};
    return true;
}

static void drop_messages(conversation *c, size_t keep)
{
    while (c->message_count > keep)
        free((char *)c->messages[--c->message_count].content);
}

static bool start_over(conversation *c)
{
    drop_messages(c, 0);
    const char *system = c->sampling.system;
    return !system || add_message(c, "system", system, strlen(system));
}

static bool output(void *user, const char *text, size_t bytes)
{
    conversation *c = user;
    cli_progress_clear(&c->progress);
    bool fine = fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
    return fine && tokenizer_text_append(&c->answer, text, bytes) && !cli_interrupted();
}

static bool show_progress(void *user, int32_t done_tokens, int32_t all_tokens)
{
    conversation *c = user;
    return cli_progress_show(&c->progress, done_tokens, all_tokens);
}

// Answers the last message and keeps the answer.
static bool answer(conversation *c, engine_error *err)
{
    tokenizer_ids ids = {0};
    engine_result result;
    chat_options options = {.add_generation_prompt = true, .thinking = c->sampling.thinking};
    engine_generation generation = {.max_tokens = c->tokens,
                                    .sampling = c->sampling.sampling,
                                    .stops = c->sampling.stops,
                                    .ignore_end = c->sampling.ignore_end,
                                    .write = output,
                                    .progress = show_progress,
                                    .user = c};
    c->answer.size_bytes = 0;
    c->progress.label = "reading";
    bool fine = chat_encode(c->template, engine_model_tokenizer(c->model), c->messages,
                            c->message_count, &options, &ids, err) &&
                engine_generate(c->session, ids.ids, (int32_t)ids.count, &generation, &result, err);
    cli_progress_clear(&c->progress);
    tokenizer_ids_free(&ids);
    putchar('\n');
    if (!fine)
        return false;
    if (result.finish == ENGINE_FINISH_CONTEXT)
        fputs("[the context is full: /reset, or start with a larger --ctx]\n", stderr);
    if (c->stats)
        cli_print_result(&result, c->model);
    return add_message(c, "assistant", c->answer.data ? c->answer.data : "",
                       c->answer.size_bytes) ||
           engine_fail(err, "out of memory");
}

// The next line, without its end; NULL at the end of input. The caller frees it.
static char *next_line(const conversation *c)
{
    if (c->lines)
        return cli_line_editor_read(c->lines);
    char *line = NULL;
    size_t room = 0;
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
    if (strcmp(line, "/reset") == 0)
        return start_over(c);
    if (strcmp(line, "/stats") == 0)
        c->stats = !c->stats;
    else
        fputs("/reset forgets the conversation, /stats shows figures, /quit ends\n", stderr);
    return true;
}

// Answers a message; false if the conversation cannot go on. At a terminal it can after any failure but
// that of standard output, of which main tells.
static bool reply(conversation *c, const char *line)
{
    engine_error err = {{0}};
    size_t before = c->message_count;
    if (add_message(c, "user", line, strlen(line)) && answer(c, &err))
        return !ferror(stdout);
    drop_messages(c, before);
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
    if (c->worker)
        c->template = chat_template_from_gguf(engine_model_file(c->model), &err);
    if (c->template)
        c->session = engine_session_open(c->worker, &err);
    if (!c->session)
        return cli_failed(c->self, "%s", err.text);
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
    drop_messages(&c, 0);
    free(c.messages);
    tokenizer_text_free(&c.answer);
    chat_template_free(c.template);
    engine_session_close(c.session);
    engine_worker_close(c.worker);
    engine_model_close(c.model);
    return status;
}

const cli_command cli_chat = {"chat", "talk with a model", help, chat_main};
