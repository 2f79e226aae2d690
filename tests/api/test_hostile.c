// SPDX-License-Identifier: MIT
// What every operation refuses alike: no place for a plan, structs that lie about themselves, strides
// that are no strides, buffers that are not aligned. Each time with a text, and nothing is written.
#include "tests/support/context_fixture.h"

enum { FLOATS = 1024, MEMBERS = 9 };

static float in[FLOATS], out[FLOATS], also_out[FLOATS];
static int32_t numbers[64], tokens[4], each_one[] = {0, 1, 2};
static weft_sample_params params[4];
static _Alignas(64) unsigned char workspace[1 << 17], rounded[1 << 12];

typedef weft_status make_fn(weft_context *, const void *desc, void **made);
typedef weft_status run_fn(void *made, const void *args);
typedef void unmake_fn(void *made);

// A sound problem, and where its arguments keep strides, addresses and numbers.
struct operation {
    const char *name;
    make_fn *make; // a plan, or whatever takes arguments like one
    run_fn *run;
    unmake_fn *unmake;
    void *desc, *args;
    size_t desc_bytes, args_bytes;
    size_t addresses[2];                        // in the descriptor
    size_t strides[MEMBERS], pointers[MEMBERS]; // offsets, 0 past the last
    size_t loose_strides[MEMBERS];              // those that may be shorter than a row
    size_t optional[MEMBERS];                   // pointers that may be NULL
    size_t stream;                              // 0: there is none
};

// Functions that differ in the type of a pointer only are called through shims of one type.
#define SHIMS(op, object, create, start, destroy)                                                  \
    static weft_status make_##op(weft_context *context, const void *desc, void **made)             \
    {                                                                                              \
        return create(context, desc, (object **)(void *)made);                                     \
    }                                                                                              \
    static weft_status run_##op(void *made, const void *args)                                      \
    {                                                                                              \
        return start(made, args);                                                                  \
    }                                                                                              \
    static void unmake_##op(void *made)                                                            \
    {                                                                                              \
        destroy(made);                                                                             \
    }
#define SHIM(op) SHIMS(op, weft_plan, weft_##op##_plan, weft_##op##_run, weft_plan_destroy)
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
SHIM(pages)
SHIM(attention)
SHIMS(batch, weft_batch, weft_batch_create, weft_batch_set, weft_batch_destroy)

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
static weft_pages_desc pages_desc = {
    .size = sizeof pages_desc,
    .max_pairs = 2,
    .layout = {.dtype = WEFT_F32, .num_kv_heads = 1, .head_dim = 8, .page_size = 4}};
static weft_pages_args pages_args = {.size = sizeof pages_args,
                                     .count = 2,
                                     .from = {.k.data = in, .v.data = in + 128, .num_pages = 4},
                                     .to = {.k.data = out, .v.data = also_out, .num_pages = 4},
                                     .from_pages = numbers,
                                     .to_pages = numbers};

static weft_attention_desc attention_desc = {
    .size = sizeof attention_desc,
    .kv = {.dtype = WEFT_F32, .num_kv_heads = 1, .head_dim = 8, .page_size = 4},
    .num_q_heads = 2,
    .max_seqs = 2,
    .max_kv_len = 8};
static weft_attention_args attention_args = {.size = sizeof attention_args,
                                             .num_seqs = 2,
                                             .q = in,
                                             .out = out,
                                             .lse = also_out,
                                             .pool = {.k.data = in, .v.data = in, .num_pages = 4},
                                             .cu_q_lens = each_one,
                                             .kv_lens = each_one + 1,
                                             .page_table = numbers,
                                             .page_table_stride = 2,
                                             .workspace = workspace,
                                             .workspace_bytes = sizeof workspace};
static weft_batch_desc batch_desc = {
    .size = sizeof batch_desc, .max_seqs = 2, .max_kv_len = 8, .page_size = 4};
static weft_batch_args batch_args = {.size = sizeof batch_args,
                                     .num_seqs = 2,
                                     .cu_q_lens = each_one,
                                     .kv_lens = each_one + 1,
                                     .page_table = numbers,
                                     .page_table_stride = 2,
                                     .num_pages = 4};

#define AT(op, member) offsetof(weft_##op##_args, member)
#define OPERATION(op, ...)                                                                         \
    {                                                                                              \
#op, make_##op, run_##op, unmake_##op, &op##_desc, &op##_args, sizeof op##_desc,           \
            sizeof op##_args, __VA_ARGS__                                                          \
    }
#define VARIANT(op) offsetof(weft_##op##_desc, variant)

