// SPDX-License-Identifier: MIT
// weft inspect: what a model file holds and what running it takes.
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"

static const char help[] =
    "usage: weft inspect MODEL [options]\n"
    "\n"
    "Shows the architecture, the tensors by format, and the memory that running takes. Also\n"
    "reads files of architectures and formats that weft cannot run, and says why it cannot.\n"
    "\n"
    "  --tensors           list every tensor\n"
    "  --keys              list every metadata key\n"
    "  --json              one JSON object; the lists are its tensor_list and key_list\n"
    "\n"
    "model:\n" CLI_MODEL_HELP;

enum { OPT_TENSORS = 1, OPT_KEYS, OPT_JSON };
enum { KEY_TEXT_BYTES = 128 }; // of a value that is shown

typedef struct request {
    const cli_command *self;
    const char *path;
    bool tensors, keys, json;
    engine_options options;
} request;

// What is known of the model.
typedef struct description {
    bool runs;
    const char *why_not; // "" if it runs
    engine_model_info info;
    engine_worker_info worker; // of a model that runs
    char architecture[64], name[128];
} description;

// Returns -1 to go on, or an exit status.
static int parse(request *wish, int argc, char **argv)
{
    static const struct option options[] = {{"tensors", no_argument, NULL, OPT_TENSORS},
                                            {"keys", no_argument, NULL, OPT_KEYS},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            CLI_MODEL_OPTIONS,
                                            {0}};
    int option, status;
    while ((option = cli_next_option(wish->self, argc, argv, options, &status)) != CLI_OPTIONS_END)
        switch (option) {
        case CLI_OPTIONS_BAD: return status;
        case OPT_TENSORS: wish->tensors = true; break;
        case OPT_KEYS: wish->keys = true; break;
        case OPT_JSON: wish->json = true; break;
        default:
            if (!cli_model_option(wish->self, option, optarg, &wish->options))
                return CLI_USAGE;
        }
    wish->path = cli_operand(wish->self, argc, argv, "MODEL");
    return wish->path ? -1 : CLI_USAGE;
}

static json_t *formats_json(const gguf_file *file)
{
    gguf_format_total totals[GGUF_MAX_FORMATS];
    size_t count = gguf_format_totals(file, totals);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:I, s:I}", "format", totals[i].type->name,
                                        "tensors", (json_int_t)totals[i].tensor_count, "elements",
                                        (json_int_t)totals[i].element_count, "bytes",
                                        (json_int_t)totals[i].size_bytes));
    return list;
}

static json_t *tensors_json(const gguf_file *file)
{
    json_t *list = json_array();
    for (size_t i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        json_t *shape = json_array();
        for (uint32_t d = 0; d < tensor->rank; d++)
            json_array_append_new(shape, json_integer(tensor->shape[d]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:I}", "name", tensor->name,
                                              "format", tensor->type->name, "shape", shape, "bytes",
                                              (json_int_t)gguf_tensor_bytes(tensor)));
    }
    return list;
}

static json_t *keys_json(const gguf_file *file)
{
    json_t *list = json_array();
    for (size_t i = 0; i < gguf_key_count(file); i++) {
        char text[KEY_TEXT_BYTES];
        const gguf_entry *entry = gguf_entry_at(file, i);
        json_array_append_new(list, json_pack("{s:s%, s:s, s:s}", "key", entry->key.data,
                                              entry->key.size_bytes, "type",
                                              gguf_value_type_name(entry->type), "value",
                                              gguf_value_text(entry, text, sizeof text)));
    }
    return list;
}

static int32_t number_of(const gguf_file *file, const char *architecture, const char *name)
{
    char key[192];
    int32_t number = 0;
    gguf_array array;
    uint32_t first;
    snprintf(key, sizeof key, "%s.%s", architecture, name);
    if (gguf_get_i32(file, key, &number) != GGUF_FOUND &&
        gguf_get_array(file, key, &array) == GGUF_FOUND && array.count > 0 &&
        gguf_array_u32(&array, 0, &first) && first <= INT32_MAX)
        number = (int32_t)first; // one number a layer
    return number > 0 ? number : 0;
}

