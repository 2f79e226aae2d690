// SPDX-License-Identifier: MIT
#include <weft/batch.h>

#include "src/api/api_batch.h"
#include "src/api/api_seqs.h"
#include "src/base/checked.h"
#include "src/base/memory.h"
#include "src/kernels/kv/kv_device.h"

weft_status weft__api_take_batch(const weft_plan *plan, const weft_batch *batch, int64_t num_pages)
{
    const char *op = plan->context->backend->tables[plan->op]->op;
    if (batch->context != plan->context || weft__plan_batch_find(batch, plan) < 0)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "%s: the batch was not created for this plan: name it in desc.plans", op);
    if (num_pages < batch->num_pages)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "%s: the pool has %lld pages, the batch was set for %lld", op,
                          (long long)num_pages, (long long)batch->num_pages);
    return WEFT_OK;
}

// One plan of a batch: of this context, with bounds that hold the batch.
static weft_status check_plan(weft_context *context, const weft_batch_desc *desc, int32_t i,
                              int32_t *ring_len, bool *ring_known)
{
    const weft_plan *plan = desc->plans[i];
    if (!plan || plan->context != context ||
        (plan->op != WEFT__OP_attention && plan->op != WEFT__OP_kv))
        return weft__fail(context, WEFT_EINVAL,
                          "batch: plans[%d] is no plan of attention or append of this context", i);
    if (plan->op == WEFT__OP_kv) {
        const weft_kv_append_desc *append = plan->desc;
        if (append->max_tokens < desc->max_q_tokens || append->layout.page_size != desc->page_size)
            return weft__fail(context, WEFT_EINVAL,
                              "batch: plans[%d] appends %d tokens to pages of %d, the batch wants "
                              "%d and %d",
                              i, append->max_tokens, append->layout.page_size, desc->max_q_tokens,
                              desc->page_size);
        return WEFT_OK;
    }
    const weft_attention_desc *attention = plan->desc;
    if (attention->max_seqs < desc->max_seqs || attention->max_q_tokens < desc->max_q_tokens ||
        attention->max_kv_len < desc->max_kv_len || attention->kv.page_size != desc->page_size)
        return weft__fail(context, WEFT_EINVAL,
                          "batch: plans[%d] is of %d sequences, %d queries, %d keys, pages of %d: "
                          "too few for the batch's %d, %d, %d, or not its %d",
                          i, attention->max_seqs, attention->max_q_tokens, attention->max_kv_len,
                          attention->kv.page_size, desc->max_seqs, desc->max_q_tokens,
                          desc->max_kv_len, desc->page_size);
    if (*ring_known && attention->ring_len != *ring_len)
        return weft__fail(
            context, WEFT_EINVAL,
            "batch: plans[%d] has a ring of %d keys, another one %d: they need a batch "
            "each",
            i, attention->ring_len, *ring_len);
    *ring_len = attention->ring_len;
    *ring_known = true;
    return WEFT_OK;
}

// Plans and what they append by: those of attention may be two.
static int32_t count_plans(const weft_batch_desc *desc)
{
    int32_t count = desc->num_plans;
    for (int32_t i = 0; i < desc->num_plans; i++)
        count += desc->plans[i]->append != NULL;
    return count;
}

static void copy_plans(const weft_plan **to, const weft_batch_desc *desc)
{
    for (int32_t i = 0; i < desc->num_plans; i++) {
        *to++ = desc->plans[i];
        if (desc->plans[i]->append)
            *to++ = desc->plans[i]->append;
    }
}

static weft_status settle_desc(weft_context *context, weft_batch_desc *desc, int32_t *ring_len)
{
    bool ring_known = false;
    if (desc->max_seqs < 0 || desc->max_q_tokens < 0 || desc->max_kv_len < 0 ||
        desc->max_pages < 0 || desc->page_size < 1 || desc->num_plans < 0)
        return weft__fail(context, WEFT_EINVAL,
                          "batch: a bound is negative, or page_size is not positive");
    if (desc->num_plans > 0 && !desc->plans)
        return weft__fail(context, WEFT_EINVAL, "batch: %d plans, but plans is NULL",
                          desc->num_plans);
    desc->max_seqs = desc->max_seqs ? desc->max_seqs : 1;
    desc->max_q_tokens = desc->max_q_tokens ? desc->max_q_tokens : desc->max_seqs;
    for (int32_t i = 0; i < desc->num_plans; i++)
        WEFT__TRY(check_plan(context, desc, i, ring_len, &ring_known));
    if (desc->max_pages == 0) {
        int64_t pages = weft__ceil_div(desc->max_kv_len, desc->page_size) * desc->max_seqs;
        if (pages > INT32_MAX)
            return weft__fail(context, WEFT_EOVERFLOW,
                              "batch: max_seqs sequences of max_kv_len keys have more pages than "
                              "fit: give max_pages");
        desc->max_pages = (int32_t)pages;
    }
    return WEFT_OK;
}

