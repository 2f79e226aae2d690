// SPDX-License-Identifier: MIT
// Holds moved pages against plain loops over the elements that kv.h says a page has: every byte of both caches,
// what lies between pages and heads included, tables and references.
#include "src/kernels/check.h"
#include "src/kernels/pages/pages_kernel.h"

enum { CACHES = 2, MOST_PAGES = 24, GARBAGE = 0x7ffffff0 };

// A plane of a cache: strides in elements, `at` the elements before its first.
struct plane {
    weft_dtype dtype;
    int32_t dim, inner;
    int64_t at, page, head, token, group;
};

struct problem {
    weft_pages_desc desc;
    weft_pages_args args;
    bool one, latent; // caches are the same; values lie in the keys
    struct plane planes[CACHES][2];
    int64_t bytes[CACHES], num_pages[CACHES];
    int64_t scale_strides[2][3]; // of keys and values: page, head, token
    int64_t num_scales;          // of a plane
    int32_t pairs, table_len;    // pairs that count
};

// What a run reads and writes.
struct memory {
    unsigned char *cache[CACHES];
    float *scales[CACHES][2];
    int32_t *table, *references, *copied;
};

static weft_dtype draw_format(struct check_case *c)
{
    return (weft_dtype)check_pick(c, 8, WEFT_F32, WEFT_F16, WEFT_BF16, WEFT_FP8_E4M3, WEFT_INT8,
                                  WEFT_Q8_0, WEFT_Q4_0, WEFT_Q5_1);
}

static weft_kv_scaling draw_scaling(struct check_case *c, weft_dtype dtype)
{
    if (dtype != WEFT_INT8 && dtype != WEFT_FP8_E4M3)
        return WEFT_KV_SCALING_NONE;
    return (weft_kv_scaling)check_range(c, WEFT_KV_SCALING_NONE, WEFT_KV_SCALING_TOKEN);
}

static int64_t bytes_of(weft_dtype dtype, int64_t elems)
{
    return elems / weft_dtype_block_elems(dtype) * weft_dtype_block_bytes(dtype);
}

// Where a cache's planes lie: packed or with gaps, slots before heads, keys and values of a page side by side,
// values in keys.
static void draw_cache(struct check_case *c, struct problem *p, int cache)
{
    const weft_kv_layout *layout = &p->desc.layout;
    const int64_t heads = layout->num_kv_heads, slots = layout->page_size;
    const bool whole = layout->inner == layout->head_dim && layout->v_inner == layout->v_dim;
    const bool slots_first = whole && check_range(c, 0, 2) == 0;
    const bool beside = layout->dtype == layout->v_dtype && check_range(c, 0, 2) == 0;
    const int64_t gap = check_range(c, 0, 1) ? 0 : 32 * check_range(c, 0, 2);
    struct plane *planes = p->planes[cache];
    for (int i = 0; i < 2; i++) {
        const int64_t dim = i ? layout->v_dim : layout->head_dim;
        const int64_t inner = i ? layout->v_inner : layout->inner;
        planes[i] = (struct plane){.dtype = i ? layout->v_dtype : layout->dtype,
                                   .dim = (int32_t)dim,
                                   .inner = (int32_t)inner,
                                   .page = heads * slots * dim + gap,
                                   .head = slots_first ? dim : slots * dim,
                                   .token = slots_first ? heads * dim : inner,
                                   .group = inner == dim ? inner : slots * inner};
    }
    const int64_t pages = p->num_pages[cache];
    if (p->latent) {
        planes[1].page = planes[0].page, planes[1].head = planes[0].head;
        planes[1].token = planes[0].token;
        planes[1].at = layout->head_dim - layout->v_dim;
        p->bytes[cache] = bytes_of(layout->dtype, pages * planes[0].page);
        return;
    }
    if (beside) {
        planes[1].at = planes[0].page;
        planes[0].page = planes[1].page = planes[0].page + planes[1].page;
        p->bytes[cache] = bytes_of(layout->dtype, pages * planes[0].page);
        return;
    }
    // 64 bytes between them keep both aligned
    p->bytes[cache] = (bytes_of(layout->dtype, pages * planes[0].page) + 63) / 64 * 64;
    planes[1].at = -1;
    p->bytes[cache] += bytes_of(layout->v_dtype, pages * planes[1].page);
}