// What the keys of a file say of a model that cannot run; 0 and "" where they say nothing.
static void describe_file(description *d, const gguf_file *file)
{
    engine_model_info *info = &d->info;
    const gguf_entry *architecture = gguf_find(file, "general.architecture");
    const gguf_entry *name = gguf_find(file, "general.name");
    const gguf_tensor *embedding = gguf_find_tensor(file, "token_embd.weight");
    if (architecture)
        gguf_value_text(architecture, d->architecture, sizeof d->architecture);
    if (name)
        gguf_value_text(name, d->name, sizeof d->name);
    info->architecture = d->architecture;
    info->name = d->name;
    info->layers = number_of(file, d->architecture, "block_count");
    info->embedding_dim = number_of(file, d->architecture, "embedding_length");
    info->feed_forward_dim = number_of(file, d->architecture, "feed_forward_length");
    info->q_heads = number_of(file, d->architecture, "attention.head_count");
    info->kv_heads = number_of(file, d->architecture, "attention.head_count_kv");
    info->head_dim = number_of(file, d->architecture, "attention.key_length");
    info->trained_context = number_of(file, d->architecture, "context_length");
    info->window = number_of(file, d->architecture, "attention.sliding_window");
    if (info->head_dim == 0 && info->q_heads > 0)
        info->head_dim = info->embedding_dim / info->q_heads;
    if (embedding && embedding->shape[1] <= INT32_MAX)
        info->vocab = (int32_t)embedding->shape[1];
    for (size_t i = 0; i < gguf_tensor_count(file); i++) {
        info->parameters += gguf_tensor_at(file, i)->element_count;
        info->weight_bytes += gguf_tensor_bytes(gguf_tensor_at(file, i));
    }
}

// What an adapter says of itself.
typedef struct adapter_info {
    char type[32];
    int64_t rank, matrices; // rank: the largest
    float alpha;            // 0: it does not say
} adapter_info;

static bool describe_adapter(adapter_info *info, const gguf_file *file)
{
    static const char end[] = ".lora_b";
    gguf_string kind;
    const gguf_entry *type = gguf_find(file, "adapter.type");
    *info = (adapter_info){.type = "unknown"};
    if (gguf_get_string(file, "general.type", &kind) != GGUF_FOUND ||
        !gguf_string_equals(kind, "adapter"))
        return false;
    if (type)
        gguf_value_text(type, info->type, sizeof info->type);
    gguf_get_f32(file, "adapter.lora.alpha", &info->alpha);
    for (size_t i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        size_t length = strlen(tensor->name);
        if (length < sizeof end || strcmp(tensor->name + length - (sizeof end - 1), end) != 0)
            continue;
        info->matrices++;
        if (tensor->shape[0] > info->rank)
            info->rank = tensor->shape[0];
    }
    return true;
}

static json_t *model_json(const description *d)
{
    const engine_model_info *info = &d->info;
    const engine_worker_info *worker = &d->worker;
    json_t *object = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:i}",
        "architecture", info->architecture, "name", info->name, "layers", info->layers,
        "embedding_dim", info->embedding_dim, "q_heads", info->q_heads, "kv_heads", info->kv_heads,
        "head_dim", info->head_dim, "feed_forward_dim", info->feed_forward_dim, "vocab",
        info->vocab, "trained_context", info->trained_context, "window", info->window, "parameters",
        (json_int_t)info->parameters, "weight_bytes", (json_int_t)info->weight_bytes,
        "streamed_bytes", (json_int_t)info->streamed_bytes, "kv_bytes_per_token",
        (json_int_t)worker->kv_bytes_per_token, "kv_pool_bytes", (json_int_t)worker->kv_pool_bytes,
        "buffer_bytes", (json_int_t)worker->buffer_bytes, "context_tokens", worker->context_tokens);
    const char *key;
    void *next;
    json_t *value;
    if (!d->runs) // a number that nobody knows is left out
        json_object_foreach_safe(object, next, key, value) if (json_is_integer(value) &&
                                                               json_integer_value(value) == 0)
            json_object_del(object, key);
    return object;
}

static int print_json(const request *wish, const gguf_file *file, const description *d)
{
    json_t *object =
        json_pack("{s:o, s:i, s:I, s:I, s:o, s:b, s:s}", "file", cli_json_text(wish->path),
                  "gguf_version", (int)gguf_version(file), "file_bytes",
                  (json_int_t)gguf_size_bytes(file), "tensors", (json_int_t)gguf_tensor_count(file),
                  "formats", formats_json(file), "runs", d->runs, "why_not", d->why_not);
    if (object)
        json_object_set_new(object, "model", model_json(d));
    adapter_info adapter;
    if (object && describe_adapter(&adapter, file))
        json_object_set_new(object, "adapter",
                            json_pack("{s:s, s:I, s:f, s:I}", "type", adapter.type, "rank",
                                      (json_int_t)adapter.rank, "alpha", (double)adapter.alpha,
                                      "matrices", (json_int_t)adapter.matrices));
    if (object && wish->tensors)
        json_object_set_new(object, "tensor_list", tensors_json(file));
    if (object && wish->keys)
        json_object_set_new(object, "key_list", keys_json(file));
    return cli_print_json(wish->self, object);
}

