// SPDX-License-Identifier: MIT
// What every operation refuses alike: no place for a plan, structs that lie about themselves, strides
// that are no strides, buffers that are not aligned. Each time with a text, and nothing is written.
#include "tests/support/context_fixture.h"

enum { FLOATS = 1024, MEMBERS = 3 };

static float in[FLOATS], out[FLOATS], also_out[FLOATS];
static int32_t numbers[64], tokens[4];
static weft_sample_params params[4];
static _Alignas(64) unsigned char workspace[1 << 16], rounded[1 << 12];

typedef weft_status plan_fn(weft_context *, const void *desc, weft_plan **);
typedef weft_status run_fn(const weft_plan *, const void *args);

// A sound problem, and where its arguments keep strides and addresses.
struct operation {
    const char *name;
    plan_fn *plan;
    run_fn *run;
    void *desc, *args;
    size_t desc_bytes, args_bytes;
    size_t strides[MEMBERS], pointers[MEMBERS]; // offsets, 0 past the last
};

// Functions that differ in the type of a pointer only are called through shims of one type.
#define SHIM(op)                                                                                   \
    static weft_status plan_##op(weft_context *context, const void *desc, weft_plan **plan)        \
    {                                                                                              \
        return weft_##op##_plan(context, desc, plan);                                              \
    }                                                                                              \
    static weft_status run_##op(const weft_plan *plan, const void *args)                           \
    {                                                                                              \
        return weft_##op##_run(plan, args);                                                        \
    }
SHIM(linear)
SHIM(round)
SHIM(norm)
SHIM(rope)
SHIM(activation)
SHIM(softmax)
SHIM(merge)
SHIM(embedding)
SHIM(sample)
SHIM(kv_append)

enum { MOST_BYTES = 1024 }; // of a descriptor or of arguments

static weft_linear_desc linear_desc = {
    .size = sizeof linear_desc, .weight_dtype = WEFT_F32, .rows = 4, .cols = 8, .max_batch = 2};
static weft_linear_args linear_args = {
    .size = sizeof linear_args, .batch = 2, .weight = in, .x = in, .y = out};
static weft_round_desc round_desc = {.size = sizeof round_desc, .cols = 32, .max_rows = 2};
static weft_round_args round_args = {
    .size = sizeof round_args, .rows = 2, .x = in, .rounded = rounded};
static weft_norm_desc norm_desc = {.size = sizeof norm_desc, .dim = 8, .max_rows = 2};
static weft_norm_args norm_args = {.size = sizeof norm_args, .rows = 2, .x = in, .y = out};
static weft_rope_desc rope_desc = {
    .size = sizeof rope_desc, .num_heads = 1, .head_dim = 8, .max_tokens = 2};
static weft_rope_args rope_args = {
    .size = sizeof rope_args, .tokens = 2, .x = out, .positions = numbers};
static weft_activation_desc activation_desc = {
    .size = sizeof activation_desc, .dim = 8, .max_rows = 2};
static weft_activation_args activation_args = {
    .size = sizeof activation_args, .rows = 2, .x = in, .up = in, .y = out};
static weft_softmax_desc softmax_desc = {.size = sizeof softmax_desc, .dim = 8, .max_rows = 2};
static weft_softmax_args softmax_args = {.size = sizeof softmax_args, .rows = 2, .x = out};
static weft_merge_desc merge_desc = {
    .size = sizeof merge_desc, .num_heads = 1, .dim = 8, .max_tokens = 2};
static weft_merge_args merge_args = {
    .size = sizeof merge_args, .tokens = 2, .num_states = 1, .x = in, .lse = in, .out = out};
static weft_embedding_desc embedding_desc = {
    .size = sizeof embedding_desc, .table_dtype = WEFT_F16, .rows = 4, .dim = 8, .max_tokens = 2};
static weft_embedding_args embedding_args = {
    .size = sizeof embedding_args, .tokens = 2, .table = in, .ids = numbers, .y = out};
static weft_sample_desc sample_desc = {.size = sizeof sample_desc, .vocab = 8, .max_rows = 2};
static weft_sample_args sample_args = {.size = sizeof sample_args,
                                       .rows = 2,
                                       .logits = in,
                                       .params = params,
                                       .tokens = tokens,
                                       .logprobs = out,
                                       .workspace = workspace,
                                       .workspace_bytes = sizeof workspace};
