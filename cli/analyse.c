// SPDX-License-Identifier: MIT
// weft analyse: what a model must move and compute, and so how fast it can be at most.
#include "cli/analyse/analyse.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: weft analyse MODEL [options]\n"
    "       weft analyse --shape NAME [--format F] [options]\n"
    "\n"
    "Counts the bytes and operations of one generated token, operator by operator, and the\n"
    "tokens a second that memory allows; the memory of attention; the KV cache; and the pages\n"
    "that requests take. Nothing is run: weights of a shape are not even made.\n"
    "\n"
    "  --shape NAME        a known shape instead of a file (weft bench model --help lists them)\n"
    "  --format F          format of a shape's matrices, or a mix (q4_k_m); default q4_0\n"
    "  --context L         tokens before the one that is generated; default 4096\n"
    "  --batch B           sequences that generate together; default 1\n"
    "  --prompt S          tokens of a prompt, for attention's memory; default 2048\n"
    "  --chunk N           tokens of one pass over a prompt; default 512\n"
    "  --kv-dtype D        format of the KV cache; default f16\n"
    "  --bandwidth GBPS    of the memory; default 200\n"
    "  --gflops G          peak arithmetic, for the ridge of the roofline; default: not asked\n"
    "  --tile Q,K          queries and keys of a flash kernel's tile; default 64,64\n"
    "  --page-size P,..    tokens per page, to compare; default 16,64,128\n"
    "  --requests P+A,B,.. requests that share a prefix of P tokens and have A, B, .. of their\n"
    "                      own; default 64+1,1\n"
    "  --json              one JSON object per line: operators, attention, cache, pages\n"
    "\n"
    "Examples:\n"
    "  weft analyse models/demo.gguf\n"
    "  weft analyse --shape llama-3.1-8b --format q4_k --context 32768 --bandwidth 4540\n";

enum {
    OPT_SHAPE = 1,
    OPT_FORMAT,
    OPT_CONTEXT,
    OPT_BATCH,
    OPT_PROMPT,
    OPT_CHUNK,
    OPT_KV_DTYPE,
    OPT_BANDWIDTH,
    OPT_GFLOPS,
    OPT_TILE,
    OPT_PAGE_SIZE,
    OPT_REQUESTS,
    OPT_JSON,
};
enum { MAX_TOKENS = 1 << 24, MAX_PAGE_SIZES = 16 };

typedef struct request {
    const cli_command *self;
    const char *path, *shape;
    const char *format;
    analyse_question question;
    int32_t tile[2];
    int32_t page_sizes[MAX_PAGE_SIZES], page_size_count;
    int32_t prefix, own[ANALYSE_MAX_REQUESTS], own_count;
    bool json;
} request;

// "1,2,3" into numbers; false with a message.
static bool take_list(const cli_command *self, const char *option, const char *text, int32_t low,
                      int32_t *numbers, int32_t room, int32_t *count)
{
    *count = 0;
    for (const char *at = text; *at;) {
        char number[16];
        size_t bytes = strcspn(at, ",");
        if (*count == room || bytes >= sizeof number)
            return cli_bad_usage(self, "%s takes at most %d numbers: %s", option, room, text),
                   false;
        memcpy(number, at, bytes);
        number[bytes] = '\0';
        if (!cli_int32(self, option, number, low, MAX_TOKENS, &numbers[(*count)++]))
            return false;
        at += bytes + (at[bytes] == ',');
    }
    return *count > 0 || (cli_bad_usage(self, "%s needs numbers", option), false);
}

static bool take_requests(request *wish, const char *text)
{
    char prefix[16];
    const char *plus = strchr(text, '+');
    if (!plus || (size_t)(plus - text) >= sizeof prefix)
        return cli_bad_usage(wish->self, "--requests is PREFIX+OWN,OWN,..: %s", text), false;
    memcpy(prefix, text, (size_t)(plus - text));
    prefix[plus - text] = '\0';
    return cli_int32(wish->self, "--requests", prefix, 0, MAX_TOKENS, &wish->prefix) &&
           take_list(wish->self, "--requests", plus + 1, 0, wish->own, ANALYSE_MAX_REQUESTS,
                     &wish->own_count);
}