// Gives the next `count` entries of the batch's memory away; NULL only adds them up.
static int32_t *take(unsigned char *memory, size_t *used, int64_t count)
{
    int32_t *taken = memory ? (int32_t *)(void *)(memory + *used) : NULL;
    *used += (size_t)count * sizeof *taken;
    return taken;
}

static size_t lay_out(weft_batch *batch, const weft_batch_desc *desc, unsigned char *memory)
{
    int64_t seqs = desc->max_seqs, tokens = desc->max_q_tokens;
    size_t used = (sizeof *batch + WEFT__ALIGN - 1) / WEFT__ALIGN * WEFT__ALIGN;
    if (memory)
        batch->plans = (const weft_plan *const *)(const void *)(memory + used);
    used += (size_t)desc->num_plans * sizeof *desc->plans;
    int32_t *arrays[] = {
        take(memory, &used, seqs + 1),
        take(memory, &used, seqs),
        take(memory, &used, seqs),
        take(memory, &used, seqs + 1),
        take(memory, &used, tokens),
        take(memory, &used, tokens),
        take(memory, &used, desc->max_pages),
        take(memory, &used, seqs),
    };
    if (memory) {
        batch->cu_q_lens = arrays[0];
        batch->kv_lens = arrays[1];
        batch->kv_capacities = arrays[2];
        batch->page_starts = arrays[3];
        batch->positions = arrays[4];
        batch->device_positions = arrays[4]; // other devices say otherwise when they open
        batch->slots = arrays[5];
        batch->pages = arrays[6];
        batch->kv_starts = arrays[7];
    }
    return used;
}

weft_status weft_batch_create(weft_context *context, const weft_batch_desc *user_desc,
                              weft_batch **out)
{
    weft_batch_desc desc = {0};
    int32_t ring_len = 0;
    if (!context)
        return WEFT_EINVAL;
    if (!out)
        return weft__fail(context, WEFT_EINVAL, "batch: no place for it: out is NULL");
    if (!weft__api_read(&desc, WEFT__KNOWN(&desc), user_desc))
        return weft__fail(context, WEFT_EINVAL,
                          "batch: the descriptor is NULL, lacks its size (.size = sizeof desc) or "
                          "sets members unknown to this version");
    if (!context->backend->batch_open)
        return weft__fail(context, WEFT_EUNSUPPORTED, "batch: %s has none yet",
                          context->backend->name);
    WEFT__TRY(settle_desc(context, &desc, &ring_len));
    const weft_batch_desc given = desc;
    desc.num_plans = count_plans(&given);
    size_t bytes = lay_out(NULL, &desc, NULL);
    weft_batch *batch = context->allocator.allocate(context->allocator.user, bytes);
    if (!batch)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a batch of %zu bytes", bytes);
    memset(batch, 0, bytes);
    lay_out(batch, &desc, (unsigned char *)batch);
    copy_plans((const weft_plan **)(uintptr_t)batch->plans, &given);
    batch->context = context;
    batch->desc = desc;
    batch->desc.plans = batch->plans;
    batch->num_plans = desc.num_plans;
    batch->ring_len = ring_len;
    weft_status status = context->backend->batch_open(batch);
    if (status != WEFT_OK) {
        weft_batch_destroy(batch);
        return status;
    }
    *out = batch;
    return WEFT_OK;
}

void weft_batch_destroy(weft_batch *batch)
{
    if (!batch)
        return;
    const weft_allocator *allocator = &batch->context->allocator;
    batch->context->backend->batch_close(batch);
    allocator->release(allocator->user, batch);
}

// How long a sequence may become.
static int32_t capacity(const weft_batch_args *args, int32_t seq)
{
    return args->kv_capacities ? args->kv_capacities[seq] : args->kv_lens[seq];
}

// Pages of a sequence that a batch keeps.
static int64_t pages_of(const weft_batch *batch, const weft_batch_args *args, int32_t seq)
{
    return weft__kv_pages(capacity(args, seq), batch->desc.page_size, batch->ring_len);
}