static unsigned char *plane_data(const struct problem *p, int cache, int plane,
                                 unsigned char *memory)
{
    const struct plane *own = &p->planes[cache][plane];
    if (own->at >= 0)
        return memory + bytes_of(own->dtype, own->at);
    return memory + p->bytes[cache] - bytes_of(own->dtype, p->num_pages[cache] * own->page);
}

static void draw_scales(struct check_case *c, struct problem *p, int plane, weft_kv_scaling scaling)
{
    const weft_kv_layout *layout = &p->desc.layout;
    const int64_t slots = layout->page_size, heads = layout->num_kv_heads;
    const int64_t all[3] = {heads * slots, slots, 1};
    const int64_t kinds = scaling == WEFT_KV_SCALING_TOKEN ? 3 : check_range(c, 0, 3);
    for (int i = 0; i < 3; i++)
        p->scale_strides[plane][i] = i < kinds ? all[i] : 0;
}

static void draw(struct check_case *c, struct problem *p)
{
    weft_kv_layout *layout = &p->desc.layout;
    p->desc.size = sizeof p->desc, p->args.size = sizeof p->args;
    p->desc.mode = (weft_pages_mode)check_range(c, WEFT_PAGES_COPY, WEFT_PAGES_OWN);
    p->one = p->desc.mode == WEFT_PAGES_OWN || check_range(c, 0, 1);
    layout->dtype = draw_format(c);
    layout->num_kv_heads = (int32_t)check_range(c, 1, 4);
    layout->head_dim = 32 * (int32_t)check_range(c, 1, 5);
    layout->page_size = (int32_t)check_pick(c, 4, 1, 3, 16, 64);
    p->latent = check_range(c, 0, 5) == 0;
    layout->v_dtype = p->latent || check_range(c, 0, 1) ? layout->dtype : draw_format(c);
    layout->v_dim = check_range(c, 0, 1) ? layout->head_dim : 32 * (int32_t)check_range(c, 1, 5);
    if (p->latent)
        layout->v_dim = 32 * (int32_t)check_range(c, 1, layout->head_dim / 32);
    layout->inner = p->latent || check_range(c, 0, 2) ? layout->head_dim : 32;
    layout->v_inner = p->latent || check_range(c, 0, 2) ? layout->v_dim : 32;
    layout->scaling = draw_scaling(c, layout->dtype);
    layout->v_scaling = draw_scaling(c, layout->v_dtype);
    p->num_pages[0] = check_range(c, 2, MOST_PAGES);
    p->num_pages[1] = p->one ? p->num_pages[0] : check_range(c, 1, MOST_PAGES);
    draw_cache(c, p, 0);
    if (p->one)
        memcpy(p->planes[1], p->planes[0], sizeof p->planes[0]), p->bytes[1] = p->bytes[0];
    else
        draw_cache(c, p, 1);
    draw_scales(c, p, 0, layout->scaling);
    draw_scales(c, p, 1, layout->v_scaling);
    p->num_scales = (int64_t)MOST_PAGES * layout->num_kv_heads * layout->page_size;
}

static void shuffle(struct check_case *c, int32_t *list, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        list[i] = i;
    for (int32_t i = count - 1; i > 0; i--) {
        int32_t at = (int32_t)check_range(c, 0, i), kept = list[i];
        list[i] = list[at], list[at] = kept;
    }
}