static bool take_tile(request *wish, const char *text)
{
    int32_t count;
    if (!take_list(wish->self, "--tile", text, 1, wish->tile, 2, &count))
        return false;
    return count == 2 || (cli_bad_usage(wish->self, "--tile is QUERIES,KEYS: %s", text), false);
}

static bool take_number(const request *wish, const char *name, double *to)
{
    float value;
    if (!cli_float(wish->self, name, optarg, 1e-3f, 1e9f, &value))
        return false;
    *to = (double)value;
    return true;
}

static bool take_option(void *opaque, int option)
{
    request *wish = opaque;
    const cli_command *self = wish->self;
    analyse_question *q = &wish->question;
    switch (option) {
    case OPT_SHAPE: wish->shape = optarg; return true;
    case OPT_FORMAT: return cli_formats(self, "--format", optarg, &wish->format);
    case OPT_CONTEXT: return cli_int32(self, "--context", optarg, 1, MAX_TOKENS, &q->context);
    case OPT_BATCH: return cli_int32(self, "--batch", optarg, 1, 1 << 20, &q->batch);
    case OPT_PROMPT: return cli_int32(self, "--prompt", optarg, 1, MAX_TOKENS, &q->prompt);
    case OPT_CHUNK: return cli_int32(self, "--chunk", optarg, 1, MAX_TOKENS, &q->chunk);
    case OPT_KV_DTYPE: return cli_dtype(self, "--kv-dtype", optarg, &q->kv_dtype);
    case OPT_BANDWIDTH: return take_number(wish, "--bandwidth", &q->gbps);
    case OPT_GFLOPS: return take_number(wish, "--gflops", &q->gflops);
    case OPT_TILE: return take_tile(wish, optarg);
    case OPT_PAGE_SIZE:
        return take_list(self, "--page-size", optarg, 1, wish->page_sizes, MAX_PAGE_SIZES,
                         &wish->page_size_count);
    case OPT_REQUESTS: return take_requests(wish, optarg);
    default: wish->json = true; return true;
    }
}

// Returns -1 to go on, or an exit status.
static int parse(request *wish, int argc, char **argv)
{
    static const struct option options[] = {{"shape", required_argument, NULL, OPT_SHAPE},
                                            {"format", required_argument, NULL, OPT_FORMAT},
                                            {"context", required_argument, NULL, OPT_CONTEXT},
                                            {"batch", required_argument, NULL, OPT_BATCH},
                                            {"prompt", required_argument, NULL, OPT_PROMPT},
                                            {"chunk", required_argument, NULL, OPT_CHUNK},
                                            {"kv-dtype", required_argument, NULL, OPT_KV_DTYPE},
                                            {"bandwidth", required_argument, NULL, OPT_BANDWIDTH},
                                            {"gflops", required_argument, NULL, OPT_GFLOPS},
                                            {"tile", required_argument, NULL, OPT_TILE},
                                            {"page-size", required_argument, NULL, OPT_PAGE_SIZE},
                                            {"requests", required_argument, NULL, OPT_REQUESTS},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            {"help", no_argument, NULL, CLI_OPT_HELP},
                                            {0}};
    int status = cli_take_options(wish->self, argc, argv, options, take_option, wish);
    if (status >= 0)
        return status;
    if (wish->shape && optind < argc)
        return cli_bad_usage(wish->self, "--shape takes the place of a file: %s", argv[optind]);
    if (!wish->shape)
        wish->path = cli_operand(wish->self, argc, argv, "MODEL, or --shape NAME");
    return wish->shape || wish->path ? -1 : CLI_USAGE;
}

// --- operators --------------------------------------------------------------------------------------------