static weft_kv_append_desc kv_append_desc = {
    .size = sizeof kv_append_desc,
    .max_tokens = 2,
    .layout = {.dtype = WEFT_F32, .num_kv_heads = 1, .head_dim = 8, .page_size = 4}};
static weft_kv_append_args kv_append_args = {
    .size = sizeof kv_append_args,
    .tokens = 2,
    .pool = {.k.data = out, .v.data = also_out, .num_pages = 2},
    .k = in,
    .v = in,
    .slots = numbers};

#define AT(op, member) offsetof(weft_##op##_args, member)
#define OPERATION(op, ...)                                                                         \
    {                                                                                              \
#op, plan_##op, run_##op, &op##_desc, &op##_args, sizeof op##_desc, sizeof op##_args,      \
            __VA_ARGS__                                                                            \
    }

static const struct operation operations[] = {
    OPERATION(linear, {AT(linear, weight_stride_bytes), AT(linear, x_stride), AT(linear, y_stride)},
              {AT(linear, weight), AT(linear, x), AT(linear, y)}),
    OPERATION(round, {AT(round, x_stride)}, {AT(round, x), AT(round, rounded)}),
    OPERATION(norm, {AT(norm, x_stride), AT(norm, y_stride), AT(norm, residual_stride)},
              {AT(norm, x), AT(norm, y)}),
    OPERATION(rope, {AT(rope, token_stride)}, {AT(rope, x), AT(rope, positions)}),
    OPERATION(activation,
              {AT(activation, x_stride), AT(activation, up_stride), AT(activation, y_stride)},
              {AT(activation, x), AT(activation, up), AT(activation, y)}),
    OPERATION(softmax, {AT(softmax, x_stride)}, {AT(softmax, x)}),
    OPERATION(merge, {AT(merge, x_token_stride), AT(merge, out_token_stride)},
              {AT(merge, x), AT(merge, lse), AT(merge, out)}),
    OPERATION(embedding, {AT(embedding, table_stride_bytes), AT(embedding, y_stride)},
              {AT(embedding, table), AT(embedding, ids), AT(embedding, y)}),
    OPERATION(sample, {AT(sample, logits_stride)},
              {AT(sample, logits), AT(sample, params), AT(sample, tokens)}),
    OPERATION(kv_append, {AT(kv_append, k_token_stride), AT(kv_append, v_token_stride)},
              {AT(kv_append, k), AT(kv_append, v), AT(kv_append, slots)}),
};

enum { OPERATIONS = sizeof operations / sizeof *operations };

static int set_out(void **state)
{
    for (int i = 0; i < FLOATS; i++)
        out[i] = also_out[i] = 7;
    for (int i = 0; i < 4; i++)
        tokens[i] = 7;
    for (int i = 0; i < 64; i++)
        numbers[i] = i % 4;
    return open_context(state);
}

// Refused with words, and every result as it was.
static void refuses(weft_context *context, const struct operation *op, const weft_plan *plan,
                    const void *args, const char *words)
{
    weft_status status = op->run(plan, args);
    if (status != WEFT_EINVAL || !strstr(weft_error_text(context), words))
        fail_msg("%s: status %d, '%s' does not say '%s'", op->name, status,
                 weft_error_text(context), words);
    for (int i = 0; i < FLOATS; i++)
        assert_true(out[i] == 7 && also_out[i] == 7);
    for (int i = 0; i < 4; i++)
        assert_int_equal(tokens[i], 7);
}

// The arguments with one member exchanged.
static void refuses_member(weft_context *context, const struct operation *op, const weft_plan *plan,
                           size_t offset, int64_t value, const char *words)
{
    _Alignas(8) unsigned char args[MOST_BYTES];
    memcpy(args, op->args, op->args_bytes);
    memcpy(args + offset, &value, sizeof value);
    refuses(context, op, plan, args, words);
}

