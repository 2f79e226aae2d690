// SPDX-License-Identifier: MIT
#include <weft/pages.h>

#include "src/api/api_pool.h"
#include "src/kernels/pages/pages_kernel.h"

weft_status weft_pages_plan(weft_context *context, const weft_pages_desc *user_desc,
                            weft_plan **out)
{
    weft_pages_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_pages, &desc, WEFT__KNOWN(&desc), user_desc, out));
    if ((unsigned)desc.mode > WEFT_PAGES_OWN)
        return weft__fail(context, WEFT_EINVAL, "pages: mode %d is none", (int)desc.mode);
    if (desc.reserved0)
        return weft__fail(context, WEFT_EINVAL, "pages: reserved0 is not 0");
    WEFT__TRY(weft__api_settle_layout(context, "pages", &desc.layout));
    WEFT__TRY(weft__api_most(context, WEFT__OP_pages, "max_pairs", &desc.max_pairs));
    return WEFT__API_PLAN(context, WEFT__OP_pages, &desc, out);
}

// Numbers of a list that name no page, or entry.
static weft_status check_list(const weft_plan *plan, const char *what, const int32_t *list,
                              int32_t count, int64_t bound)
{
    if (!list || !weft__api_is_host(plan, list))
        return WEFT_OK;
    for (int32_t i = 0; i < count; i++)
        if (list[i] < -1 || list[i] >= bound)
            return weft__fail(plan->context, WEFT_EINVAL, "pages: %s[%d]=%d is outside -1..%lld",
                              what, i, list[i], (long long)bound - 1);
    return WEFT_OK;
}

// The entries of the page table that are to be owned.
static weft_status check_entries(const weft_plan *plan, const weft_pages_args *args, int32_t count)
{
    WEFT__TRY(check_list(plan, "entries", args->entries, count, args->entries_bound));
    if (!weft__api_is_host(plan, args->entries) || !weft__api_is_host(plan, args->page_table))
        return WEFT_OK;
    for (int32_t i = 0; i < count; i++) {
        int32_t at = args->entries[i], page = at < 0 ? 0 : args->page_table[at];
        if (at >= 0 && (page < 0 || page >= args->from.num_pages))
            return weft__fail(plan->context, WEFT_EINVAL,
                              "pages: page_table[%d]=%d is outside 0..%lld", at, page,
                              (long long)args->from.num_pages - 1);
    }
    return WEFT_OK;
}

static weft_status check_lists(const weft_plan *plan, const weft_pages_args *args)
{
    int32_t count = args->count;
    if (args->count_at) {
        if (!weft__api_is_host(plan, args->count_at))
            return WEFT_OK;
        count = *args->count_at < 0 ? 0 : *args->count_at < count ? *args->count_at : count;
    }
    WEFT__TRY(check_list(plan, "from_pages", args->from_pages, count, args->from.num_pages));
    WEFT__TRY(check_list(plan, "to_pages", args->to_pages, count, args->to.num_pages));
    return args->entries ? check_entries(plan, args, count) : WEFT_OK;
}

// The members that the mode asks for, and no others.
static weft_status check_members(const weft_plan *plan, const weft_pages_args *args)
{
    const weft_pages_desc *desc = plan->desc;
    const bool owns = desc->mode == WEFT_PAGES_OWN;
    if (!args->to_pages || !args->from_pages != owns)
        return weft__fail(plan->context, WEFT_EINVAL,
                          owns ? "pages: to_pages must not be NULL, from_pages must be"
                               : "pages: from_pages and to_pages must not be NULL");
    if (!args->page_table == owns || !args->entries == owns || !args->references == owns ||
        !args->copied == owns || (args->entries_bound > 0) != owns)
        return weft__fail(plan->context, WEFT_EINVAL,
                          owns ? "pages: page_table, entries_bound, entries, references and copied "
                                 "must be given"
                               : "pages: page_table, entries_bound, entries, references and copied "
                                 "need WEFT_PAGES_OWN");
    return weft__api_aligned(plan,
                             (uintptr_t)args->from_pages | (uintptr_t)args->to_pages |
                                 (uintptr_t)args->count_at | (uintptr_t)args->page_table |
                                 (uintptr_t)args->entries | (uintptr_t)args->references |
                                 (uintptr_t)args->copied,
                             sizeof(int32_t));
}

static weft_status check_pools(const weft_plan *plan, const weft_pages_args *args)
{
    const weft_pages_desc *desc = plan->desc;
    if (desc->mode == WEFT_PAGES_OWN &&
        (args->from.k.data != args->to.k.data || args->from.v.data != args->to.v.data ||
         args->from.num_pages != args->to.num_pages))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "pages: WEFT_PAGES_OWN is about one cache: from and to must be the same");
    if (desc->mode == WEFT_PAGES_EXCHANGE && weft__pages_in_keys(&desc->layout, &args->from) !=
                                                 weft__pages_in_keys(&desc->layout, &args->to))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "pages: values lie in the keys of one cache alone: copy instead");
    return WEFT_OK;
}

weft_status weft_pages_run(const weft_plan *plan, const weft_pages_args *user_args)
{
    weft_pages_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_pages, &args, WEFT__KNOWN(&args), user_args));
    const weft_pages_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "count", args.count, desc->max_pairs));
    if (args.count == 0)
        return WEFT_OK;
    WEFT__TRY(check_members(plan, &args));
    WEFT__TRY(weft__api_settle_pool(plan, &desc->layout, &args.from));
    WEFT__TRY(weft__api_settle_pool(plan, &desc->layout, &args.to));
    if ((desc->layout.scaling && (args.from.k.scale_seq_stride || args.to.k.scale_seq_stride)) ||
        (desc->layout.v_scaling && (args.from.v.scale_seq_stride || args.to.v.scale_seq_stride)))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "pages: pages belong to no sequence here: scale_seq_stride must be 0");
    WEFT__TRY(check_pools(plan, &args));
    WEFT__TRY(check_lists(plan, &args));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