// Pairs of pages that are in no other pair, some of them nothing, and garbage behind those that count.
static void draw_pairs(struct check_case *c, struct problem *p)
{
    int32_t from[MOST_PAGES], to[MOST_PAGES];
    int32_t most = (int32_t)(p->num_pages[0] < p->num_pages[1] ? p->num_pages[0] : p->num_pages[1]);
    most = p->one ? most / 2 : most;
    p->args.count = (int32_t)check_range(c, 1, most);
    p->pairs = p->args.count;
    p->desc.max_pairs = p->args.count + (int32_t)check_range(c, 0, 2);
    const size_t bytes = (size_t)p->args.count * sizeof(int32_t);
    int32_t *from_pages = check_buffer(c, bytes, 4), *to_pages = check_buffer(c, bytes, 4);
    if (check_range(c, 0, 2) == 0) {
        int32_t *count_at = check_buffer(c, sizeof *count_at, 4);
        *count_at = (int32_t)check_range(c, -1, p->args.count + 1);
        p->pairs = *count_at < 0 ? 0 : *count_at < p->pairs ? *count_at : p->pairs;
        p->args.count_at = count_at;
    }
    shuffle(c, from, (int32_t)p->num_pages[0]);
    shuffle(c, to, (int32_t)p->num_pages[1]);
    for (int32_t i = 0; i < p->args.count; i++) {
        const bool none = check_range(c, 0, 7) == 0;
        from_pages[i] = i >= p->pairs ? GARBAGE : none ? -1 : from[i];
        to_pages[i] = i >= p->pairs               ? GARBAGE
                      : check_range(c, 0, 7) == 0 ? -1
                      : p->one                    ? from[p->num_pages[0] - 1 - i]
                                                  : to[i];
    }
    p->args.from_pages = from_pages, p->args.to_pages = to_pages;
}

// Sequences whose tables share pages of the first half; spare ones are those behind.
static void draw_tables(struct check_case *c, struct problem *p, struct memory *m)
{
    const int32_t shared = (int32_t)p->num_pages[0] / 2;
    int32_t *entries = check_buffer(c, (size_t)p->args.count * sizeof *entries, 4);
    int32_t *to_pages = check_buffer(c, (size_t)p->args.count * sizeof *to_pages, 4);
    p->table_len = 2 * MOST_PAGES;
    m->table = check_buffer(c, (size_t)p->table_len * sizeof(int32_t), 4);
    m->references = check_buffer(c, (size_t)p->num_pages[0] * sizeof(int32_t), 4);
    m->copied = check_buffer(c, (size_t)p->args.count * sizeof(int32_t), 4);
    memset(m->references, 0, (size_t)p->num_pages[0] * sizeof(int32_t));
    for (int32_t i = 0; i < p->table_len; i++) {
        m->table[i] = (int32_t)check_range(c, 0, shared - 1);
        m->references[m->table[i]]++;
    }
    for (int32_t i = 0; i < shared; i++) // some have one owner, whatever the table says
        m->references[i] = check_range(c, 0, 2) ? m->references[i] : 1;
    for (int32_t i = 0; i < p->args.count; i++) {
        entries[i] = i >= p->pairs ? GARBAGE : (int32_t)check_range(c, -1, p->table_len - 1);
        to_pages[i] = i >= p->pairs ? GARBAGE : shared + i;
        if (i < p->pairs && check_range(c, 0, 9) == 0)
            to_pages[i] = -1;
    }
    p->args.from_pages = NULL, p->args.to_pages = to_pages;
    p->args.entries = entries, p->args.entries_bound = p->table_len;
}

static struct memory make_memory(struct check_case *c, struct problem *p)
{
    struct memory m = {.table = NULL};
    for (int cache = 0; cache < (p->one ? 1 : 2); cache++) {
        m.cache[cache] = check_buffer(c, (size_t)p->bytes[cache], 64);
        for (int i = 0; i < 2; i++)
            m.scales[cache][i] = check_buffer(c, (size_t)p->num_scales * sizeof(float), 4);
    }
    if (p->one) {
        m.cache[1] = m.cache[0];
        memcpy(m.scales[1], m.scales[0], sizeof m.scales[0]);
    }
    return m;
}

static void *copy_of(struct check_case *c, const void *from, int64_t bytes)
{
    return from ? memcpy(check_buffer(c, (size_t)bytes, 64), from, (size_t)bytes) : NULL;
}

