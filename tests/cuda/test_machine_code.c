// SPDX-License-Identifier: MIT
// What the text of kernels of attention and linear promises of their machine code: barriers, local memory, the
// width of copies, weights that stay in registers. Needs NVRTC and a disassembler (nvdisasm in PATH, or
// WEFT_TEST_NVDISASM); no GPU.
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/pipeline.h"
#include "src/base/memory.h"
#include "src/kernels/token/token_kernel.h"
#include "tests/support/scratch.h"

static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};

enum { MOST_CODE = 1 << 22 };
static char listing[MOST_CODE];

static const char *disassembler(void)
{
    const char *own = getenv("WEFT_TEST_NVDISASM");
    if (own && *own)
        return own;
    return system("nvdisasm --version >/dev/null 2>&1") == 0 ? "nvdisasm" : NULL;
}

// Compiles a kernel and leaves the code of its function, one instruction a line, in `listing`.
static void disassemble(const struct weft__nvrtc *nvrtc, const struct weft__cuda_kernel *kernel)
{
    static char log[65536], all[MOST_CODE];
    char path[SCRATCH_PATH_BYTES], command[512], arch[16];
    struct weft__cuda_image image;
    weft__cuda_arch(nvrtc, h200.sm, arch);
    assert_int_equal(weft__cuda_compile(nvrtc, kernel, arch, false, &image, log, sizeof log),
                     WEFT_OK);
    scratch_file(path, image.data, image.bytes);
    weft__base_release(NULL, image.data);
    snprintf(command, sizeof command, "'%s' -c '%s' 2>&1", disassembler(), path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    all[fread(all, 1, sizeof all - 1, pipe)] = 0;
    assert_int_equal(pclose(pipe), 0);
    scratch_remove(path);
    snprintf(command, sizeof command, "\n.text.%s:", kernel->function);
    const char *begin = strstr(all, command);
    assert_non_null(begin);
    begin += strlen(command);
    const char *end = strstr(begin, "\n.text.");
    size_t bytes = end ? (size_t)(end - begin) : strlen(begin);
    memcpy(listing, begin, bytes);
    listing[bytes] = 0;
}

// Lines from `from` up to `to` that hold `what`, and `beside` (NULL: any) behind it.
static int count(const char *from, const char *to, const char *what, const char *beside)
{
    int found = 0;
    while ((from = strstr(from, what)) != NULL && from < to) {
        const char *line_end = strchr(from, '\n'), *other = beside ? strstr(from, beside) : from;
        found += other && other < line_end;
        from = line_end;
    }
    return found;
}

static int in_all(const char *what)
{
    return count(listing, listing + strlen(listing), what, NULL);
}

static weft_attention_desc decode_desc(const char *variant)
{
    return (weft_attention_desc){.kv = {.dtype = strstr(variant, "int8") ? WEFT_INT8 : WEFT_BF16,
                                        .num_kv_heads = 8,
                                        .head_dim = 128,
                                        .page_size = 16},
                                 .q_dtype = WEFT_BF16,
                                 .out_dtype = WEFT_BF16,
                                 .num_q_heads = 32,
                                 .scale = 1,
                                 .max_seqs = 4,
                                 .max_q_tokens = 512,
                                 .max_kv_len = 8192,
                                 .variant = variant};
}

static void open_function(const struct weft__nvrtc *nvrtc, enum weft__op kind, const void *desc,
                          const char *function)
{
    const struct weft__cuda_op *op = weft__cuda_op(kind);
    struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
    assert_int_equal(op->plan(desc, &h200, &choice), WEFT_OK);
    int32_t i = 0;
    while (i < choice.num_kernels && strcmp(choice.kernels[i].function, function) != 0)
        i++;
    assert_true(i < choice.num_kernels);
    disassemble(nvrtc, &choice.kernels[i]);
    free(choice.launch);
    assert_int_equal(in_all(" STL"), 0); // local memory
    assert_int_equal(in_all(" LDL"), 0);
}

// Plans a kernel of attention and disassembles its function; skips the test where that cannot be.
static void open_code(const char *variant, const char *function)
{
    const char *why;
    const struct weft__nvrtc *nvrtc = weft__nvrtc(&why);
    if (!nvrtc || !disassembler()) {
        print_message("no machine code read: %s\n",
                      nvrtc ? "no nvdisasm in PATH; WEFT_TEST_NVDISASM may name one" : why);
        skip();
    }
    const weft_attention_desc desc = decode_desc(variant);
    open_function(nvrtc, WEFT__OP_attention, &desc, function);
}

static void a_warp_per_head_has_no_barrier(void **state)
{
    (void)state;
    open_code("attention_fast_bf16_sm80", "weft_attention_fast");
    assert_int_equal(in_all(" BAR."), 0);
    assert_int_equal(in_all(" STS"), 0);
    assert_true(in_all(" SHFL.") >= 5);
}

static void a_block_per_head_has_two_barriers(void **state)
{
    (void)state;
    open_code("attention_standard_bf16_sm80", "weft_attention_standard");
    assert_int_equal(in_all(" BAR."), 2);
    assert_int_equal(in_all(" STS"), 1); // a number per warp and key
}

static void warps_over_keys_meet_once(void **state)
{
    (void)state;
    open_code("attention_parallel_bf16_sm80", "weft_attention_parallel");
    assert_int_equal(in_all(" BAR."), 1);
}

// From the first product of a tile to the last.
static void products_of(const char **first, const char **last)
{
    *first = strstr(listing, " HMMA.");
    assert_non_null(*first);
    *last = *first;
    for (const char *at = *first; (at = strstr(at + 1, " HMMA.")) != NULL;)
        *last = at;
}

static void decode_copies_16_bytes(void **state)
{
    const char *first, *last;
    (void)state;
    open_code("attention_bf16_sm80", "weft_attention_decode");
    assert_true(in_all(" LDGSTS.") > 0);
    assert_int_equal(in_all(" LDGSTS."),
                     count(listing, listing + strlen(listing), " LDGSTS.", ".128"));
    products_of(&first, &last);
    assert_int_equal(count(first, last, " BAR.", NULL), 0);
}

// When the launch before has ended, queries are all that is asked for: where they lie has been computed.
static void queries_wait_last(void **state)
{
    (void)state;
    open_code("attention_bf16_sm80", "weft_attention_decode");
    const char *const query = strstr(listing, " LDG.E.U16"), *wait = listing, *at = listing;
    assert_non_null(query);
    while ((at = strstr(at + 1, " ACQBULK")) != NULL && at < query)
        wait = at;
    assert_true(wait > listing);
    assert_int_equal(count(wait, query, " I2F", NULL), 0); // a division
    assert_int_equal(count(wait, query, " BAR.", NULL), 0);
}

// Bytes that become bf16, queries in three parts.
static void bytes_are_widened_without_local_memory(void **state)
{
    (void)state;
    open_code("attention_int8_sm80", "weft_attention_decode");
    assert_int_equal(in_all(" LDGSTS."),
                     count(listing, listing + strlen(listing), " LDGSTS.", ".128"));
    open_code("attention_int8_sm80", "weft_attention_prefill");
}

// What is stored to shared memory among the products are rows of caches that are not aligned: 16 bytes. Weights
// would be stored by fours.
static void prefill_keeps_weights_in_registers(void **state)
{
    const char *first, *last;
    (void)state;
    open_code("attention_bf16_sm80", "weft_attention_prefill");
    assert_int_equal(in_all(" LDGSTS."),
                     count(listing, listing + strlen(listing), " LDGSTS.", ".128"));
    products_of(&first, &last);
    assert_int_equal(count(first, last, " STS", NULL), count(first, last, " STS.128", NULL));
    assert_int_equal(count(first, last, " BAR.", NULL), 0);
    assert_true(count(first, last, " SHFL.", NULL) >= 4); // rows' maxima, among four lanes
}

// The last line before `to` that holds `what`.
static const char *last_before(const char *to, const char *what)
{
    const char *found = NULL;
    for (const char *at = listing; (at = strstr(at, what)) != NULL && at < to; at++)
        found = at;
    return found;
}

// Of a tile, eight products of queries and keys and eight of weights and values, and the weights between the two waits
// for them; eight of either before the first tile and behind the last, and eight of the next item's queries and
// keys, beside which results are stored. One product follows the other: where operands lie is known in uniform
// registers.
static void warpgroups_make_weights_beside_products(void **state)
{
    enum { EACH = 8, WEIGHTS = 64, STORES = 8 };
    const char *product, *wait;
    (void)state;
    open_code("attention_bf16_sm90a", "weft_attention_prefill_wgmma");
    assert_int_equal(in_all(" HGMMA."), 5 * EACH);
    assert_int_equal(in_all(" WARPGROUP.DEPBAR"),
                     5); // one each that is waited for: none is serialized
    product = strstr(listing, ".tnspB");
    assert_non_null(product);
    product = strstr(product, " WARPGROUP.DEPBAR"); // of the scores
    assert_non_null(product);
    wait = strstr(product + 1, " WARPGROUP.DEPBAR"); // of the values
    assert_non_null(wait);
    assert_true(count(product, wait, " MUFU.EX2", NULL) >= WEIGHTS);
    assert_int_equal(count(product, wait, " HGMMA.", NULL), 0);
    assert_int_equal(count(strstr(listing, ".tnspB"), product, " R2UR", NULL), 0);
    wait = last_before(listing + strlen(listing), " WARPGROUP.DEPBAR"); // of the next item's scores
    product = last_before(wait, " HGMMA.");
    assert_true(count(product, wait, " STG.E.128", NULL) >= STORES);
    assert_int_equal(in_all(" LDGSTS."),
                     count(listing, listing + strlen(listing), " LDGSTS.", ".128"));
}

// One row of X, packed weights: everything comes 16 bytes at a time, and X is read once for 16 rows of W.
static void open_linear_of(weft_dtype format, const char *function, const char *variant,
                           int32_t max_batch, int32_t rows)
{
    const char *why;
    const struct weft__nvrtc *nvrtc = weft__nvrtc(&why);
    if (!nvrtc || !disassembler())
        skip();
    const weft_linear_desc desc = {
        .cols = 4096,
        .max_batch = max_batch,
        .x_dtype = WEFT_F32,
        .y_dtype = WEFT_F32,
        .num_parts = 1,
        .flags = weft_dtype_block_elems(format) > 1 ? WEFT_LINEAR_X_ROUNDED : 0, // as a model's
        .variant = variant,
        .parts = {
            {.weight_dtype = format, .scale_dtype = WEFT_F32, .rows = rows, .scale_rows = 1}}};
    open_function(nvrtc, WEFT__OP_linear, &desc, function);
    assert_int_equal(in_all(" DFMA") + in_all(" DMUL") + in_all(" DADD"), 0);
}

static void open_linear_for(weft_dtype format, const char *function, const char *variant,
                            int32_t max_batch)
{
    open_linear_of(format, function, variant, max_batch, 4096);
}

static void open_linear_as(weft_dtype format, const char *function, const char *variant)
{
    open_linear_for(format, function, variant, 1);
}

static void open_linear_named(weft_dtype format, const char *variant)
{
    open_linear_as(format, "weft_linear_few", variant);
    assert_int_equal(in_all(" LDGSTS."), in_all(" LDGSTS.E.BYPASS.LTC128B.128"));
    assert_int_equal(count(listing, listing + strlen(listing), " LDGSTS.", "+UR"), 0);
    assert_true(in_all(" LDG.E.128") > 0); // X
}

static void open_linear(weft_dtype format)
{
    open_linear_named(format, NULL);
}

// Copies with a policy whose addresses a uniform register is added to have none left for the policy: [R + UR0],
// desc[UR1] is an illegal instruction, which ptxas writes nonetheless.
static void copies_of_plain_weights_have_their_policy(void **state)
{
    (void)state;
    open_linear_as(WEFT_BF16, "weft_linear_numbers", NULL);
    assert_true(in_all(" LDGSTS.E.BYPASS.128.ZFILL") >= 8);
    assert_int_equal(count(listing, listing + strlen(listing), " LDGSTS.", "+UR"), 0);
}

// Sums that go to another block of the cluster are counted by its barrier: there is no fence, not even at the beginning, where blocks say that they are there.
static void sums_are_sent_without_a_fence(void **state)
{
    (void)state;
    enum { MANY = 32768 }; // for fewer rows of W X is kept as numbers
    open_linear_of(WEFT_BF16, "weft_linear_numbers_some", NULL, 8, MANY);
    assert_int_equal(in_all(" HMMA.16816.F32.BF16"),
                     2 * 2 * 3); // a tile: two chunks a lane, three terms of X
    assert_true(in_all(" STAS.64") >= 2);
    assert_int_equal(in_all(" MEMBAR.ALL.GPU"), 0);
    assert_int_equal(in_all(" UCGABAR_WAIT"), 1);
    open_linear_of(WEFT_F16, "weft_linear_numbers_some", NULL, 8, MANY);
    assert_int_equal(in_all(" HMMA.1688.F32.TF32"), 2 * 4 * 2);
    // As numbers, in two texts: of finite ones, what is left of a number is neither looked at nor rounded.
    open_linear_for(WEFT_F16, "weft_linear_numbers_some", NULL, 8);
    assert_int_equal(in_all(" HMMA.1688.F32.TF32"), 2 * (2 * 4 * 2));
}

static void a_tile_of_four_bits_takes_few_loads(void **state)
{
    (void)state;
    open_linear(WEFT_Q4_0);
    assert_int_equal(in_all(" IMMA."), 8);
    assert_int_equal(in_all(" LDS.128"), 4 + 1); // codes; scales of X
    assert_int_equal(in_all(" LDS.64"), 1 + 1);  // codes of X; scales
}

// Four integer products of 16 by 16 a pair; dots of two sixteens meet their scales in one instruction.
static void few_bits_meet_their_scales_as_integers(void **state)
{
    (void)state;
    open_linear(WEFT_Q2_K);
    assert_int_equal(in_all(" IMMA."), 16);
    assert_int_equal(in_all(" IDP.2A"), 8); // and as many for what is subtracted
    open_linear(WEFT_Q3_K);
    assert_true(in_all(" IDP.2A") >= 4 + 4 && in_all(" IDP.2A") <= 4 + 6); // scales; offsets
}

// Points of a lattice: a dot of bytes is the address, a load of 4 bytes the point.
static void a_point_takes_one_dot_and_one_load(void **state)
{
    (void)state;
    open_linear(WEFT_IQ2_XXS); // two pairs, a loop over them
    assert_int_equal(in_all(" IMMA."), 4);
    assert_int_equal(in_all(" IDP.4A"), 8);
    open_linear(WEFT_IQ2_XS); // two scales a unit cost no more products
    assert_int_equal(in_all(" IMMA."), 8);
    open_linear(WEFT_IQ3_XXS);
    assert_int_equal(in_all(" IDP.4A"), 16);
    open_linear(WEFT_IQ3_S); // numbers of 9 bits, in halves of words
    assert_int_equal(in_all(" IDP.4A"), 0);
    assert_int_equal(in_all(" IDP.2A"), 16);
}

// Tables stay in registers, and scales of nvfp4 are a shift and a product.
static void eight_rows_keep_their_tables(void **state)
{
    (void)state;
    open_linear_for(WEFT_NVFP4, "weft_linear_few", NULL, 8);
    assert_true(in_all(" FSEL") == 0 && in_all(" PRMT ") >= 64);
    assert_true(in_all(" IMAD.U32 ") < 16);
    open_linear_for(WEFT_IQ4_XS, "weft_linear_few", NULL, 8);
    assert_int_equal(in_all(" I2FP"), 0);
}

// Tiles of two row blocks, two slots a turn: what is made of X is made for two tiles, and a lane's own table
// costs an address nothing.
static void two_row_blocks_share_x(void **state)
{
    (void)state;
    open_linear_named(WEFT_Q2_K, "linear_q2_k_q8_wide_sm80");
    assert_int_equal(in_all(" IMMA."), 4 * 16);
    assert_true(in_all(" SEL ") <= 2 * 16 + 8); // columns of B that are zero, once a slot
    open_linear_named(WEFT_IQ2_XXS, "linear_iq2_xxs_q8_wide_sm80");
    assert_int_equal(in_all(" IMMA."), 4 * 8);
    assert_int_equal(in_all(" IDP.4A"), 4 * 16);
}

// A slot of the ring is given back when what was read of it has returned: the copy engine does not wait for
// loads in a queue. What waits for them compares what they loaded with a number (loads_end()).
static void slots_are_given_back_behind_their_loads(weft_dtype format, weft_dtype second,
                                                    int32_t even, int32_t waits)
{
    const char *why, *const returned = "-0x61c88647";
    const struct weft__nvrtc *nvrtc = weft__nvrtc(&why);
    struct weft__cuda_kernel kernel;
    bool in_queue = false;
    if (!nvrtc || !disassembler())
        skip();
    weft__token_sample(format, second, even, &kernel);
    disassemble(nvrtc, &kernel);
    assert_int_equal(in_all(" STL"), 0);
    assert_int_equal(in_all(returned), waits);
    for (const char *line = listing, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        if (count(line, end, " LDSM.", NULL))
            in_queue = true;
        if (count(line, end, returned, NULL))
            in_queue = false;
        assert_false(in_queue && count(line, end, " SYNCS.ARRIVE", NULL));
    }
}

static void a_token_gives_back_slots_behind_its_loads(void **state)
{
    (void)state;
    // keys and values; tiles that are taken before X is there, and those of three texts
    slots_are_given_back_behind_their_loads(WEFT_Q4_0, 0, 27, 1 + 4);
    slots_are_given_back_behind_their_loads(WEFT_Q8_0, 0, 17, 1 + 1);
    slots_are_given_back_behind_their_loads(WEFT_BF16, 0, 31,
                                            1 + 3); // before X, gate and up, others
    slots_are_given_back_behind_their_loads(WEFT_Q4_K, 0, 27, 1 + 4);
    // and of the second format: before X is there, the first of V, the next early and late
    slots_are_given_back_behind_their_loads(WEFT_Q4_K, WEFT_Q6_K, 251, 1 + 4 + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_plain_weights_have_their_policy),
        cmocka_unit_test(sums_are_sent_without_a_fence),
        cmocka_unit_test(a_tile_of_four_bits_takes_few_loads),
        cmocka_unit_test(few_bits_meet_their_scales_as_integers),
        cmocka_unit_test(a_point_takes_one_dot_and_one_load),
        cmocka_unit_test(eight_rows_keep_their_tables),
        cmocka_unit_test(two_row_blocks_share_x),
        cmocka_unit_test(a_token_gives_back_slots_behind_its_loads),

        cmocka_unit_test(a_warp_per_head_has_no_barrier),
        cmocka_unit_test(a_block_per_head_has_two_barriers),
        cmocka_unit_test(warps_over_keys_meet_once),
        cmocka_unit_test(decode_copies_16_bytes),
        cmocka_unit_test(queries_wait_last),
        cmocka_unit_test(bytes_are_widened_without_local_memory),
        cmocka_unit_test(prefill_keeps_weights_in_registers),
        cmocka_unit_test(warpgroups_make_weights_beside_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
