// SPDX-License-Identifier: MIT
// Formats and tensors: queries that need no context.
#include <limits.h>

#include "tests/support/context_fixture.h"

static void formats_know_their_sizes(void **state)
{
    static const struct {
        weft_dtype dtype;
        const char *name;
        int32_t elems, bytes;
    } want[] = {{WEFT_F32, "f32", 1, 4},      {WEFT_F16, "f16", 1, 2},
                {WEFT_BF16, "bf16", 1, 2},    {WEFT_Q8_0, "q8_0", 32, 34},
                {WEFT_Q4_0, "q4_0", 32, 18},  {WEFT_Q4_K, "q4_k", 256, 144},
                {WEFT_Q6_K, "q6_k", 256, 210}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_string_equal(weft_dtype_name(want[i].dtype), want[i].name);
        assert_int_equal(weft_dtype_parse(want[i].name), want[i].dtype);
        assert_int_equal(weft_dtype_block_elems(want[i].dtype), want[i].elems);
        assert_int_equal(weft_dtype_block_bytes(want[i].dtype), want[i].bytes);
        assert_int_equal(weft_dtype_row_bytes(want[i].dtype, 512),
                         512 / want[i].elems * want[i].bytes);
    }
    int32_t n = 0;
    for (; weft_dtype_at(n); n++) {
        assert_int_equal(weft_dtype_parse(weft_dtype_name(weft_dtype_at(n))), weft_dtype_at(n));
        if (n > 0)
            assert_true(weft_dtype_at(n) > weft_dtype_at(n - 1));
    }
    assert_true(n >= 7);
    assert_int_equal(weft_dtype_at(-1), WEFT_DTYPE_NONE);
}

static void what_is_no_format(void **state)
{
    (void)state;
    const weft_dtype none = (weft_dtype)7;
    assert_null(weft_dtype_name(none));
    assert_int_equal(weft_dtype_block_elems(none), 0);
    assert_int_equal(weft_dtype_block_bytes(WEFT_DTYPE_NONE), 0);
    assert_int_equal(weft_dtype_row_bytes(none, 32), -1);
    assert_int_equal(weft_dtype_parse("Q8_0"), WEFT_DTYPE_NONE);
    assert_int_equal(weft_dtype_parse(""), WEFT_DTYPE_NONE);
    assert_int_equal(weft_dtype_parse(NULL), WEFT_DTYPE_NONE);
    assert_int_equal(weft_dtype_row_bytes(WEFT_Q8_0, 33), -1);
    assert_int_equal(weft_dtype_row_bytes(WEFT_Q8_0, -32), -1);
    assert_int_equal(weft_dtype_row_bytes(WEFT_F32, INT64_MAX / 4), INT64_MAX / 4 * 4);
    assert_int_equal(weft_dtype_row_bytes(WEFT_F32, INT64_MAX / 4 + 1), -1);
    assert_int_equal(weft_dtype_row_bytes(WEFT_Q8_0, 0), 0);
}

static void packs(void **state)
{
    (void)state;
    const int64_t shape[3] = {2, 3, 64};
    weft_tensor tensor;
    assert_int_equal(weft_tensor_packed(WEFT_Q4_0, 3, shape, &tensor, &tensor), WEFT_OK);
    assert_true(tensor.stride[0] == 192 && tensor.stride[1] == 64 && tensor.stride[2] == 1);
    assert_int_equal(weft_tensor_span_bytes(&tensor), 6 * 2 * 18);
    tensor.stride[0] = 1024; // room between the matrices
    assert_int_equal(weft_tensor_span_bytes(&tensor), (1024 + 192) / 32 * 18);
    tensor.shape[1] = 0;
    assert_int_equal(weft_tensor_span_bytes(&tensor), 0);
    tensor.shape[1] = 3;
    tensor.stride[0] = -1;
    assert_int_equal(weft_tensor_span_bytes(&tensor), -1);
    tensor.stride[0] = INT64_MAX;
    tensor.shape[0] = 3;
    assert_int_equal(weft_tensor_span_bytes(&tensor), -1);
    tensor.rank = 6;
    assert_int_equal(weft_tensor_span_bytes(&tensor), -1);
    assert_int_equal(weft_tensor_span_bytes(NULL), -1);
}