static int print_operator(const request *wish, const analyse_operator *work)
{
    const analyse_question *q = &wish->question;
    double us = analyse_seconds(work, q) * 1e6;
    if (wish->json)
        return cli_print_json(
            wish->self,
            json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "what",
                      "operator", "name", work->name, "formats", work->formats, "count",
                      work->count, "rows", (json_int_t)work->rows, "cols", (json_int_t)work->cols,
                      "weight_bytes", (json_int_t)work->weight_bytes, "kv_bytes",
                      (json_int_t)work->kv_bytes, "activation_bytes",
                      (json_int_t)work->activation_bytes, "flops", (json_int_t)work->flops,
                      "flops_per_byte", analyse_intensity(work), "us", us));
    char shape[32] = "";
    if (work->rows)
        snprintf(shape, sizeof shape, "%lld x %lld", (long long)work->rows, (long long)work->cols);
    printf("  %-14s %5d  %-16s %-12s %10.3f %12.3f %8.2f %10.1f\n", work->name, work->count, shape,
           work->formats, analyse_bytes(work) * 1e-6, work->flops * 1e-6, analyse_intensity(work),
           us);
    return CLI_DONE;
}

static int print_step(const request *wish, const engine_model *model)
{
    const analyse_question *q = &wish->question;
    analyse_step step = analyse_decode(model, q);
    int status = CLI_DONE;
    if (!wish->json)
        printf("one token of %d sequence%s behind %d tokens, at %.0f GB/s\n\n"
               "  %-14s %5s  %-16s %-12s %10s %12s %8s %10s\n",
               q->batch, q->batch == 1 ? "" : "s", q->context, q->gbps, "operator", "count",
               "rows x cols", "formats", "MB", "Mop", "op/byte", "us");
    for (int32_t i = 0; i < step.count && status == CLI_DONE; i++)
        status = print_operator(wish, &step.operators[i]);
    if (status == CLI_DONE)
        status = print_operator(wish, &step.total);
    double tokens = q->batch / analyse_seconds(&step.total, q);
    if (status != CLI_DONE || wish->json)
        return status != CLI_DONE
                   ? status
                   : cli_print_json(wish->self, json_pack("{s:s, s:f}", "what", "bound",
                                                          "tokens_per_second", tokens));
    printf("\n  at most %.1f tokens a second", tokens);
    if (q->gflops > 0)
        printf("; the ridge of the roofline is at %.1f operations a byte", q->gflops / q->gbps);
    printf("\n\n");
    return CLI_DONE;
}

// --- memory and pages -------------------------------------------------------------------------------------

static int print_attention(const request *wish, const engine_model_info *info)
{
    const analyse_question *q = &wish->question;
    analyse_attention a =
        analyse_attention_memory(info, q->prompt, wish->tile[0], wish->tile[1], 2);
    int32_t passes = (q->prompt + q->chunk - 1) / q->chunk;
    if (wish->json)
        return cli_print_json(
            wish->self,
            json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
                      "s:I}",
                      "what", "attention", "tokens", q->prompt, "naive_scores",
                      (json_int_t)a.naive_scores, "naive_probabilities",
                      (json_int_t)a.naive_probabilities, "naive_output", (json_int_t)a.naive_output,
                      "naive_bytes", (json_int_t)analyse_naive_bytes(&a), "tile_q",
                      (json_int_t)a.tile_q, "tile_k", (json_int_t)a.tile_k, "tile_v",
                      (json_int_t)a.tile_v, "tile_scores", (json_int_t)a.tile_scores, "tile_output",
                      (json_int_t)a.tile_output, "tile_statistics", (json_int_t)a.tile_statistics,
                      "tile_bytes", (json_int_t)analyse_tile_bytes(&a), "flash_statistics",
                      (json_int_t)a.flash_statistics, "runs_per_token", (json_int_t)info->layers,
                      "runs_per_prompt", (json_int_t)info->layers * passes));
    printf("attention of a prompt of %d tokens, one layer of %d heads of %d\n\n", q->prompt,
           info->q_heads, info->head_dim);
    printf("  naive   scores %lld + probabilities %lld + output %lld = %lld bytes\n",
           (long long)a.naive_scores, (long long)a.naive_probabilities, (long long)a.naive_output,
           (long long)analyse_naive_bytes(&a));
    printf("  flash   a tile of %d queries and %d keys: Q %lld + K %lld + V %lld + scores %lld + "
           "output %lld +\n          statistics %lld = %lld bytes; beside the output %lld bytes of "
           "statistics\n",
           wish->tile[0], wish->tile[1], (long long)a.tile_q, (long long)a.tile_k,
           (long long)a.tile_v, (long long)a.tile_scores, (long long)a.tile_output,
           (long long)a.tile_statistics, (long long)analyse_tile_bytes(&a),
           (long long)a.flash_statistics);
    printf("  runs    %d a token, %d for 64 tokens, %d for the prompt in %d pass%s\n\n",
           info->layers, 64 * info->layers, info->layers * passes, passes, passes == 1 ? "" : "es");
    return CLI_DONE;
}