static void refuses_strides_and_addresses(void **state)
{
    static const int64_t bad[] = {-1, 1, INT64_MIN, INT64_MAX, INT64_MAX / 2, INT64_MAX / 16};
    for (int n = 0; n < OPERATIONS; n++) {
        const struct operation *op = &operations[n];
        weft_plan *plan;
        assert_int_equal(op->plan(*state, op->desc, &plan), WEFT_OK);
        for (int i = 0; i < MEMBERS && op->strides[i]; i++)
            for (size_t v = 0; v < sizeof bad / sizeof *bad; v++)
                refuses_member(*state, op, plan, op->strides[i], bad[v], "stride");
        for (int i = 0; i < MEMBERS && op->pointers[i]; i++) {
            int64_t address;
            memcpy(&address, (char *)op->args + op->pointers[i], sizeof address);
            refuses_member(*state, op, plan, op->pointers[i], address + 1, "aligned");
            bool optional = (op->run == run_activation && op->pointers[i] == AT(activation, up)) ||
                            (op->run == run_kv_append && op->pointers[i] == AT(kv_append, v));
            if (!optional)
                refuses_member(*state, op, plan, op->pointers[i], 0, "NULL");
        }
        weft_plan_destroy(plan);
    }
}

static void refuses_structs(void **state)
{
    for (int n = 0; n < OPERATIONS; n++) {
        const struct operation *op = &operations[n];
        weft_plan *plan, *none = NULL;
        _Alignas(8) unsigned char copy[MOST_BYTES + 8] = {0};
        assert_int_equal(op->plan(*state, op->desc, &plan), WEFT_OK);
        assert_refused(*state, op->plan(*state, op->desc, NULL), WEFT_EINVAL, "out is NULL");
        assert_refused(*state, op->plan(*state, NULL, &none), WEFT_EINVAL, "descriptor is NULL");
        memcpy(copy, op->desc, op->desc_bytes);
        copy[op->desc_bytes - 1] = 1; // of the reserved tail
        assert_refused(*state, op->plan(*state, copy, &none), WEFT_EINVAL, "unknown");
        assert_null(none);
        refuses(*state, op, plan, NULL, "args is NULL");
        memcpy(copy, op->args, op->args_bytes);
        copy[op->args_bytes - 1] = 1;
        refuses(*state, op, plan, copy, "unknown");
        memcpy(copy, (const uint32_t[]){4}, 4); // no struct is as small as that
        refuses(*state, op, plan, copy, "size");
        weft_plan_destroy(plan);
    }
    weft_probe_args probe = {.size = sizeof probe, .kind = WEFT_PROBE_FMA_F32, .steps = 1};
    weft_probe_result result;
    assert_refused(*state, weft_probe_run(*state, &probe, NULL), WEFT_EINVAL, "out is NULL");
    probe.reserved[7] = 1;
    assert_refused(*state, weft_probe_run(*state, &probe, &result), WEFT_EINVAL, "unknown");
}

static void refuses_sizes_beyond_memory(void **state)
{
    weft_plan *plan = NULL;
    weft_linear_desc linear = {
        .size = sizeof linear, .weight_dtype = WEFT_F32, .rows = 1, .cols = INT64_MAX};
    assert_refused(*state, weft_linear_plan(*state, &linear, &plan), WEFT_EOVERFLOW, "W");
    linear.cols = 1 << 20;
    linear.rows = INT64_MAX / 8;
    assert_refused(*state, weft_linear_plan(*state, &linear, &plan), WEFT_EOVERFLOW, "W");
    weft_embedding_desc embedding = {
        .size = sizeof embedding, .table_dtype = WEFT_Q8_0, .rows = INT64_MAX / 8, .dim = 32};
    assert_refused(*state, weft_embedding_plan(*state, &embedding, &plan), WEFT_EOVERFLOW, "table");
    assert_null(plan);
}

// Questions that have an answer without a context or a plan.
static void answers_about_nothing(void **state)
{
    const char *reason = NULL;
    (void)state;
    assert_string_equal(weft_context_isa(NULL), "");
    assert_int_equal(weft_context_threads(NULL), 0);
    assert_false(weft_linear_supported(NULL, &linear_desc, &reason));
    assert_string_equal(reason, "context is NULL");
    assert_false(weft_kernel_at(NULL, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_strides_and_addresses),
        cmocka_unit_test(refuses_structs),
        cmocka_unit_test(refuses_sizes_beyond_memory),
        cmocka_unit_test(answers_about_nothing),
    };
    return cmocka_run_group_tests(tests, set_out, close_context);
}