static const struct operation operations[] = {
    OPERATION(linear, {VARIANT(linear)},
              {AT(linear, weight_stride_bytes), AT(linear, x_stride), AT(linear, y_stride)},
              {AT(linear, weight), AT(linear, x), AT(linear, y)}, .stream = AT(linear, stream)),
    OPERATION(round, {VARIANT(round)}, {AT(round, x_stride)}, {AT(round, x), AT(round, rounded)},
              .stream = AT(round, stream)),
    OPERATION(norm, {VARIANT(norm)},
              {AT(norm, x_stride), AT(norm, y_stride), AT(norm, residual_stride)},
              {AT(norm, x), AT(norm, y)}, .stream = AT(norm, stream)),
    OPERATION(rope, {VARIANT(rope), offsetof(weft_rope_desc, rope.freq_factors)},
              {AT(rope, token_stride)}, {AT(rope, x), AT(rope, positions)},
              .stream = AT(rope, stream)),
    OPERATION(activation, {VARIANT(activation)},
              {AT(activation, x_stride), AT(activation, up_stride), AT(activation, y_stride)},
              {AT(activation, x), AT(activation, up), AT(activation, y)},
              .optional = {AT(activation, up)}, .stream = AT(activation, stream)),
    OPERATION(softmax, {VARIANT(softmax)}, {AT(softmax, x_stride)}, {AT(softmax, x)},
              .stream = AT(softmax, stream)),
    OPERATION(merge, {VARIANT(merge)}, {AT(merge, x_token_stride), AT(merge, out_token_stride)},
              {AT(merge, x), AT(merge, lse), AT(merge, out)}, .stream = AT(merge, stream)),
    OPERATION(embedding, {VARIANT(embedding)},
              {AT(embedding, table_stride_bytes), AT(embedding, y_stride)},
              {AT(embedding, table), AT(embedding, ids), AT(embedding, y)},
              .stream = AT(embedding, stream)),
    OPERATION(sample, {VARIANT(sample)}, {AT(sample, logits_stride)},
              {AT(sample, logits), AT(sample, params), AT(sample, tokens)},
              .stream = AT(sample, stream)),
    OPERATION(kv_append, {VARIANT(kv_append), offsetof(weft_kv_append_desc, rope)},
              {AT(kv_append, k_token_stride), AT(kv_append, v_token_stride),
               AT(kv_append, pool.k.page_stride), AT(kv_append, pool.v.token_stride)},
              {AT(kv_append, k), AT(kv_append, v), AT(kv_append, slots), AT(kv_append, pool.k.data),
               AT(kv_append, pool.v.data)},
              .optional = {AT(kv_append, v), AT(kv_append, pool.v.data)},
              .stream = AT(kv_append, stream)),
    OPERATION(
        pages, {VARIANT(pages)},
        {AT(pages, from.k.page_stride), AT(pages, to.k.token_stride), AT(pages, to.v.page_stride)},
        {AT(pages, from_pages), AT(pages, to_pages), AT(pages, from.k.data), AT(pages, from.v.data),
         AT(pages, to.k.data), AT(pages, to.v.data)},
        .stream = AT(pages, stream)),
    OPERATION(attention, {VARIANT(attention), offsetof(weft_attention_desc, report)},
              {AT(attention, q_token_stride), AT(attention, q_head_stride),
               AT(attention, out_token_stride), AT(attention, out_head_stride),
               AT(attention, pool.k.token_stride), AT(attention, pool.v.page_stride)},
              {AT(attention, q), AT(attention, out), AT(attention, lse), AT(attention, pool.k.data),
               AT(attention, pool.v.data), AT(attention, cu_q_lens), AT(attention, kv_lens),
               AT(attention, page_table)},
              .loose_strides = {AT(attention, page_table_stride)}, .optional = {AT(attention, lse)},
              .stream = AT(attention, stream)),
    OPERATION(batch, {offsetof(weft_batch_desc, plans)}, {0},
              {AT(batch, cu_q_lens), AT(batch, kv_lens), AT(batch, page_table)},
              .loose_strides = {AT(batch, page_table_stride)}, .stream = AT(batch, stream)),
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
static void refuses(weft_context *context, const struct operation *op, void *made, const void *args,
                    const char *words)
{
    weft_status status = op->run(made, args);
    if (status != WEFT_EINVAL || !strstr(weft_error_text(context), words))
        fail_msg("%s: status %d, '%s' does not say '%s'", op->name, status,
                 weft_error_text(context), words);
    for (int i = 0; i < FLOATS; i++)
        assert_true(out[i] == 7 && also_out[i] == 7);
    for (int i = 0; i < 4; i++)
        assert_int_equal(tokens[i], 7);
}

// The arguments with one member exchanged.
static void refuses_member(weft_context *context, const struct operation *op, void *made,
                           size_t offset, int64_t value, const char *words)
{
    _Alignas(8) unsigned char args[MOST_BYTES];
    memcpy(args, op->args, op->args_bytes);
    memcpy(args + offset, &value, sizeof value);
    refuses(context, op, made, args, words);
}

static bool listed(const size_t *offsets, size_t offset)
{
    for (int i = 0; i < MEMBERS && offsets[i]; i++)
        if (offsets[i] == offset)
            return true;
    return false;
}

// The text of a plane's stride that is too long says so with its extent.
static void refuses_stride(weft_context *context, const struct operation *op, void *made,
                           size_t offset, int64_t value)
{
    _Alignas(8) unsigned char args[MOST_BYTES];
    memcpy(args, op->args, op->args_bytes);
    memcpy(args + offset, &value, sizeof value);
    weft_status status = op->run(made, args);
    if (status != WEFT_EINVAL && status != WEFT_EOVERFLOW)
        fail_msg("%s: a stride of %lld at %zu is taken", op->name, (long long)value, offset);
    if (!strstr(weft_error_text(context), "stride") && !strstr(weft_error_text(context), "extent"))
        fail_msg("%s: '%s' is not about a stride", op->name, weft_error_text(context));
}

static void refuses_strides_and_addresses(void **state)
{
    static const int64_t bad[] = {1, -1, INT64_MIN, INT64_MAX, INT64_MAX / 2, INT64_MAX / 16};
    for (int n = 0; n < OPERATIONS; n++) {
        const struct operation *op = &operations[n];
        void *made;
        assert_int_equal(op->make(*state, op->desc, &made), WEFT_OK);
        for (size_t v = 0; v < sizeof bad / sizeof *bad; v++) {
            for (int i = 0; i < MEMBERS && op->strides[i]; i++)
                refuses_stride(*state, op, made, op->strides[i], bad[v]);
            for (int i = 0; i < MEMBERS && op->loose_strides[i] && v > 0; i++)
                refuses_stride(*state, op, made, op->loose_strides[i], bad[v]);
        }
        for (int i = 0; i < MEMBERS && op->pointers[i]; i++) {
            int64_t address;
            memcpy(&address, (char *)op->args + op->pointers[i], sizeof address);
            refuses_member(*state, op, made, op->pointers[i], address + 1, "aligned");
            if (!listed(op->optional, op->pointers[i]))
                refuses_member(*state, op, made, op->pointers[i], 0, "NULL");
        }
        op->unmake(made);
    }
}

static void refuses_streams_of_strangers(void **state)
{
    weft_context *other;
    weft_stream *stream;
    assert_int_equal(weft_context_create(NULL, &other), WEFT_OK);
    assert_int_equal(weft_stream_create(other, &stream), WEFT_OK);
    for (int n = 0; n < OPERATIONS; n++) {
        const struct operation *op = &operations[n];
        void *made;
        assert_int_equal(op->make(*state, op->desc, &made), WEFT_OK);
        refuses_member(*state, op, made, op->stream, (int64_t)(intptr_t)stream, "another context");
        op->unmake(made);
    }
    weft_batch *batch;
    assert_int_equal(weft_batch_create(*state, &batch_desc, &batch), WEFT_OK);
    assert_refused(*state, weft_batch_advance(batch, NULL), WEFT_EINVAL, "set it");
    assert_int_equal(weft_batch_set(batch, &batch_args), WEFT_OK);
    assert_refused(*state, weft_batch_advance(batch, stream), WEFT_EINVAL, "another context");
    weft_batch_destroy(batch);
    weft_stream_destroy(stream);
    weft_context_destroy(other);
}

static void *allocate_little(void *user, size_t bytes)
{
    (void)user;
    return bytes <= 1 << 22 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
}

static void release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

// Each 32 bits of a descriptor that are no address, one after the other, replaced by numbers that break sums
// and sizes: there is an object, or there are words why not.
static void every_number_may_be_anything(void **state)
{
    static const int32_t values[] = {-1, INT32_MIN, INT32_MAX, 1 << 30, 3, 0x7fc00000};
    const weft_allocator allocator = {.allocate = allocate_little, .release = release};
    const weft_context_desc context_desc = {.size = sizeof context_desc, .allocator = &allocator};
    weft_context *context;
    (void)state;
    assert_int_equal(weft_context_create(&context_desc, &context), WEFT_OK);
    for (int n = 0; n < OPERATIONS; n++)
        for (size_t at = 4; at < operations[n].desc_bytes; at += 4)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                const struct operation *op = &operations[n];
                _Alignas(8) unsigned char desc[MOST_BYTES];
                void *made = NULL;
                if (at / 8 == op->addresses[0] / 8 || at / 8 == op->addresses[1] / 8)
                    continue;
                memcpy(desc, op->desc, op->desc_bytes);
                memcpy(desc + at, &values[v], sizeof values[v]);
                weft_status status = op->make(context, desc, &made);
                assert_true((status == WEFT_OK) == (made != NULL));
                assert_true(status == WEFT_OK || strlen(weft_error_text(context)) > 0);
                op->unmake(made);
            }
    weft_context_destroy(context);
}