// Capacities, the slots of new tokens, and that all pages have room.
static weft_status check_growth(const weft_batch *batch, const weft_batch_args *args,
                                const struct weft__api_seqs *seqs)
{
    weft_context *context = batch->context;
    int64_t pages = 0, page_size = batch->desc.page_size;
    for (int32_t s = 0; s < args->num_seqs; s++) {
        int32_t q_len = args->cu_q_lens[s + 1] - args->cu_q_lens[s], kv_len = args->kv_lens[s];
        int32_t most = capacity(args, s);
        if (most < kv_len || most > batch->desc.max_kv_len)
            return weft__fail(context, WEFT_EINVAL, "batch: kv_capacities[%d]=%d is outside %d..%d",
                              s, most, kv_len, batch->desc.max_kv_len);
        if (q_len > kv_len && (!args->positions || !args->slots))
            return weft__fail(
                context, WEFT_EINVAL,
                "batch: sequence %d has %d keys for %d new tokens: give positions and "
                "slots",
                s, kv_len, q_len);
        pages += pages_of(batch, args, s);
        int32_t first = kv_len - q_len < 0 ? 0 : kv_len - q_len;
        int64_t begin = first / page_size, end = weft__ceil_div(most, page_size);
        if (batch->ring_len && most > batch->ring_len)
            begin = 0, end = pages_of(batch, args, s);
        WEFT__TRY(weft__api_check_list(context, seqs, s, begin, end));
    }
    if (pages > batch->desc.max_pages)
        return weft__fail(context, WEFT_EINVAL, "batch: %lld pages, at most %d are planned",
                          (long long)pages, batch->desc.max_pages);
    return WEFT_OK;
}

static weft_status check_tokens(const weft_batch *batch, const weft_batch_args *args)
{
    int64_t slots = args->num_pages > INT32_MAX / batch->desc.page_size
                        ? INT64_C(1) << 31
                        : args->num_pages * batch->desc.page_size;
    for (int32_t i = 0; i < args->cu_q_lens[args->num_seqs]; i++) {
        if (args->positions && args->positions[i] < 0)
            return weft__fail(batch->context, WEFT_EINVAL, "batch: positions[%d]=%d is negative", i,
                              args->positions[i]);
        if (args->slots && (args->slots[i] < -1 || args->slots[i] >= slots))
            return weft__fail(batch->context, WEFT_EINVAL,
                              "batch: slots[%d]=%d is outside the pool's %lld slots", i,
                              args->slots[i], (long long)slots);
    }
    return WEFT_OK;
}

static weft_status check_set(const weft_batch *batch, const weft_batch_args *args)
{
    weft_context *context = batch->context;
    const struct weft__api_seqs seqs = {
        .op = "batch",
        .num_seqs = args->num_seqs,
        .page_size = batch->desc.page_size,
        .max_q_tokens = batch->desc.max_q_tokens,
        .max_kv_len = batch->desc.max_kv_len,
        .num_pages = args->num_pages,
        .cu_q_lens = args->cu_q_lens,
        .kv_lens = args->kv_lens,
        .kv_starts = args->kv_starts,
        .page_table = args->page_table,
        .page_table_stride = args->page_table_stride,
        .page_indices = args->page_indices,
        .page_starts = args->page_starts,
        .seq_rows = args->seq_rows,
    };
    WEFT__TRY(weft__api_check_lengths(context, &seqs, NULL));
    for (int32_t i = 0; i < batch->num_plans; i++)
        if (batch->plans[i]->op == WEFT__OP_attention) {
            WEFT__TRY(weft__api_check_lengths(context, &seqs, batch->plans[i]->desc));
            WEFT__TRY(weft__api_check_pages(context, &seqs, batch->plans[i]->desc));
        }
    WEFT__TRY(check_growth(batch, args, &seqs));
    if (args->num_q_tokens && args->num_q_tokens < args->cu_q_lens[args->num_seqs])
        return weft__fail(context, WEFT_EINVAL, "batch: num_q_tokens=%d, cu_q_lens says %d",
                          args->num_q_tokens, args->cu_q_lens[args->num_seqs]);
    return check_tokens(batch, args);
}