static void refuses_shapes(void **state)
{
    (void)state;
    weft_tensor tensor = {.rank = 42};
    const int64_t odd[1] = {33}, negative[2] = {-1, 32}, huge[3] = {INT64_C(1) << 40, 1 << 30, 32},
                  bytes[2] = {INT64_C(1) << 61, 2};
    assert_int_equal(weft_tensor_packed(WEFT_Q8_0, 1, odd, NULL, &tensor), WEFT_EINVAL);
    assert_int_equal(weft_tensor_packed(WEFT_F32, 2, negative, NULL, &tensor), WEFT_EINVAL);
    assert_int_equal(weft_tensor_packed(WEFT_F32, 0, odd, NULL, &tensor), WEFT_EINVAL);
    assert_int_equal(weft_tensor_packed(WEFT_F32, WEFT_MAX_RANK + 1, odd, NULL, &tensor),
                     WEFT_EINVAL);
    assert_int_equal(weft_tensor_packed(WEFT_F32, 1, NULL, NULL, &tensor), WEFT_EINVAL);
    assert_int_equal(weft_tensor_packed(WEFT_F32, 1, odd, NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_tensor_packed(WEFT_DTYPE_NONE, 1, odd, NULL, &tensor), WEFT_EINVAL);
    assert_int_equal(weft_tensor_packed(WEFT_Q8_0, 3, huge, NULL, &tensor), WEFT_EOVERFLOW);
    assert_int_equal(weft_tensor_packed(WEFT_F32, 2, bytes, NULL, &tensor), WEFT_EOVERFLOW);
    assert_int_equal(tensor.rank, 42); // untouched
}

// DLTensor as its specification lays it out (DLPack 0.8 and 1.x).
struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

static void takes_dlpack(void **state)
{
    (void)state;
    float data[32];
    int64_t shape[2] = {3, 4}, strides[2] = {8, 2};
    struct dl_tensor from = {.data = data,
                             .device_type = 1,
                             .ndim = 2,
                             .code = 2,
                             .bits = 32,
                             .lanes = 1,
                             .shape = shape,
                             .strides = strides,
                             .byte_offset = 8};
    weft_tensor tensor;
    assert_int_equal(weft_tensor_from_dlpack(&from, &tensor), WEFT_OK);
    assert_ptr_equal(tensor.data, data + 2);
    assert_int_equal(tensor.dtype, WEFT_F32);
    assert_true(tensor.rank == 2 && tensor.shape[0] == 3 && tensor.shape[1] == 4);
    assert_true(tensor.stride[0] == 8 && tensor.stride[1] == 2);
    from.strides = NULL; // packed
    from.bits = 16;
    assert_int_equal(weft_tensor_from_dlpack(&from, &tensor), WEFT_OK);
    assert_int_equal(tensor.dtype, WEFT_F16);
    assert_true(tensor.stride[0] == 4 && tensor.stride[1] == 1);
    from.code = 4;
    assert_int_equal(weft_tensor_from_dlpack(&from, &tensor), WEFT_OK);
    assert_int_equal(tensor.dtype, WEFT_BF16);
}

static void dlpack_names_its_device(void **state)
{
    (void)state;
    int64_t shape[1] = {4};
    const struct {
        int32_t type, id;
        weft_device device;
        int32_t index;
    } devices[] = {{1, 0, WEFT_DEVICE_CPU, 0},
                   {2, 3, WEFT_DEVICE_CUDA, 3},
                   {3, 3, WEFT_DEVICE_CPU, 0}, // pinned
                   {13, 1, WEFT_DEVICE_CUDA, 1}};
    for (int i = 0; i < 4; i++) {
        weft_tensor tensor;
        struct dl_tensor from = {.device_type = devices[i].type,
                                 .device_id = devices[i].id,
                                 .ndim = 1,
                                 .code = 2,
                                 .bits = 32,
                                 .lanes = 1,
                                 .shape = shape};
        assert_int_equal(weft_tensor_from_dlpack(&from, &tensor), WEFT_OK);
        assert_int_equal(tensor.device, devices[i].device);
        assert_int_equal(tensor.device_index, devices[i].index);
        assert_int_equal(tensor.reserved[0], 0);
    }
}

static void refuses_dlpack(void **state)
{
    (void)state;
    int64_t shape[2] = {3, 4}, negative[2] = {3, -4};
    const struct dl_tensor good = {
        .device_type = 1, .ndim = 2, .code = 2, .bits = 32, .lanes = 1, .shape = shape};
    weft_tensor tensor = {.rank = 42};
    struct dl_tensor bad = good;
    bad.device_type = 10; // ROCm
    assert_int_equal(weft_tensor_from_dlpack(&bad, &tensor), WEFT_EUNSUPPORTED);
    bad = good;
    bad.bits = 64;
    assert_int_equal(weft_tensor_from_dlpack(&bad, &tensor), WEFT_EUNSUPPORTED);
    bad = good;
    bad.code = 0; // integers
    assert_int_equal(weft_tensor_from_dlpack(&bad, &tensor), WEFT_EUNSUPPORTED);
    bad = good;
    bad.lanes = 4;
    assert_int_equal(weft_tensor_from_dlpack(&bad, &tensor), WEFT_EUNSUPPORTED);
    bad = good;
    bad.ndim = 0;
    assert_int_equal(weft_tensor_from_dlpack(&bad, &tensor), WEFT_EINVAL);
    bad.ndim = WEFT_MAX_RANK + 1;
    assert_int_equal(weft_tensor_from_dlpack(&bad, &tensor), WEFT_EINVAL);
    bad = good;
    bad.shape = NULL;
    assert_int_equal(weft_tensor_from_dlpack(&bad, &tensor), WEFT_EINVAL);
    bad.shape = negative;
    assert_int_equal(weft_tensor_from_dlpack(&bad, &tensor), WEFT_EINVAL);
    assert_int_equal(weft_tensor_from_dlpack(NULL, &tensor), WEFT_EINVAL);
    assert_int_equal(weft_tensor_from_dlpack(&good, NULL), WEFT_EINVAL);
    assert_int_equal(tensor.rank, 42);
}

static void every_status_has_words(void **state)
{
    (void)state;
#define HAS_WORDS(name, value, text) assert_string_equal(weft_status_text(WEFT_##name), text);
    WEFT_STATUS_MAP(HAS_WORDS)
    assert_string_equal(weft_status_text((weft_status)-9999), "unknown status");
    assert_non_null(weft_version());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_know_their_sizes),
        cmocka_unit_test(what_is_no_format),
        cmocka_unit_test(packs),
        cmocka_unit_test(refuses_shapes),
        cmocka_unit_test(takes_dlpack),
        cmocka_unit_test(dlpack_names_its_device),
        cmocka_unit_test(refuses_dlpack),
        cmocka_unit_test(every_status_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
