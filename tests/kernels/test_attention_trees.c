// SPDX-License-Identifier: MIT
// Random trees of draft tokens on prefixes of 0, 1, 31, 32 and 1000 keys, by parents and by packed bits, every
// kernel by name, against plain loops in double (tests/support/attention_case.h).
#include "tests/support/attention_case.h"
#include "tests/support/context_fixture.h"

enum { PREFIXES = 5, MOST_TOKENS = 256, MOST_WORDS = MOST_TOKENS / 32 };
static const int32_t prefixes[PREFIXES] = {0, 1, 31, 32, 1000};

typedef struct forest {
    attention_case c;
    int32_t parents[PREFIXES * MOST_TOKENS];
    uint32_t bits[PREFIXES * MOST_TOKENS * MOST_WORDS];
} forest;

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// A tree of `tokens` tokens on every prefix; -1 is a root, of which there may be several. bits[token]: itself
// and what its parent sees.
static void plant(forest *f, int32_t tokens, uint32_t seed)
{
    f->c.num_seqs = PREFIXES;
    f->c.bits_stride = (tokens + 31) / 32;
    memset(f->bits, 0, sizeof f->bits);
    for (int32_t s = 0; s < PREFIXES; s++) {
        f->c.q_lens[s] = tokens;
        f->c.kv_lens[s] = prefixes[s] + tokens;
        for (int32_t i = 0; i < tokens; i++) {
            const int32_t parent = (int32_t)(draw(&seed) % (uint32_t)(i + 1)) - 1;
            uint32_t *row = f->bits + (s * tokens + i) * f->c.bits_stride;
            f->parents[s * tokens + i] = parent;
            for (int32_t w = 0; w < f->c.bits_stride && parent >= 0; w++)
                row[w] = f->bits[(s * tokens + parent) * f->c.bits_stride + w];
            row[i / 32] |= 1u << i % 32;
        }
    }
    f->c.parents = f->parents;
    f->c.bits = f->bits;
}

// Two digits where numbers are rounded to bf16, three where they are to 15 bits of their largest.
static double bound_of(const char *kernel)
{
    if (strstr(kernel, "avx512bf16") || strstr(kernel, "amx"))
        return 4e-2;
    return strstr(kernel, "vnni") ? 2e-3 : 2e-5;
}

static void hold(weft_context *context, forest *f, const char *kernel, const float *want)
{
    const size_t bytes = (size_t)f->c.out_elems * sizeof(float);
    float *tree = malloc(bytes), *bits = malloc(bytes);
    weft_attention_desc desc = f->c.desc;
    desc.variant = kernel;
    if (desc.kv.dtype != WEFT_F32 && desc.kv.dtype != WEFT_F16)
        desc.flags |= WEFT_ATTENTION_NARROW_QUERIES;
    if (weft_attention_supported(context, &desc, NULL)) {
        if (attention_case_run(context, &f->c, &desc, tree, NULL) != WEFT_OK)
            fail_msg("%s: %s", kernel, weft_error_text(context));
        desc.mask = WEFT_MASK_BITS;
        assert_int_equal(attention_case_run(context, &f->c, &desc, bits, NULL), WEFT_OK);
        const double far = attention_case_far(tree, want, f->c.out_elems);
        if (!(far <= bound_of(kernel)))
            fail_msg("%s, %s, %d tokens: %g off", kernel, weft_dtype_name(desc.kv.dtype),
                     (int)f->c.q_lens[0], far);
        if (memcmp(tree, bits, bytes) != 0)
            fail_msg("%s, %s, %d tokens: bits give another result than the tree", kernel,
                     weft_dtype_name(desc.kv.dtype), (int)f->c.q_lens[0]);
    }
    free(tree);
    free(bits);
}

static void grow(weft_context *context, weft_dtype dtype, int32_t tokens, int32_t page_size,
                 uint32_t seed)
{
    static forest f;
    weft_kernel_info kernel;
    f = (forest){
        .c.desc = {
            .kv = {.dtype = dtype, .num_kv_heads = 1, .head_dim = 64, .page_size = page_size},
            .num_q_heads = 4,
            .mask = WEFT_MASK_TREE}};
    plant(&f, tokens, seed);
    attention_case_make(&f.c);
    float *want = malloc((size_t)f.c.out_elems * sizeof *want);
    float *lse = malloc((size_t)f.c.lse_elems * sizeof *lse);
    attention_case_answer(&f.c, want, lse, 1);
    for (int32_t i = 0; weft_kernel_at(context, i, &kernel); i++)
        if (kernel.usable && strncmp(kernel.name, "attention_", 10) == 0)
            hold(context, &f, kernel.name, want);
    free(want);
    free(lse);
    attention_case_free(&f.c);
}

static void random_trees_on_short_and_long_prefixes(void **state)
{
    static const int32_t tokens[] = {1, 2, 4, 8, 17, 32, 33, 64};
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F16, WEFT_BF16, WEFT_INT8, WEFT_FP8_E4M3};
    static const int32_t pages[] = {1, 16, 128};
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++, seed++)
            grow(*state, dtypes[d], tokens[i], pages[seed % 3], seed);
    grow(*state, WEFT_F16, MOST_TOKENS, 16, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_trees_on_short_and_long_prefixes),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