// Where a set's arrays lie: all in memory that the host reads, or none.
static weft_status check_places(const weft_batch *batch, const weft_batch_args *args,
                                bool *on_device)
{
    const struct {
        const void *array;
        const char *name;
    } arrays[] = {
        {args->cu_q_lens, "cu_q_lens"},
        {args->kv_lens, "kv_lens"},
        {args->page_table, "page_table"},
        {args->page_indices, "page_indices"},
        {args->page_starts, "page_starts"},
        {args->seq_rows, "seq_rows"},
        {args->positions, "positions"},
        {args->kv_capacities, "kv_capacities"},
        {args->slots, "slots"},
        {args->kv_starts, "kv_starts"},
    };
    weft_context *context = batch->context;
    *on_device = !context->backend->is_host(context, args->cu_q_lens);
    for (size_t i = 1; i < sizeof arrays / sizeof *arrays; i++)
        if (arrays[i].array && context->backend->is_host(context, arrays[i].array) == *on_device)
            return weft__fail(context, WEFT_EINVAL,
                              "batch: cu_q_lens lies in the %s's memory, %s does not: give all of "
                              "them there, or none",
                              *on_device ? "device" : "host", arrays[i].name);
    return WEFT_OK;
}

// What can be said of a set's members before anybody reads the arrays.
static weft_status check_members(const weft_batch *batch, const weft_batch_args *args,
                                 bool *on_device)
{
    weft_context *context = batch->context;
    uintptr_t addresses = (uintptr_t)args->cu_q_lens | (uintptr_t)args->kv_lens |
                          (uintptr_t)args->page_table | (uintptr_t)args->page_indices |
                          (uintptr_t)args->page_starts | (uintptr_t)args->seq_rows |
                          (uintptr_t)args->positions | (uintptr_t)args->kv_capacities |
                          (uintptr_t)args->slots | (uintptr_t)args->kv_starts;
    if (!args->cu_q_lens || !args->kv_lens)
        return weft__fail(context, WEFT_EINVAL, "batch: cu_q_lens and kv_lens must not be NULL");
    if (addresses % sizeof(int32_t) != 0)
        return weft__fail(context, WEFT_EINVAL, "batch: an array is not aligned to 4 bytes");
    if (args->page_indices && (!args->page_starts || args->page_table))
        return weft__fail(context, WEFT_EINVAL,
                          "batch: page_indices need page_starts, and no page_table");
    if (args->num_pages < 0 ||
        !weft__api_stride(&(int64_t){args->page_table_stride}, 0, 0,
                          weft__api_table_rows(args->seq_rows, args->num_seqs)))
        return weft__fail(
            context, WEFT_EINVAL,
            "batch: num_pages=%lld or page_table_stride=%lld is negative, or too long",
            (long long)args->num_pages, (long long)args->page_table_stride);
    if (args->num_q_tokens < 0 || args->num_q_tokens > batch->desc.max_q_tokens)
        return weft__fail(context, WEFT_EINVAL, "batch: num_q_tokens=%d is outside 0..%d",
                          args->num_q_tokens, batch->desc.max_q_tokens);
    if (args->kv_starts && !context->backend->batch_starts)
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "batch: kv_starts are not supported on %s yet", context->backend->name);
    return check_places(batch, args, on_device);
}

static void copy_lists(weft_batch *batch, const weft_batch_args *args)
{
    const struct weft__api_seqs seqs = {.page_table = args->page_table,
                                        .page_table_stride = args->page_table_stride,
                                        .page_indices = args->page_indices,
                                        .page_starts = args->page_starts,
                                        .seq_rows = args->seq_rows};
    int64_t used = 0;
    for (int32_t s = 0; s < args->num_seqs; s++) {
        int64_t count = pages_of(batch, args, s);
        const int32_t *pages = weft__api_pages(&seqs, s);
        batch->page_starts[s] = (int32_t)used;
        batch->kv_capacities[s] = capacity(args, s);
        if (pages)
            memcpy(batch->pages + used, pages, (size_t)count * sizeof *pages);
        used += count;
    }
    batch->page_starts[args->num_seqs] = (int32_t)used;
}

