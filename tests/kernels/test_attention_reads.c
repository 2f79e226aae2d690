// SPDX-License-Identifier: MIT
// How often attention reads the KV pools, counted: keys and values are read once per KV head, however many
// query heads and queries share them.
//
// The pools lie in pages that must not be touched. A load faults; the handler opens the pool, lets the
// processor do this one instruction (trap flag) and closes it again. Requests to prefetch do not fault.
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/support/context_fixture.h"

#if defined(__x86_64__) && defined(__linux__)

enum { KV_HEADS = 2, KEYS = 128, PAGE = 64, PAGES = KEYS / PAGE, MOST_ROWS = 128, MOST_DIM = 128 };
enum { POOL_BYTES = KEYS * KV_HEADS * MOST_DIM * 4, TRAP_FLAG = 0x100 };

static unsigned char *pools[2]; // keys, values
static volatile long loads[2];
static volatile int open_pool = -1;

static void protect(int pool, int protection)
{
    if (mprotect(pools[pool], POOL_BYTES, protection) != 0)
        abort();
}

static void on_load(int signal_number, siginfo_t *info, void *context)
{
    const unsigned char *at = info->si_addr;
    (void)signal_number;
    for (int i = 0; i < 2; i++)
        if (at >= pools[i] && at < pools[i] + POOL_BYTES) {
            loads[i]++;
            open_pool = i;
            protect(i, PROT_READ);
            ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
            return;
        }
    signal(SIGSEGV, SIG_DFL);
}

static void on_step(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number, (void)info;
    protect(open_pool, PROT_NONE);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static int open_pools(void **state)
{
    const weft_context_desc desc = {.size = sizeof desc, .threads = 1};
    for (int i = 0; i < 2; i++) {
        pools[i] = mmap(NULL, POOL_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pools[i] == MAP_FAILED)
            return -1;
    }
    return weft_context_create(&desc, (weft_context **)(void *)state) == WEFT_OK ? 0 : -1;
}

// Are bf16 keys multiplied in pairs, a line of 32 elements at a time?
static bool has_pairs(const weft_context *context)
{
    return strcmp(weft_context_isa(context), "avx512bf16") == 0;
}

// Elements that a load of these kernels takes: a vector of the instruction set.
static int32_t lanes_of(const weft_context *context, weft_dtype dtype)
{
    const char *isa = weft_context_isa(context);
    if (dtype == WEFT_BF16)
        return has_pairs(context) ? 32 : 0;
    return strncmp(isa, "avx512", 6) == 0 ? 16 : strcmp(isa, "avx2") == 0 ? 8 : 0;
}

static void count(weft_context *context, weft_dtype dtype, int32_t head_dim, int32_t tokens,
                  int32_t group)
{
    static float q[MOST_ROWS * KV_HEADS * MOST_DIM], out[MOST_ROWS * KV_HEADS * MOST_DIM];
    const int32_t cu[2] = {0, tokens}, kv_len = KEYS, table[PAGES] = {1, 0};
    weft_plan *plan;
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = dtype, .num_kv_heads = KV_HEADS, .head_dim = head_dim, .page_size = PAGE},
        .num_q_heads = KV_HEADS * group,
        .mask = WEFT_MASK_FULL,
        .flags = dtype == WEFT_BF16 ? WEFT_ATTENTION_NARROW_QUERIES : 0,
        .max_q_tokens = tokens,
        .max_kv_len = KEYS};
    assert_true(tokens * group <= MOST_ROWS);
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = 1,
        .q = q,
        .out = out,
        .pool = {.k.data = pools[0], .v.data = pools[1], .num_pages = PAGES},
        .cu_q_lens = cu,
        .kv_lens = &kv_len,
        .page_table = table,
        .workspace = aligned_alloc(64, bytes),
        .workspace_bytes = bytes};
    loads[0] = loads[1] = 0;
    protect(0, PROT_NONE);
    protect(1, PROT_NONE);
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    protect(0, PROT_READ);
    protect(1, PROT_READ);
    const int32_t lanes = lanes_of(context, dtype);
    const long once = (long)KEYS * KV_HEADS * ((head_dim + lanes - 1) / lanes);
    if (loads[0] != once || loads[1] != once)
        fail_msg("%s x %d, %d queries, %d heads share a KV head: %ld loads of keys, %ld of values, "
                 "not %ld",
                 weft_dtype_name(dtype), head_dim, tokens, group, loads[0], loads[1], once);
    free(args.workspace);
    weft_plan_destroy(plan);
}

static void reads_keys_and_values_once(void **state)
{
    static const weft_dtype dtypes[] = {WEFT_F16, WEFT_F32, WEFT_BF16};
    static const int32_t dims[] = {128, 80};
    static const int32_t shapes[][2] = {{1, 1},  {1, 4}, {1, 8}, {8, 1},
                                        {1, 12}, {24, 4}}; // queries, heads: few rows and many
    const struct sigaction load = {.sa_sigaction = on_load, .sa_flags = SA_SIGINFO};
    const struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    if (lanes_of(*state, WEFT_F32) == 0)
        skip();
    sigaction(SIGSEGV, &load, NULL); // cmocka has one of its own until here
    sigaction(SIGTRAP, &step, NULL);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2 && lanes_of(*state, dtypes[i]) > 0; j++)
            for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
                if (dtypes[i] != WEFT_BF16 || shapes[n][0] * shapes[n][1] ==
                                                  8) // 4 rows: quarters of a line; 16: values twice
                    count(*state, dtypes[i], dims[j], shapes[n][0], shapes[n][1]);
}

#else

static int open_pools(void **state)
{
    return open_context(state);
}

static void reads_keys_and_values_once(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_keys_and_values_once)};
    return cmocka_run_group_tests(tests, open_pools, close_context);
}