static void refuses_structs(void **state)
{
    for (int n = 0; n < OPERATIONS; n++) {
        const struct operation *op = &operations[n];
        void *made, *none = NULL;
        _Alignas(8) unsigned char copy[MOST_BYTES + 8] = {0};
        assert_int_equal(op->make(*state, op->desc, &made), WEFT_OK);
        assert_refused(*state, op->make(*state, op->desc, NULL), WEFT_EINVAL, "out is NULL");
        assert_refused(*state, op->make(*state, NULL, &none), WEFT_EINVAL, "descriptor is NULL");
        memcpy(copy, op->desc, op->desc_bytes);
        copy[op->desc_bytes - 1] = 1; // of the reserved tail
        assert_refused(*state, op->make(*state, copy, &none), WEFT_EINVAL, "unknown");
        assert_null(none);
        refuses(*state, op, made, NULL, "args is NULL");
        memcpy(copy, op->args, op->args_bytes);
        copy[op->args_bytes - 1] = 1;
        refuses(*state, op, made, copy, "unknown");
        memcpy(copy, (const uint32_t[]){4}, 4); // no struct is as small as that
        refuses(*state, op, made, copy, "size");
        op->unmake(made);
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

typedef weft_status answer_fn(const void *about, void *info);
static weft_status describe_device(const void *about, void *info)
{
    (void)about;
    return weft_device_describe(WEFT_DEVICE_CPU, 0, info);
}
static weft_status describe_program(const void *about, void *info)
{
    return weft_program_describe(about, info);
}
static weft_status query_plan(const void *about, void *info)
{
    return weft_plan_query(about, info);
}
static weft_status count(const void *about, void *info)
{
    return weft_context_count((weft_context *)(uintptr_t)about, info);
}

// Structs that are answered into: as many bytes as the caller has, none of one that lies about its size.
static void answers_of_any_age(void **state)
{
    weft_program *program;
    weft_plan *plan;
    assert_int_equal(weft_program_begin(*state, &program), WEFT_OK);
    assert_int_equal(weft_program_end(program), WEFT_OK);
    assert_int_equal(weft_norm_plan(*state, &norm_desc, &plan), WEFT_OK);
    const struct {
        answer_fn *ask;
        const void *about;
        uint32_t bytes;
    } answers[] = {
        {describe_device, NULL, sizeof(weft_device_info)},
        {describe_program, program, sizeof(weft_program_info)},
        {query_plan, plan, sizeof(weft_plan_info)},
        {count, *state, sizeof(weft_counters)},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        static const uint32_t lies[] = {0, 4, 7, UINT32_MAX};
        _Alignas(8) unsigned char info[MOST_BYTES];
        assert_int_equal(answers[i].ask(answers[i].about, NULL), WEFT_EINVAL);
        for (size_t n = 0; n <= sizeof lies / sizeof *lies; n++) {
            uint32_t size = n < 4 ? lies[n] : answers[i].bytes + 8;
            memset(info, 0x5a, sizeof info);
            memcpy(info, &size, sizeof size);
            assert_int_equal(answers[i].ask(answers[i].about, info), WEFT_EINVAL);
            for (size_t at = sizeof size; at < sizeof info; at++)
                assert_int_equal(info[at], 0x5a);
        }
        for (uint32_t size = 8; size <= answers[i].bytes; size += 8) {
            memset(info, 0x5a, sizeof info);
            memcpy(info, &size, sizeof size);
            assert_int_equal(answers[i].ask(answers[i].about, info), WEFT_OK);
            for (size_t at = size; at < sizeof info; at++)
                assert_int_equal(info[at], 0x5a);
        }
    }
    weft_plan_destroy(plan);
    weft_program_destroy(program);
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
        cmocka_unit_test(refuses_streams_of_strangers),
        cmocka_unit_test(every_number_may_be_anything),
        cmocka_unit_test(refuses_sizes_beyond_memory),
        cmocka_unit_test(answers_of_any_age),
        cmocka_unit_test(answers_about_nothing),
    };
    return cmocka_run_group_tests(tests, set_out, close_context);
}