static struct memory copy_memory(struct check_case *c, const struct problem *p,
                                 const struct memory *m)
{
    struct memory copy = *m;
    for (int cache = 0; cache < (p->one ? 1 : 2); cache++) {
        copy.cache[cache] = copy_of(c, m->cache[cache], p->bytes[cache]);
        for (int i = 0; i < 2; i++)
            copy.scales[cache][i] =
                copy_of(c, m->scales[cache][i], p->num_scales * (int64_t)sizeof(float));
    }
    if (p->one) {
        copy.cache[1] = copy.cache[0];
        memcpy(copy.scales[1], copy.scales[0], sizeof copy.scales[0]);
    }
    copy.table = copy_of(c, m->table, p->table_len * (int64_t)sizeof(int32_t));
    copy.references = copy_of(c, m->references, p->num_pages[0] * (int64_t)sizeof(int32_t));
    copy.copied = copy_of(c, m->copied, p->args.count * (int64_t)sizeof(int32_t));
    return copy;
}

static void move_bytes(const struct problem *p, unsigned char *from, unsigned char *to,
                       int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) {
        unsigned char kept = from[i];
        if (p->desc.mode == WEFT_PAGES_EXCHANGE)
            from[i] = to[i];
        to[i] = kept;
    }
}

// Everything of a pair, element by element.
static void move_page(const struct problem *p, struct memory *m, int64_t from, int64_t to)
{
    const weft_kv_layout *layout = &p->desc.layout;
    for (int plane = 0; plane < (p->latent ? 1 : 2); plane++) {
        const struct plane *a = &p->planes[0][plane], *b = &p->planes[1][plane];
        const int32_t block = weft_dtype_block_elems(a->dtype);
        for (int64_t head = 0; head < layout->num_kv_heads; head++)
            for (int64_t slot = 0; slot < layout->page_size; slot++)
                for (int64_t d = 0; d < a->dim; d += block) {
                    int64_t x = from * a->page + head * a->head + slot * a->token +
                                d / a->inner * a->group + d % a->inner;
                    int64_t y = to * b->page + head * b->head + slot * b->token +
                                d / b->inner * b->group + d % b->inner;
                    move_bytes(p, plane_data(p, 0, plane, m->cache[0]) + bytes_of(a->dtype, x),
                               plane_data(p, 1, plane, m->cache[1]) + bytes_of(b->dtype, y),
                               weft_dtype_block_bytes(a->dtype));
                }
    }
    for (int plane = 0; plane < 2; plane++) {
        const int64_t *strides = p->scale_strides[plane];
        if (!(plane ? layout->v_scaling : layout->scaling) || !strides[0])
            continue;
        for (int64_t head = 0; head < (strides[1] ? layout->num_kv_heads : 1); head++)
            for (int64_t slot = 0; slot < (strides[2] ? layout->page_size : 1); slot++) {
                int64_t at = head * strides[1] + slot * strides[2];
                move_bytes(p, (unsigned char *)(m->scales[0][plane] + from * strides[0] + at),
                           (unsigned char *)(m->scales[1][plane] + to * strides[0] + at),
                           sizeof(float));
            }
    }
}

static void expect(const struct problem *p, struct memory *m)
{
    for (int32_t i = 0; i < p->pairs; i++) {
        int32_t from = p->args.from_pages ? p->args.from_pages[i] : -1, to = p->args.to_pages[i];
        if (p->desc.mode == WEFT_PAGES_OWN) {
            int32_t at = p->args.entries[i];
            m->copied[i] = -1;
            if (at >= 0 && to >= 0 && m->references[m->table[at]] > 1) {
                from = m->copied[i] = m->table[at];
                m->references[from]--;
                m->references[m->table[at] = to] = 1;
            }
        }
        if (from >= 0 && to >= 0)
            move_page(p, m, from, to);
    }
}

