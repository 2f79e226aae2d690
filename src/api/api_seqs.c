// SPDX-License-Identifier: MIT
#include "src/api/api_seqs.h"

#include "src/base/checked.h"
#include "src/kernels/attention/attention_kernel.h"
#include "src/plan/plan_attention.h"

static bool has_own_keys(const weft_attention_desc *desc)
{
    return desc && (desc->mask == WEFT_MASK_CAUSAL || desc->mask == WEFT_MASK_TREE);
}

// A ring holds what the first query of a sequence sees.
static weft_status check_ring(weft_context *context, const struct weft__api_seqs *seqs,
                              const weft_attention_desc *desc, int32_t s)
{
    int32_t q_len = seqs->cu_q_lens[s + 1] - seqs->cu_q_lens[s], kv_len = seqs->kv_lens[s];
    if (kv_len <= desc->ring_len || (int64_t)desc->window + q_len - 1 <= desc->ring_len)
        return WEFT_OK;
    return weft__fail(context, WEFT_EINVAL,
                      "%s: sequence %d has %d queries over a window of %d, a ring of %d keys does "
                      "not hold them",
                      seqs->op, s, q_len, desc->window, desc->ring_len);
}

weft_status weft__api_check_lengths(weft_context *context, const struct weft__api_seqs *seqs,
                                    const weft_attention_desc *desc)
{
    const char *op = seqs->op;
    const int32_t *cu = seqs->cu_q_lens;
    if (cu[0] != 0)
        return weft__fail(context, WEFT_EINVAL, "%s: cu_q_lens[0] is %d, not 0", op, cu[0]);
    for (int32_t s = 0; s < seqs->num_seqs; s++) {
        int32_t kv_len = seqs->kv_lens[s];
        if (cu[s + 1] < cu[s])
            return weft__fail(context, WEFT_EINVAL, "%s: cu_q_lens decreases at %d", op, s + 1);
        if (kv_len < 0 || kv_len > seqs->max_kv_len)
            return weft__fail(context, WEFT_EINVAL, "%s: kv_lens[%d]=%d is outside 0..%d", op, s,
                              kv_len, seqs->max_kv_len);
        if (has_own_keys(desc) && kv_len < cu[s + 1] - cu[s])
            return weft__fail(context, WEFT_EINVAL,
                              "%s: sequence %d has %d keys for %d queries under the %s mask", op, s,
                              kv_len, cu[s + 1] - cu[s],
                              desc->mask == WEFT_MASK_TREE ? "tree" : "causal");
        if (seqs->kv_starts && (seqs->kv_starts[s] < 0 || seqs->kv_starts[s] > kv_len))
            return weft__fail(context, WEFT_EINVAL, "%s: kv_starts[%d]=%d is outside 0..%d", op, s,
                              seqs->kv_starts[s], kv_len);
        if (desc && desc->ring_len)
            WEFT__TRY(check_ring(context, seqs, desc, s));
    }
    if (cu[seqs->num_seqs] > seqs->max_q_tokens)
        return weft__fail(context, WEFT_EINVAL, "%s: %d queries, at most %d are planned", op,
                          cu[seqs->num_seqs], seqs->max_q_tokens);
    return WEFT_OK;
}

static int64_t row_of(const struct weft__api_seqs *seqs, int32_t seq)
{
    return seqs->seq_rows ? seqs->seq_rows[seq] : seq;
}

const int32_t *weft__api_pages(const struct weft__api_seqs *seqs, int32_t seq)
{
    const int64_t row = row_of(seqs, seq);
    if (seqs->page_indices)
        return seqs->page_indices + seqs->page_starts[row];
    return seqs->page_table ? seqs->page_table + row * seqs->page_table_stride : NULL;
}

// Before anybody reads a page of the sequence.
static weft_status check_row(weft_context *context, const struct weft__api_seqs *seqs, int32_t seq)
{
    const int64_t row = row_of(seqs, seq);
    if (row < 0)
        return weft__fail(context, WEFT_EINVAL, "%s: seq_rows[%d]=%d is negative", seqs->op, seq,
                          (int)row);
    if (seqs->page_indices && seqs->page_starts[row] < 0)
        return weft__fail(context, WEFT_EINVAL, "%s: page_starts[%d]=%d is negative", seqs->op,
                          (int)row, seqs->page_starts[row]);
    return WEFT_OK;
}

weft_status weft__api_check_list(weft_context *context, const struct weft__api_seqs *seqs,
                                 int32_t seq, int64_t first, int64_t last)
{
    uint32_t largest = 0; // as unsigned, so that negative pages are above INT32_MAX
    WEFT__TRY(check_row(context, seqs, seq));
    const int32_t *pages = weft__api_pages(seqs, seq);
    if (first >= last)
        return WEFT_OK;
    if (!pages)
        return weft__fail(
            context, WEFT_EINVAL,
            "%s: sequence %d has keys, so page_table (or page_indices) must not be NULL", seqs->op,
            seq);
    for (int64_t i = first; i < last; i++)
        largest = (uint32_t)pages[i] > largest ? (uint32_t)pages[i] : largest;
    if (largest > INT32_MAX || largest >= seqs->num_pages)
        return weft__fail(context, WEFT_EINVAL,
                          "%s: sequence %d has page %d, the pool has %lld pages", seqs->op, seq,
                          (int)largest, (long long)seqs->num_pages);
    return WEFT_OK;
}

// Pages that no query sees, to the left of a window, may be gone.
weft_status weft__api_check_pages(weft_context *context, const struct weft__api_seqs *seqs,
                                  const weft_attention_desc *desc)
{
    const struct weft__attention_mask mask = weft__plan_mask(desc);
    for (int32_t s = 0; s < seqs->num_seqs; s++) {
        int32_t q_len = seqs->cu_q_lens[s + 1] - seqs->cu_q_lens[s];
        WEFT__TRY(check_row(context, seqs, s));
        if (q_len == 0)
            continue;
        struct weft__attention_span seen = weft__attention_union(
            &mask, q_len, seqs->kv_lens[s], seqs->kv_starts ? seqs->kv_starts[s] : 0, 0, q_len);
        if (seen.begin >= seen.end)
            continue;
        int64_t first = seen.begin / seqs->page_size;
        int64_t last = weft__ceil_div(seen.end, seqs->page_size);
        if (desc->ring_len && seen.end > desc->ring_len) { // everything that the ring has
            first = 0;
            last = weft__ceil_div(desc->ring_len, seqs->page_size);
        }
        WEFT__TRY(weft__api_check_list(context, seqs, s, first, last));
    }
    return WEFT_OK;
}
