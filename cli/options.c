// SPDX-License-Identifier: MIT
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

bool cli_int(const cli_command *self, const char *option, const char *text, int64_t low,
             int64_t high, int64_t *value)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (end == text || *end || errno || parsed < low || parsed > high) {
        cli_bad_usage(self, "%s must be a whole number from %lld to %lld, not '%s'", option,
                      (long long)low, (long long)high, text);
        return false;
    }
    *value = parsed;
    return true;
}

bool cli_int32(const cli_command *self, const char *option, const char *text, int32_t low,
               int32_t high, int32_t *value)
{
    int64_t wide;
    if (!cli_int(self, option, text, low, high, &wide))
        return false;
    *value = (int32_t)wide;
    return true;
}

bool cli_token_limit(const cli_command *self, const char *text, int32_t *value)
{
    if (!cli_int32(self, "-n", text, -1, INT32_MAX, value))
        return false;
    *value = *value < 0 ? 0 : *value;
    return true;
}

bool cli_float(const cli_command *self, const char *option, const char *text, float low, float high,
               float *value)
{
    char *end;
    float parsed = strtof(text, &end);
    if (end == text || *end || !isfinite(parsed) || parsed < low || parsed > high) {
        cli_bad_usage(self, "%s must be a number from %.9g to %.9g, not '%s'", option, (double)low,
                      (double)high, text);
        return false;
    }
    *value = parsed;
    return true;
}

enum { MOST_NAMES = 1024 };

static void append_dtypes(char known[MOST_NAMES])
{
    const char *name;
    for (int32_t n = 0; (name = weft_dtype_name(weft_dtype_at(n))); n++)
        snprintf(known + strlen(known), MOST_NAMES - strlen(known), " %s", name);
}

bool cli_dtype(const cli_command *self, const char *option, const char *text, weft_dtype *value)
{
    *value = weft_dtype_parse(text);
    if (*value != WEFT_DTYPE_NONE)
        return true;
    char known[MOST_NAMES] = "";
    append_dtypes(known);
    cli_bad_usage(self, "%s must be one of%s, not '%s'", option, known, text);
    return false;
}

bool cli_formats(const cli_command *self, const char *option, const char *text, const char **value)
{
    char known[MOST_NAMES] = "";
    const char *mix;
    *value = text;
    if (engine_main_format(text) != WEFT_DTYPE_NONE)
        return true;
    append_dtypes(known);
    for (int32_t n = 0; (mix = engine_mix_at(n)); n++)
        if (weft_dtype_parse(mix) == WEFT_DTYPE_NONE)
            snprintf(known + strlen(known), sizeof known - strlen(known), " %s", mix);
    cli_bad_usage(self, "%s must be one of%s, not '%s'", option, known, text);
    return false;
}

bool cli_ids(const cli_command *self, const char *option, const char *text, int32_t **ids,
             int32_t *count)
{
    size_t room = strlen(text) / 2 + 1;
    int32_t *list = malloc(room * sizeof *list);
    int32_t n = 0;
    for (const char *at = text; list && *at;) {
        char *end;
        errno = 0;
        long long id = strtoll(at, &end, 10);
        if (end == at || errno || id < 0 || id > INT32_MAX || (*end && *end != ',') ||
            (*end == ',' && !end[1])) {
            cli_bad_usage(self, "%s must be a list of token ids such as 1,2,3: '%.20s' is none",
                          option, at);
            free(list);
            return false;
        }
        list[n++] = (int32_t)id;
        at = *end ? end + 1 : end;
    }
    if (!list || n == 0) {
        free(list);
        cli_bad_usage(self, "%s must be a list of token ids such as 1,2,3", option);
        return false;
    }
    *ids = list;
    *count = n;
    return true;
}

const char *cli_operand(const cli_command *self, int argc, char **argv, const char *what)
{
    if (optind == argc - 1)
        return argv[optind];
    if (optind >= argc)
        cli_bad_usage(self, "%s is missing", what);
    else
        cli_bad_usage(self, "unexpected argument '%s'", argv[optind + 1]);
    return NULL;
}

