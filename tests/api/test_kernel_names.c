// SPDX-License-Identifier: MIT
// Names of kernels are what people type: <operation>_<what it is for>_<instruction set>, lower case,
// and each only once.
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

static void names_follow_the_rule(void **state)
{
    (void)state;
    weft_context *context;
    weft_kernel_info kernel, other;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    int32_t n = 0;
    for (; weft_kernel_at(context, n, &kernel); n++) {
        size_t length = strlen(kernel.name), isa_length = strlen(kernel.isa);
        assert_memory_equal(kernel.name, kernel.op, strlen(kernel.op));
        assert_true(length > isa_length);
        assert_string_equal(kernel.name + length - isa_length, kernel.isa);
        for (size_t i = 0; i < length; i++)
            assert_true(islower((unsigned char)kernel.name[i]) ||
                        isdigit((unsigned char)kernel.name[i]) || kernel.name[i] == '_');
        for (int32_t m = 0; m < n; m++) {
            assert_true(weft_kernel_at(context, m, &other));
            assert_string_not_equal(kernel.name, other.name);
        }
    }
    assert_true(n > 0);
    weft_context_destroy(context);
}

static void names_use_the_names_of_formats(void **state)
{
    (void)state;
    weft_context *context;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    for (int32_t n = 0; weft_dtype_at(n) != WEFT_DTYPE_NONE; n++) {
        char wanted[64] = "embedding_";
        strcat(strcat(wanted, weft_dtype_name(weft_dtype_at(n))), "_ref");
        weft_kernel_info kernel;
        bool found = false;
        for (int32_t i = 0; weft_kernel_at(context, i, &kernel); i++)
            found = found || strcmp(kernel.name, wanted) == 0;
        if (!found)
            fail_msg("no kernel is called %s", wanted);
    }
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_rule),
        cmocka_unit_test(names_use_the_names_of_formats),
    };
    return cmocka_run_group_tests_name("kernel_names", tests, NULL, NULL);
}