static int print_cache(const request *wish, const engine_model_info *info)
{
    const analyse_question *q = &wish->question;
    int64_t token = analyse_kv_bytes(info, q->kv_dtype);
    if (token < 0)
        return cli_failed(wish->self, "heads of %d are no whole number of %s blocks",
                          info->head_dim, weft_dtype_name(q->kv_dtype));
    double context = (double)token * q->context, ms = context / (q->gbps * 1e6);
    if (wish->json)
        return cli_print_json(
            wish->self, json_pack("{s:s, s:s, s:I, s:I, s:I, s:f}", "what", "cache", "kv_dtype",
                                  weft_dtype_name(q->kv_dtype), "bytes_per_token_and_layer",
                                  (json_int_t)(token / info->layers), "bytes_per_token",
                                  (json_int_t)token, "bytes", (json_int_t)context, "read_ms", ms));
    printf("KV cache in %s: %lld bytes a token and layer, %lld a token, %.1f MB for %d tokens, "
           "read in "
           "%.2f ms\n\n",
           weft_dtype_name(q->kv_dtype), (long long)(token / info->layers), (long long)token,
           context * 1e-6, q->context, ms);
    return CLI_DONE;
}

static int print_pages(const request *wish)
{
    if (!wish->json)
        printf("%d request%s with %d tokens in common\n\n  %9s %8s %8s %8s %8s %8s\n",
               wish->own_count, wish->own_count == 1 ? "" : "s", wish->prefix, "page size", "alone",
               "used", "shared", "wasted", "%");
    for (int32_t i = 0; i < wish->page_size_count; i++) {
        analyse_pages p =
            analyse_requests(wish->page_sizes[i], wish->prefix, wish->own, wish->own_count);
        if (!wish->json) {
            printf("  %9d %8lld %8lld %8lld %8lld %8.2f\n", p.page_size, (long long)p.alone,
                   (long long)p.used, (long long)p.shared, (long long)p.wasted_slots,
                   p.wasted_percent);
            continue;
        }
        int status = cli_print_json(
            wish->self,
            json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:f}", "what", "pages", "page_size",
                      p.page_size, "alone", (json_int_t)p.alone, "used", (json_int_t)p.used,
                      "shared", (json_int_t)p.shared, "wasted_slots", (json_int_t)p.wasted_slots,
                      "wasted_percent", p.wasted_percent));
        if (status != CLI_DONE)
            return status;
    }
    return CLI_DONE;
}

static int analyse_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.self = self,
                    .format = "q4_0",
                    .question = {.context = 4096,
                                 .batch = 1,
                                 .prompt = 2048,
                                 .chunk = 512,
                                 .kv_dtype = WEFT_F16,
                                 .gbps = 200},
                    .tile = {64, 64},
                    .page_sizes = {16, 64, 128},
                    .page_size_count = 3,
                    .prefix = 64,
                    .own = {1, 1},
                    .own_count = 2};
    engine_error err = {""};
    engine_model_info info;
    int status = parse(&wish, argc, argv);
    if (status >= 0)
        return status;
    engine_model *model = wish.shape ? engine_model_outline(wish.shape, wish.format, &err)
                                     : engine_model_open(wish.path, &err);
    if (!model)
        return cli_failed(self, "%s", err.text);
    engine_model_describe(model, &info);
    if (analyse_kv_bytes(&info, wish.question.kv_dtype) >= 0)
        status = print_step(&wish, model);
    if (status <= CLI_DONE)
        status = print_cache(&wish, &info);
    if (status == CLI_DONE)
        status = print_attention(&wish, &info);
    if (status == CLI_DONE)
        status = print_pages(&wish);
    engine_model_close(model);
    return status;
}

const cli_command cli_analyse = {
    "analyse", "bytes, operations and bounds of a model", {help}, analyse_main};