int cli_take_model(const cli_command *self, int argc, char **argv, const struct option *options,
                   cli_take_fn *take, void *wish, const char **path)
{
    int status = cli_take_options(self, argc, argv, options, take, wish);
    if (status >= 0)
        return status;
    *path = cli_operand(self, argc, argv, "MODEL");
    return *path ? -1 : CLI_USAGE;
}

// cpu, cuda or cuda:N.
static bool parse_device(const cli_command *self, const char *value, engine_options *options)
{
    if (strncmp(value, "cuda:", 5) == 0) {
        options->device = WEFT_DEVICE_CUDA;
        return cli_int32(self, "the number in --device cuda:N", value + 5, 0, 1023,
                         &options->device_index);
    }
    options->device_index = 0;
    options->device = strcmp(value, "cuda") == 0 ? WEFT_DEVICE_CUDA : WEFT_DEVICE_CPU;
    if (options->device == WEFT_DEVICE_CUDA || strcmp(value, "cpu") == 0)
        return true;
    cli_bad_usage(self, "--device must be cpu, cuda or cuda:N, not '%s'", value);
    return false;
}

static bool parse_cache_format(const cli_command *self, const char *value, weft_dtype *dtype)
{
    *dtype = weft_dtype_parse(value);
    const weft_kv_layout layout = {
        .dtype = *dtype, .num_kv_heads = 1, .head_dim = 32, .page_size = 1};
    if (weft_kv_page_bytes(&layout) > 0)
        return true;
    cli_bad_usage(self,
                  "--kv-dtype must be f16, bf16, f32, int8, fp8_e4m3, fp8_e5m2, q8_0, q5_1, q5_0, "
                  "q4_1, q4_0 or iq4_nl, or two of them as K/V, not '%s'",
                  value);
    return false;
}

bool cli_kv_dtype(const cli_command *self, const char *value, engine_options *options)
{
    char keys[32];
    const char *slash = strchr(value, '/');
    options->v_dtype = WEFT_DTYPE_NONE;
    if (!slash)
        return parse_cache_format(self, value, &options->kv_dtype);
    snprintf(keys, sizeof keys, "%.*s", (int)(slash - value), value);
    return parse_cache_format(self, keys, &options->kv_dtype) &&
           parse_cache_format(self, slash + 1, &options->v_dtype);
}

// FILE or FILE=SCALE; a file's name may have a '=' too, if no number follows it. The name stays where argv has
// it, cut off.
static bool parse_adapter(const cli_command *self, char *value, engine_options *options)
{
    char *equals = strrchr(value, '='), *end = NULL;
    float scale = 1, number = equals ? strtof(equals + 1, &end) : 0;
    if (options->adapter_count == ENGINE_MAX_ADAPTERS) {
        cli_bad_usage(self, "--lora can be given %d times at most", ENGINE_MAX_ADAPTERS);
        return false;
    }
    if (equals && end != equals + 1 && *end == 0) {
        if (!isfinite(number)) {
            cli_bad_usage(self, "--lora FILE=SCALE needs a finite number, not '%s'", equals + 1);
            return false;
        }
        scale = number;
        *equals = 0;
    }
    options->adapters[options->adapter_count++] = (engine_adapter){value, scale};
    return true;
}

bool cli_model_option(const cli_command *self, int option, const char *value,
                      engine_options *options)
{
    switch (option) {
    case CLI_OPT_THREADS: return cli_int32(self, "--threads", value, 1, 1024, &options->threads);
    case CLI_OPT_DEVICE: return parse_device(self, value, options);
    case CLI_OPT_CTX: return cli_int32(self, "--ctx", value, 1, 1 << 27, &options->context_tokens);
    case CLI_OPT_CHUNK: return cli_int32(self, "--chunk", value, 1, 65536, &options->chunk_tokens);
    case CLI_OPT_KV_DTYPE: return cli_kv_dtype(self, value, options);
    case CLI_OPT_EXACT: options->exact = true; return true;
    case CLI_OPT_ATTENTION: options->attention = value; return true;
    case CLI_OPT_NO_MMAP: options->no_mmap = true; return true;
    case CLI_OPT_NO_PACK: options->no_pack = true; return true;
    case CLI_OPT_PACK_CACHE: options->pack_cache = value; return true;
    case CLI_OPT_LORA: return parse_adapter(self, optarg, options);
    default: return false;
    }
}