static weft_status set_from_host(weft_batch *batch, const weft_batch_args *args)
{
    size_t seqs = (size_t)args->num_seqs;
    int32_t known = args->num_seqs ? args->cu_q_lens[args->num_seqs] : 0;
    batch->on_device = false;
    batch->num_seqs = args->num_seqs;
    batch->num_tokens = args->num_seqs && args->num_q_tokens ? args->num_q_tokens : known;
    batch->num_pages = args->num_pages;
    batch->can_advance = !args->positions && !args->slots;
    batch->has_starts = args->kv_starts;
    if (seqs > 0) {
        memcpy(batch->cu_q_lens, args->cu_q_lens, (seqs + 1) * sizeof *args->cu_q_lens);
        memcpy(batch->kv_lens, args->kv_lens, seqs * sizeof *args->kv_lens);
        if (args->kv_starts)
            memcpy(batch->kv_starts, args->kv_starts, seqs * sizeof *args->kv_starts);
        else
            memset(batch->kv_starts, 0, seqs * sizeof *batch->kv_starts);
        copy_lists(batch, args);
    }
    if (!args->positions || !args->slots)
        weft__plan_batch_derive(batch);
    if (args->positions)
        memcpy(batch->positions, args->positions, (size_t)known * sizeof *args->positions);
    if (args->slots)
        memcpy(batch->slots, args->slots, (size_t)known * sizeof *args->slots);
    weft__plan_batch_fill(batch);
    return batch->context->backend->batch_set(batch, args->stream);
}

// What the host knows of it; the rest is the device's.
static weft_status set_from_device(weft_batch *batch, const weft_batch_args *args)
{
    int32_t tokens = args->num_q_tokens ? args->num_q_tokens : args->num_seqs;
    if (!args->page_table && !args->page_indices)
        return weft__fail(batch->context, WEFT_EINVAL,
                          "batch: arrays of the device need a page_table, or page_indices");
    if (tokens > batch->desc.max_q_tokens)
        return weft__fail(batch->context, WEFT_EINVAL, "batch: %d tokens, at most %d are planned",
                          tokens, batch->desc.max_q_tokens);
    batch->on_device = true;
    batch->num_seqs = args->num_seqs;
    batch->num_tokens = tokens;
    batch->num_pages = args->num_pages;
    batch->can_advance = !args->positions && !args->slots;
    batch->has_starts = false;
    return batch->context->backend->batch_take(batch, args);
}

weft_status weft_batch_set(weft_batch *batch, const weft_batch_args *user_args)
{
    weft_batch_args args;
    bool on_device = false;
    if (!batch)
        return WEFT_EINVAL;
    if (weft__api_recording(batch->context))
        return weft__fail(batch->context, WEFT_EINVAL,
                          "batch: a set cannot be recorded: set it before each launch");
    if (!weft__api_read(&args, WEFT__KNOWN(&args), user_args))
        return weft__fail(
            batch->context, WEFT_EINVAL,
            "batch: args is NULL, lacks its size (.size = sizeof args) or sets members "
            "unknown to this version");
    if (args.num_seqs < 0 || args.num_seqs > batch->desc.max_seqs)
        return weft__fail(batch->context, WEFT_EINVAL, "batch: num_seqs=%d is outside 0..%d",
                          args.num_seqs, batch->desc.max_seqs);
    WEFT__TRY(weft__api_stream(batch->context, args.stream));
    if (args.num_seqs > 0)
        WEFT__TRY(check_members(batch, &args, &on_device));
    if (on_device)
        return set_from_device(batch, &args);
    if (args.num_seqs > 0)
        WEFT__TRY(check_set(batch, &args));
    return set_from_host(batch, &args);
}

weft_status weft_batch_advance(weft_batch *batch, weft_stream *stream)
{
    if (!batch)
        return WEFT_EINVAL;
    weft_program *program = weft__api_recording(batch->context);
    WEFT__TRY(weft__api_stream(batch->context, stream));
    if (!batch->can_advance)
        return weft__fail(
            batch->context, WEFT_EINVAL,
            "batch: never set, or with positions or slots of your own: set it instead");
    for (int32_t s = 0; s < batch->num_seqs && !batch->on_device; s++) {
        int32_t q_len = batch->cu_q_lens[s + 1] - batch->cu_q_lens[s];
        if (q_len > 1)
            return weft__fail(batch->context, WEFT_EINVAL,
                              "batch: sequence %d has %d queries: only single ones advance", s,
                              q_len);
        if (!program && q_len == 1 && batch->kv_lens[s] == batch->kv_capacities[s])
            return weft__fail(batch->context, WEFT_EINVAL,
                              "batch: sequence %d has reached its capacity of %d keys", s,
                              batch->kv_capacities[s]);
    }
    if (program)
        return weft__api_record(program, &(struct weft__step){.batch = batch}, stream);
    if (!batch->on_device)
        weft__plan_batch_advance(batch);
    return batch->context->backend->batch_advance(batch, stream);
}

const int32_t *weft_batch_positions(const weft_batch *batch)
{
    return batch ? batch->device_positions : NULL;
}
