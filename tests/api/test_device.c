// SPDX-License-Identifier: MIT
// The door for devices, which on the CPU works trivially: descriptions, memory, copies, streams, events.
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "tests/support/context_fixture.h"

static void the_cpu_describes_itself(void **state)
{
    weft_device_info info = {.size = sizeof info};
    (void)state;
    assert_int_equal(weft_device_count(WEFT_DEVICE_CPU), 1);
    assert_int_equal(weft_device_describe(WEFT_DEVICE_CPU, 0, &info), WEFT_OK);
    assert_true(info.cores >= 1 && info.memory_bytes > 1 << 20 && info.cache_bytes >= 0);
    assert_true(strlen(info.name) > 0 && strlen(info.architecture) > 0);
    assert_int_equal(info.size, sizeof info);
    // An older caller's struct is not written past its end.
    memset(&info, 0x5a, sizeof info);
    info.size = offsetof(weft_device_info, name);
    assert_int_equal(weft_device_describe(WEFT_DEVICE_CPU, 0, &info), WEFT_OK);
    assert_int_equal(info.name[0], 0x5a);
}

static void bad_descriptions_are_refused(void **state)
{
    weft_device_info info = {.size = sizeof info};
    (void)state;
    assert_int_equal(weft_device_describe(WEFT_DEVICE_CPU, 1, &info), WEFT_EINVAL);
    assert_non_null(strstr(weft_error_text(NULL), "this machine has 1"));
    assert_int_equal(weft_device_describe(WEFT_DEVICE_CPU, -1, &info), WEFT_EINVAL);
    assert_int_equal(weft_device_describe(WEFT_DEVICE_CPU, 0, NULL), WEFT_EINVAL);
    info.size = 0;
    assert_int_equal(weft_device_describe(WEFT_DEVICE_CPU, 0, &info), WEFT_EINVAL);
    info.size = sizeof info + 8;
    assert_int_equal(weft_device_describe(WEFT_DEVICE_CPU, 0, &info), WEFT_EINVAL);
    assert_int_equal(weft_device_count((weft_device)77), 0);
    info.size = sizeof info;
    assert_int_equal(weft_device_describe((weft_device)77, 0, &info), WEFT_EINVAL);
}

static void memory_is_aligned_and_whole(void **state)
{
    const size_t sizes[] = {0, 1, 63, 256, 100000};
    for (size_t i = 0; i < 5; i++)
        for (int kind = 0; kind < 2; kind++) {
            unsigned char *memory = NULL;
            assert_int_equal(weft_memory_allocate(*state, (weft_memory_kind)kind, sizes[i],
                                                  (void **)(void *)&memory),
                             WEFT_OK);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % 256, 0);
            assert_int_equal(weft_fill(*state, memory, 0xa5, sizes[i], NULL), WEFT_OK);
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(memory[k], 0xa5);
            weft_memory_free(*state, memory);
        }
    weft_memory_free(*state, NULL);
    weft_memory_free(NULL, NULL);
}

static void bad_memory_is_refused(void **state)
{
    void *memory = state;
    assert_int_equal(weft_memory_allocate(NULL, WEFT_MEMORY_DEVICE, 1, &memory), WEFT_EINVAL);
    assert_int_equal(weft_memory_allocate(*state, WEFT_MEMORY_DEVICE, 1, NULL), WEFT_EINVAL);
    assert_refused(*state, weft_memory_allocate(*state, (weft_memory_kind)2, 1, &memory),
                   WEFT_EINVAL, "kind 2");
    assert_refused(*state, weft_memory_allocate(*state, WEFT_MEMORY_DEVICE, SIZE_MAX, &memory),
                   WEFT_ENOMEM, "no memory for");
    assert_ptr_equal(memory, state);
    assert_refused(*state, weft_copy(*state, NULL, state, 1, NULL), WEFT_EINVAL, "NULL");
    assert_refused(*state, weft_fill(*state, NULL, 0, 1, NULL), WEFT_EINVAL, "NULL");
    assert_int_equal(weft_copy(*state, NULL, NULL, 0, NULL), WEFT_OK);
}

static void copies_go_along_streams(void **state)
{
    weft_stream *stream = NULL;
    char from[] = "warp and weft", to[sizeof from] = {0};
    assert_int_equal(weft_stream_create(*state, &stream), WEFT_OK);
    assert_int_equal(weft_copy(*state, to, from, sizeof from, stream), WEFT_OK);
    assert_int_equal(weft_stream_synchronize(*state, stream), WEFT_OK);
    assert_string_equal(to, from);
    assert_int_equal(weft_stream_synchronize(*state, NULL), WEFT_OK);
    weft_stream_destroy(stream);
    weft_stream_destroy(NULL);
    assert_refused(*state, weft_stream_wrap(*state, state, &stream), WEFT_EUNSUPPORTED,
                   "no streams of its own");
    assert_int_equal(weft_stream_create(*state, NULL), WEFT_EINVAL);
    assert_int_equal(weft_stream_create(NULL, &stream), WEFT_EINVAL);
}