static weft_kv_pool pool_of(const struct problem *p, const struct memory *m, int cache)
{
    const weft_kv_layout *layout = &p->desc.layout;
    weft_kv_pool pool = {.num_pages = p->num_pages[cache]};
    for (int i = 0; i < 2; i++) {
        const struct plane *own = &p->planes[cache][i];
        const int64_t *scales = p->scale_strides[i];
        const bool scaled = i ? layout->v_scaling : layout->scaling;
        *(i ? &pool.v : &pool.k) = (weft_kv_plane){.data = plane_data(p, cache, i, m->cache[cache]),
                                                   .page_stride = own->page,
                                                   .head_stride = own->head,
                                                   .token_stride = own->token,
                                                   .inner_stride = own->group,
                                                   .scales = scaled ? m->scales[cache][i] : NULL,
                                                   .scale_page_stride = scales[0],
                                                   .scale_head_stride = scales[1],
                                                   .scale_token_stride = scales[2]};
    }
    return pool;
}

static void run(struct check_case *c, const struct problem *p, const struct memory *m)
{
    weft_pages_desc desc = p->desc;
    weft_pages_args args = p->args;
    weft_plan *plan;
    desc.variant = c->kernel->name;
    args.from = pool_of(p, m, 0), args.to = pool_of(p, m, 1);
    args.page_table = m->table, args.references = m->references, args.copied = m->copied;
    if (!check_ok(c, weft_pages_plan(c->context, &desc, &plan), "plan"))
        return;
    if (check_ok(c, weft_pages_run(plan, &args), "run"))
        check_ok(c, weft_stream_synchronize(c->context, NULL), "the device");
    weft_plan_destroy(plan);
}

static void same(struct check_case *c, const void *got, const void *want, int64_t bytes,
                 const char *what)
{
    for (int64_t i = 0; got && i < bytes && !c->failed; i++)
        if (((const unsigned char *)got)[i] != ((const unsigned char *)want)[i])
            check_fail(c, "byte %lld of %s is %u, not %u", (long long)i, what,
                       ((const unsigned char *)got)[i], ((const unsigned char *)want)[i]);
}

static void compare(struct check_case *c, const struct problem *p, const struct memory *got,
                    const struct memory *want)
{
    for (int cache = 0; cache < CACHES; cache++) {
        same(c, got->cache[cache], want->cache[cache], p->bytes[cache],
             cache ? "the cache they go to" : "the cache they come from");
        for (int i = 0; i < 2; i++)
            same(c, got->scales[cache][i], want->scales[cache][i],
                 p->num_scales * (int64_t)sizeof(float), "scales");
    }
    same(c, got->table, want->table, p->table_len * (int64_t)sizeof(int32_t), "the page table");
    same(c, got->references, want->references, p->num_pages[0] * (int64_t)sizeof(int32_t),
         "the references");
    same(c, got->copied, want->copied, p->args.count * (int64_t)sizeof(int32_t), "copied");
}

check_fn weft__pages_check;
void weft__pages_check(struct check_case *c)
{
    static const char *const modes[] = {"copy", "exchange", "own"};
    struct problem p = {.pairs = 0};
    draw(c, &p);
    if (c->format != WEFT_DTYPE_NONE && c->format != p.desc.layout.dtype) {
        check_skip(c);
        return;
    }
    struct memory got = make_memory(c, &p);
    draw_pairs(c, &p);
    if (p.desc.mode == WEFT_PAGES_OWN)
        draw_tables(c, &p, &got);
    check_note(c, "%s %s/%s %d heads x %d/%d inner %d/%d page %d scaling %d/%d%s%s, %d of %d pairs",
               modes[p.desc.mode], weft_dtype_name(p.desc.layout.dtype),
               weft_dtype_name(p.desc.layout.v_dtype), p.desc.layout.num_kv_heads,
               p.desc.layout.head_dim, p.desc.layout.v_dim, p.desc.layout.inner,
               p.desc.layout.v_inner, p.desc.layout.page_size, p.desc.layout.scaling,
               p.desc.layout.v_scaling, p.one ? " in one cache" : "",
               p.latent ? " values in keys" : "", p.pairs, p.args.count);
    struct memory want = copy_memory(c, &p, &got);
    run(c, &p, &got);
    if (c->failed)
        return;
    expect(&p, &want);
    compare(c, &p, &got, &want);
}