static void print_model(const description *d)
{
    const engine_model_info *info = &d->info;
    const engine_worker_info *worker = &d->worker;
    printf("model         %s%s%s\n", info->architecture, info->name[0] ? ", " : "", info->name);
    printf("parameters    %.1f million in %d layers\n", (double)info->parameters / 1e6,
           info->layers);
    if (info->embedding_dim)
        printf("shape         embedding %d, feed-forward %d, vocabulary %d\n", info->embedding_dim,
               info->feed_forward_dim, info->vocab);
    if (info->q_heads)
        printf("attention     %d query heads, %d KV heads of %d", info->q_heads, info->kv_heads,
               info->head_dim);
    if (info->window)
        printf(", window of %d", info->window);
    if (info->q_heads)
        putchar('\n');
    if (info->trained_context)
        printf("context       %d tokens trained%s", info->trained_context, d->runs ? "" : "\n");
    if (!d->runs) {
        printf("memory        weights %s\n", cli_bytes(info->weight_bytes));
        return;
    }
    printf(", %d used\n", worker->context_tokens);
    printf("memory        weights %s, KV cache %s (%s a token), buffers %s\n",
           cli_bytes(info->weight_bytes), cli_bytes(worker->kv_pool_bytes),
           cli_bytes(worker->kv_bytes_per_token), cli_bytes(worker->buffer_bytes));
    printf("per token     %s of weights are read\n", cli_bytes(info->streamed_bytes));
}

static void print_formats(const gguf_file *file)
{
    gguf_format_total totals[GGUF_MAX_FORMATS];
    size_t count = gguf_format_totals(file, totals);
    printf("\n%-10s %8s %14s %10s\n", "format", "tensors", "elements", "size");
    for (size_t i = 0; i < count; i++)
        printf("%-10s %8zu %14" PRId64 " %10s\n", totals[i].type->name, totals[i].tensor_count,
               totals[i].element_count, cli_bytes((int64_t)totals[i].size_bytes));
}

static void print_tensors(const gguf_file *file)
{
    putchar('\n');
    for (size_t i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        printf("%-40s %-8s", tensor->name, tensor->type->name);
        for (uint32_t d = tensor->rank; d > 0; d--)
            printf(" %s%" PRId64, d == tensor->rank ? "" : "x ", tensor->shape[d - 1]);
        putchar('\n');
    }
}

static void print_keys(const gguf_file *file)
{
    putchar('\n');
    for (size_t i = 0; i < gguf_key_count(file); i++) {
        char text[KEY_TEXT_BYTES];
        const gguf_entry *entry = gguf_entry_at(file, i);
        gguf_value_text(entry, text, sizeof text);
        printf("%-44.*s %s\n", (int)entry->key.size_bytes, entry->key.data, text);
    }
}

static int print_text(const request *wish, const gguf_file *file, const description *d)
{
    printf("file          %s, GGUF version %u, %s\n", wish->path, gguf_version(file),
           cli_bytes((int64_t)gguf_size_bytes(file)));
    if (!d->runs)
        printf("runs          no: %s\n", d->why_not);
    adapter_info adapter;
    if (describe_adapter(&adapter, file))
        printf("adapter       %s, rank %" PRId64 ", alpha %g, %" PRId64 " matrices\n", adapter.type,
               adapter.rank, (double)adapter.alpha, adapter.matrices);
    print_model(d);
    print_formats(file);
    if (wish->tensors)
        print_tensors(file);
    if (wish->keys)
        print_keys(file);
    return CLI_DONE;
}

static int inspect_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.self = self};
    engine_error err = {{0}};
    description d = {.runs = false};
    int status = parse(&wish, argc, argv);
    if (status >= 0)
        return status;
    gguf_file *file = model_file_open(wish.path, &err);
    if (!file)
        return cli_failed(self, "%s", err.text);
    engine_model *model = engine_model_open(wish.path, &err);
    engine_worker *worker = model ? engine_worker_open(model, &wish.options, &err) : NULL;
    d.runs = worker != NULL;
    if (d.runs) {
        engine_model_describe(model, &d.info);
        engine_worker_describe(worker, &d.worker);
    } else {
        describe_file(&d, file);
    }
    // The file is named anyway.
    size_t path = strlen(wish.path);
    bool named = strncmp(err.text, wish.path, path) == 0 && strncmp(err.text + path, ": ", 2) == 0;
    d.why_not = named ? err.text + path + 2 : err.text;
    status = (wish.json ? print_json : print_text)(&wish, file, &d);
    engine_worker_close(worker);
    engine_model_close(model);
    gguf_close(file);
    return status;
}

const cli_command cli_inspect = {"inspect", "show what a model file holds", {help}, inspect_main};