static void events_measure(void **state)
{
    weft_event *begin, *end;
    double us = -1;
    assert_int_equal(weft_event_create(*state, &begin), WEFT_OK);
    assert_int_equal(weft_event_create(*state, &end), WEFT_OK);
    assert_refused(*state, weft_event_synchronize(begin), WEFT_EINVAL, "never recorded");
    assert_refused(*state, weft_event_wait(begin, NULL), WEFT_EINVAL, "never recorded");
    assert_int_equal(weft_event_record(begin, NULL), WEFT_OK);
    assert_refused(*state, weft_event_elapsed_us(begin, end, &us), WEFT_EINVAL, "never recorded");
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    assert_int_equal(weft_event_record(end, NULL), WEFT_OK);
    assert_int_equal(weft_event_wait(end, NULL), WEFT_OK);
    assert_int_equal(weft_event_synchronize(end), WEFT_OK);
    assert_int_equal(weft_event_elapsed_us(begin, end, &us), WEFT_OK);
    assert_true(us >= 2999 && us < 60e6);
    weft_event_destroy(begin);
    weft_event_destroy(end);
    weft_event_destroy(NULL);
}

static void strangers_are_refused(void **state)
{
    weft_context *other;
    weft_stream *stream;
    weft_event *ours, *theirs;
    weft_plan *plan;
    float x[4] = {1, 2, 3, 4};
    double us;
    assert_int_equal(weft_context_create(NULL, &other), WEFT_OK);
    assert_int_equal(weft_stream_create(other, &stream), WEFT_OK);
    assert_refused(*state, weft_fill(*state, x, 0, 4, stream), WEFT_EINVAL, "another context");
    assert_refused(*state, weft_copy(*state, x, x + 2, 4, stream), WEFT_EINVAL, "another context");
    assert_refused(*state, weft_stream_synchronize(*state, stream), WEFT_EINVAL, "another context");
    assert_int_equal(
        weft_softmax_plan(*state, &(weft_softmax_desc){.size = sizeof(weft_softmax_desc), .dim = 4},
                          &plan),
        WEFT_OK);
    weft_softmax_args args = {.size = sizeof args, .rows = 1, .x = x, .stream = stream};
    assert_refused(*state, weft_softmax_run(plan, &args), WEFT_EINVAL, "another context");
    assert_true(x[0] == 1); // nothing was done
    weft_plan_destroy(plan);
    assert_int_equal(weft_event_create(*state, &ours), WEFT_OK);
    assert_int_equal(weft_event_create(other, &theirs), WEFT_OK);
    assert_refused(*state, weft_event_record(ours, stream), WEFT_EINVAL, "another context");
    assert_refused(*state, weft_event_elapsed_us(ours, theirs, &us), WEFT_EINVAL,
                   "different contexts");
    weft_event_destroy(ours);
    weft_event_destroy(theirs);
    weft_stream_destroy(stream);
    weft_context_destroy(other);
}

static void a_run_on_a_stream_of_its_own(void **state)
{
    weft_stream *stream;
    weft_plan *plan;
    float x[4] = {0, 0, 0, 0};
    weft_softmax_desc desc = {.size = sizeof desc, .dim = 4};
    assert_int_equal(weft_stream_create(*state, &stream), WEFT_OK);
    assert_int_equal(weft_softmax_plan(*state, &desc, &plan), WEFT_OK);
    weft_softmax_args args = {.size = sizeof args, .rows = 1, .x = x, .stream = stream};
    assert_int_equal(weft_softmax_run(plan, &args), WEFT_OK);
    assert_int_equal(weft_stream_synchronize(*state, stream), WEFT_OK);
    assert_true(x[3] == 0.25f);
    weft_plan_destroy(plan);
    weft_stream_destroy(stream);
}

// A descriptor's arrays are the plan's own: what becomes of the caller's does not matter.
static void plans_keep_copies_of_arrays(void **state)
{
    float factors[2] = {1, 4}, once[4] = {1, 2, 3, 4}, again[4] = {1, 2, 3, 4};
    char name[] = "rope_split_half_ref";
    int32_t position = 7;
    weft_plan *plan;
    weft_rope_desc desc = {.size = sizeof desc,
                           .num_heads = 1,
                           .head_dim = 4,
                           .rope = {.freq_factors = factors},
                           .variant = name};
    assert_int_equal(weft_rope_plan(*state, &desc, &plan), WEFT_OK);
    weft_rope_args args = {.size = sizeof args, .tokens = 1, .x = once, .positions = &position};
    assert_int_equal(weft_rope_run(plan, &args), WEFT_OK);
    factors[0] = factors[1] = 0;
    memset(name, 'x', sizeof name - 1);
    args.x = again;
    assert_int_equal(weft_rope_run(plan, &args), WEFT_OK);
    assert_memory_equal(once, again, sizeof once);
    weft_plan_destroy(plan);
}

static void context_descriptors_name_a_device(void **state)
{
    weft_context *context = NULL;
    weft_context_desc desc = {.size = sizeof desc, .device_index = 1};
    (void)state;
    assert_int_equal(weft_context_create(&desc, &context), WEFT_EINVAL);
    assert_non_null(strstr(weft_error_text(NULL), "no cpu device 1"));
    desc.device_index = -1;
    assert_int_equal(weft_context_create(&desc, &context), WEFT_EINVAL);
    desc.device_index = 0;
    desc.native_stream = &desc;
    assert_int_equal(weft_context_create(&desc, &context), WEFT_EINVAL);
    assert_non_null(strstr(weft_error_text(NULL), "native_stream"));
    assert_null(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_describes_itself),
        cmocka_unit_test(bad_descriptions_are_refused),
        cmocka_unit_test(memory_is_aligned_and_whole),
        cmocka_unit_test(bad_memory_is_refused),
        cmocka_unit_test(copies_go_along_streams),
        cmocka_unit_test(events_measure),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(a_run_on_a_stream_of_its_own),
        cmocka_unit_test(plans_keep_copies_of_arrays),
        cmocka_unit_test(context_descriptors_name_a_device),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
