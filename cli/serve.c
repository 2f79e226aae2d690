// SPDX-License-Identifier: MIT
// weft serve: models for many users over HTTP.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "server/server.h"

static const char help[] =
    "usage: weft serve MODEL [options]\n"
    "       weft serve --model NAME=FILE --model NAME=FILE ... [options]\n"
    "\n"
    "Serves a model to many users over HTTP: OpenAI's API, and a page to chat with it at /.\n"
    "SIGTERM or Ctrl-C finishes what runs and refuses new requests; a second one ends at once.\n"
    "\n"
    "  --host ADDRESS      where to listen (default 127.0.0.1; 0.0.0.0: on every interface)\n"
    "  --port P            where to listen (default 8080; 0: any free port)\n"
    "  --api-key-file F    requires one of the keys in F, one per line\n"
    "  --name NAME         of the model in answers (default: the file's)\n"
    "  --model NAME=FILE   one of several models; a request chooses one by `model`. The first is\n"
    "                      loaded at once, the others when they are asked for\n"
    "  --cache-dir DIR     keeps evaluated prompts there when the server ends or unloads a\n"
    "                      model, and starts from them; damaged files, or those of other models,\n"
    "                      are ignored\n"
    "  --memory MB         for loaded models together; those that nobody uses are unloaded first\n"
    "  --cors ORIGIN       pages of this origin may use the server; * = any (default: its own)\n"
    "\n"
    "  --slots N           sequences computed at a time (default 8)\n"
    "  --pool TOKENS       size of the KV pool (default: N full texts)\n"
    "  --queue N           requests that may wait; more are told that it is busy (default 256)\n"
    "  --connections N     open at a time (default 512)\n"
    "  --max-body MB       longest body of a request (default 8)\n"
    "  --idle S            seconds that a connection may do nothing (default 60)\n"
    "  --request-time S    seconds after which an answer is cut off; 0: never (default 0)\n"
    "  --grace S           seconds that answers have to finish on SIGTERM (default 30)\n"
    "  --invariant         an answer does not depend on other requests, to the bit (slower)\n"
    "  --embedding         serves only embeddings (/v1/embeddings), with any model\n"
    "\n"
    "model:\n" CLI_MODEL_HELP "\n"
    "speculation:\n" CLI_SPECULATION_HELP "\n"
    "GET  /  /health  /metrics  /v1/models POST /v1/chat/completions  /v1/completions\n"
    "/v1/responses  /v1/embeddings  /tokenize  /detokenize\n"
    "\n"
    "Examples:\n"
    "  weft serve models/demo.gguf\n"
    "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
    "       -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Tell me a story.\"}]}'\n"
    "  weft serve model.gguf --host 0.0.0.0 --api-key-file keys.txt --slots 32 --ctx 8192\n"
    "\n"
    "docs/server.md says more.\n";

enum {
    OPT_HOST = 1,
    OPT_PORT,
    OPT_KEYS,
    OPT_NAME,
    OPT_CORS,
    OPT_SLOTS,
    OPT_POOL,
    OPT_QUEUE,
    OPT_CONNECTIONS,
    OPT_BODY,
    OPT_IDLE,
    OPT_TIME,
    OPT_GRACE,
    OPT_INVARIANT,
    OPT_EMBEDDING,
    OPT_MODEL,
    OPT_MEMORY,
    OPT_CACHE,
};

enum { MAX_MODELS = 64 };

typedef struct wish {
    const cli_command *self;
    const char *name;
    server_model models[MAX_MODELS];
    char *names[MAX_MODELS]; // owned
    engine_options engine;
    cli_speculation speculation;
    server_options server;
} wish;

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool add_model(wish *w, const char *name, size_t bytes, const char *path)
{
    int32_t n = w->server.model_count;
    w->names[n] = strndup(name, bytes);
    if (!w->names[n]) {
        cli_failed(w->self, "not enough memory for a name");
        return false;
    }
    w->models[n] = (server_model){w->names[n], path};
    w->server.model_count++;
    return true;
}

// NAME=FILE, or a file that gives the name.
static bool take_model(wish *w, const char *text)
{
    const char *sign = strchr(text, '=');
    if (w->server.model_count == MAX_MODELS || (sign && (sign == text || !sign[1]))) {
        cli_bad_usage(w->self, "--model takes NAME=FILE, at most %d times", MAX_MODELS);
        return false;
    }
    if (sign)
        return add_model(w, text, (size_t)(sign - text), sign + 1);
    const char *name = file_name(text);
    return add_model(w, name, strlen(name), text);
}

