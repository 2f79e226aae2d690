// SPDX-License-Identifier: MIT
// What runs of attention and sets of a batch check alike: lengths of sequences and lists of pages.
#ifndef WEFT_API_SEQS_H
#define WEFT_API_SEQS_H

#include <weft/attention.h>

#include "src/api/api.h"

struct weft__api_seqs {
    const char *op; // begins the text of an error
    int32_t num_seqs, page_size;
    int32_t max_q_tokens, max_kv_len; // bounds
    int64_t num_pages;
    const int32_t *cu_q_lens, *kv_lens, *kv_starts;
    const int32_t *page_table;
    int64_t page_table_stride;
    const int32_t *page_indices, *page_starts, *seq_rows;
};

// WEFT_OK if lengths are ordered and within bounds, for the mask of an attention (NULL: any).
weft_status weft__api_check_lengths(weft_context *context, const struct weft__api_seqs *seqs,
                                    const weft_attention_desc *desc);

// WEFT_OK if all pages that the attention reads are of the pool.
weft_status weft__api_check_pages(weft_context *context, const struct weft__api_seqs *seqs,
                                  const weft_attention_desc *desc);

// WEFT_OK if pages [first, last) of a sequence's list are of the pool.
weft_status weft__api_check_list(weft_context *context, const struct weft__api_seqs *seqs,
                                 int32_t seq, int64_t first, int64_t last);

// Rows of a page table that sequences may name: by seq_rows any.
static inline int32_t weft__api_table_rows(const int32_t *seq_rows, int32_t num_seqs)
{
    return seq_rows ? INT32_MAX : num_seqs;
}

// The list of a sequence's pages, or NULL if there is none.
const int32_t *weft__api_pages(const struct weft__api_seqs *seqs, int32_t seq);

#endif