static bool take_option(void *opaque, int option)
{
    wish *w = opaque;
    const cli_command *self = w->self;
    server_options *server = &w->server;
    switch (option) {
    case OPT_HOST: server->host = optarg; return true;
    case OPT_PORT: return cli_int32(self, "--port", optarg, 0, 65535, &server->port);
    case OPT_KEYS: server->key_file = optarg; return true;
    case OPT_NAME: w->name = optarg; return true;
    case OPT_MODEL: return take_model(w, optarg);
    case OPT_CACHE: server->cache_folder = optarg; return true;
    case OPT_MEMORY:
        if (!cli_int(self, "--memory", optarg, 1, 1 << 24, &server->memory_bytes))
            return false;
        server->memory_bytes <<= 20;
        return true;
    case OPT_CORS: server->origin = optarg; return true;
    case OPT_SLOTS: return cli_int32(self, "--slots", optarg, 1, 4096, &w->engine.max_sessions);
    case OPT_POOL: return cli_int32(self, "--pool", optarg, 1, INT32_MAX, &w->engine.pool_tokens);
    case OPT_QUEUE: return cli_int32(self, "--queue", optarg, 1, 1 << 20, &server->max_waiting);
    case OPT_CONNECTIONS:
        return cli_int32(self, "--connections", optarg, 1, 65536, &server->max_connections);
    case OPT_BODY:
        if (!cli_int32(self, "--max-body", optarg, 1, 1024, &server->max_body_bytes))
            return false;
        server->max_body_bytes <<= 20;
        return true;
    case OPT_IDLE: return cli_int32(self, "--idle", optarg, 1, 86400, &server->idle_seconds);
    case OPT_TIME:
        return cli_int32(self, "--request-time", optarg, 0, 1 << 24, &server->request_seconds);
    case OPT_GRACE: return cli_int32(self, "--grace", optarg, 0, 86400, &server->grace_seconds);
    case OPT_EMBEDDING: server->embedding = true; return true;
    case OPT_INVARIANT: w->engine.invariant = true; return true;
    default:
        return cli_speculation_option(option, optarg, &w->speculation) ||
               cli_model_option(self, option, optarg, &w->engine);
    }
}

// Returns -1 to go on, or an exit status.
static int parse(wish *w, int argc, char **argv)
{
    static const struct option options[] = {
        {"host", required_argument, NULL, OPT_HOST},
        {"port", required_argument, NULL, OPT_PORT},
        {"api-key-file", required_argument, NULL, OPT_KEYS},
        {"name", required_argument, NULL, OPT_NAME},
        {"cors", required_argument, NULL, OPT_CORS},
        {"slots", required_argument, NULL, OPT_SLOTS},
        {"pool", required_argument, NULL, OPT_POOL},
        {"queue", required_argument, NULL, OPT_QUEUE},
        {"connections", required_argument, NULL, OPT_CONNECTIONS},
        {"max-body", required_argument, NULL, OPT_BODY},
        {"idle", required_argument, NULL, OPT_IDLE},
        {"request-time", required_argument, NULL, OPT_TIME},
        {"grace", required_argument, NULL, OPT_GRACE},
        {"invariant", no_argument, NULL, OPT_INVARIANT},
        {"embedding", no_argument, NULL, OPT_EMBEDDING},
        {"model", required_argument, NULL, OPT_MODEL},
        {"memory", required_argument, NULL, OPT_MEMORY},
        {"cache-dir", required_argument, NULL, OPT_CACHE},
        CLI_SPECULATION_OPTIONS,
        CLI_MODEL_OPTIONS,
        {0}};
    int status = cli_take_options(w->self, argc, argv, options, take_option, w);
    if (status >= 0)
        return status;
    if (w->server.model_count == 0) {
        const char *path = cli_operand(w->self, argc, argv, "MODEL");
        if (!path || !add_model(w, file_name(path), strlen(file_name(path)), path))
            return CLI_USAGE;
    } else if (optind < argc)
        return cli_bad_usage(w->self, "give MODEL or --model, not both");
    if (w->name && w->server.model_count > 1)
        return cli_bad_usage(w->self, "--name goes with one model");
    if (w->name)
        w->models[0].name = w->name;
    if (w->speculation.draft_path && w->server.model_count > 1)
        return cli_bad_usage(w->self, "--draft goes with one model");
    return -1;
}

static void ready(void *user, int port)
{
    const wish *w = user;
    const char *host = w->server.host ? w->server.host : "127.0.0.1";
    bool six = strchr(host, ':') != NULL;
    fprintf(stderr, "weft serve: %s at http://%s%s%s:%d\n", w->models[0].name, six ? "[" : "", host,
            six ? "]" : "", port);
}

static bool opened(void *user, const engine_model *model, const engine_worker *worker,
                   const engine_speculation **speculation, engine_error *err)
{
    wish *w = user;
    cli_warn_of_context(w->self, model, worker);
    if (!cli_speculation_open(&w->speculation, model, worker, &w->engine, err))
        return false;
    *speculation = cli_speculation_wish(&w->speculation);
    return true;
}

static void warn(void *user, const char *name, const engine_error *err)
{
    (void)user;
    fprintf(stderr, "weft serve: %s: %s\n", name, err->text);
}

static int serve_main(const cli_command *self, int argc, char **argv)
{
    wish w = {.self = self,
              .engine = {.max_sessions = 8, .keep_prefixes = true},
              .server = {.port = 8080,
                         .max_connections = 512,
                         .max_body_bytes = 8 << 20,
                         .idle_seconds = 60,
                         .grace_seconds = 30,
                         .ready = ready,
                         .opened = opened,
                         .warn = warn}};
    engine_error err = {""};
    w.server.user = &w;
    w.server.models = w.models;
    w.server.engine = &w.engine;
    int status = parse(&w, argc, argv);
    if (status < 0)
        status = server_run(&w.server, &err) ? CLI_DONE : cli_failed(self, "%s", err.text);
    cli_speculation_close(&w.speculation);
    for (int n = 0; n < MAX_MODELS; n++)
        free(w.names[n]);
    return status;
}

const cli_command cli_serve = {"serve", "answer many users over HTTP", {help}, serve_main};
