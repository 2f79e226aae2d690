// SPDX-License-Identifier: MIT
// weft perplexity against the same figures worked out here from what weft logits writes.
#define _XOPEN_SOURCE 700
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/gguf_tiny_model.h"
#include "tests/support/program.h"

// In the words of the model's own stories; of other text it has no idea.
#define STORY                                                                                      \
    "Once upon a time there was a young girl who lived in a cosy harbour town called "             \
    "Silvercliff. "                                                                                \
    "Her name was Suly, and she was very tidy. She put even the pebbles in rows. She was proud "   \
    "of "                                                                                          \
    "her crimson pair of mittens, even in summer. Her best friend was Suro, a sleepy boy. It was " \
    "a "                                                                                           \
    "sunny evening in autumn. The sun smiled down. That day, the little fox found a silver key."

enum { VOCAB = 4096, MOST_TOKENS = 512 };

static char model[4096], *folder;

static int make_files(void **state)
{
    (void)state;
    char path[256];
    if (!realpath("models/demo.gguf", model))
        return -1;
    folder = folder_make();
    snprintf(path, sizeof path, "%s/story.txt", folder);
    FILE *file = fopen(path, "w");
    if (!file || fputs(STORY, file) < 0 || fclose(file) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/short.txt", folder);
    file = fopen(path, "w");
    if (!file || fputs("a", file) < 0 || fclose(file) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama", .dim = 8});
    return !gguf_writer_save(&w, path);
}

static int remove_files(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static char *output_of(const char *const words[])
{
    program_result result = program_run(folder, words);
    if (result.status != 0 || *result.err)
        fail_msg("weft %s: exit status %d, '%s'", words[1], result.status, result.err);
    free(result.err);
    return result.out;
}

#define OUTPUT_OF(...) output_of((const char *const[]){WEFT_TEST_PROGRAM, __VA_ARGS__, NULL})

static json_t *perplexity(const char *option, const char *value)
{
    char *text = OUTPUT_OF("perplexity", model, "-f", "story.txt", "--kv-dtype", "f32", "--json",
                           option, value);
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    free(text);
    return object;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

// Ids of the story, and the logits after each; `option` is one more for weft logits.
static int read_story(int32_t ids[MOST_TOKENS], double *log_probs, const char *option)
{
    char *list = OUTPUT_OF("tokenize", model, "-f", "story.txt", "--ids");
    list[strcspn(list, "\n")] = 0;
    // in passes of the size that perplexity takes: the last bits of sums depend on it
    free(OUTPUT_OF("logits", model, "--tokens", list, "--out", "logits.bin", "--chunk=64", option));
    int count = 0;
    for (char *at = list; *at && count < MOST_TOKENS; at += *at == ',')
        ids[count++] = (int32_t)strtol(at, &at, 10);
    free(list);
    char path[256];
    snprintf(path, sizeof path, "%s/logits.bin", folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (int i = 0; i < count; i++) {
        float row[VOCAB];
        double most = -INFINITY, sum = 0;
        assert_int_equal(fread(row, sizeof *row, VOCAB, file), VOCAB);
        for (int v = 0; v < VOCAB; v++)
            most = row[v] > most ? row[v] : most; // gcc 12 for AArch64 fails on fmax here
        for (int v = 0; v < VOCAB; v++)
            sum += exp(row[v] - most);
        for (int v = 0; v < VOCAB; v++)
            log_probs[i * VOCAB + v] = row[v] - most - log(sum);
    }
    fclose(file);
    return count;
}

static void expect_near(double have, double wanted, const char *what)
{
    if (!(fabs(have - wanted) <= 1e-3 * fabs(wanted)))
        fail_msg("%s is %g, not %g", what, have, wanted);
}

static double *room(void)
{
    double *rows = malloc(sizeof *rows * MOST_TOKENS * VOCAB);
    assert_non_null(rows);
    return rows;
}

// One segment: the tokens behind its middle count.
static void of_one_segment(void **state)
{
    (void)state;
    int32_t ids[MOST_TOKENS];
    double *log_probs = room(), sum = 0, squares = 0;
    int count = read_story(ids, log_probs, "--exact"), scored = 0;
    for (int i = count / 2; i + 1 < count; i++, scored++) {
        double surprise = -log_probs[i * VOCAB + ids[i + 1]];
        sum += surprise;
        squares += surprise * surprise;
    }
    double mean = sum / scored, deviation = sqrt(squares / scored - mean * mean);
    json_t *object = perplexity("--exact", "--segment=100000"); // longer than the text
    assert_int_equal(number(object, "tokens"), count);
    assert_int_equal(number(object, "segments"), 1);
    assert_int_equal(number(object, "scored_tokens"), scored);
    expect_near(number(object, "perplexity"), exp(mean), "the perplexity");
    expect_near(number(object, "perplexity_error"), exp(mean) * deviation / sqrt(scored - 1),
                "its error");
    assert_true(number(object, "perplexity") < 20);
    json_decref(object);
    free(log_probs);
}

// Segments know nothing of each other; each begins with bos, and what is left over does not count.
static void of_many_segments(void **state)
{
    (void)state;
    json_t *object = perplexity("--segment", "20");
    int tokens = (int)number(object, "tokens"), segments = tokens / 20;
    assert_true(segments >= 3 && tokens % 20 != 0);
    assert_int_equal(number(object, "segments"), segments);
    assert_int_equal(number(object, "scored_tokens"), segments * 9);
    double fine = number(object, "perplexity");
    json_decref(object);
    object = perplexity("-c", "20"); // the same by the name that others have for it
    assert_true(number(object, "perplexity") == fine);
    json_decref(object);
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static int best_of(const double *row)
{
    int best = 0;
    for (int v = 1; v < VOCAB; v++)
        best = row[v] > row[best] ? v : best;
    return best;
}

static void against_exact(void **state)
{
    (void)state;
    int32_t ids[MOST_TOKENS];
    double *q = room(), *p = room(), kl[MOST_TOKENS], sum = 0;
    int count = read_story(ids, q, "--kv-dtype=f32"), scored = 0, same = 0;
    assert_int_equal(read_story(ids, p, "--exact"), count);
    for (int i = count / 2; i + 1 < count; i++, scored++) {
        const double *one = p + i * VOCAB, *other = q + i * VOCAB;
        kl[scored] = 0;
        for (int v = 0; v < VOCAB; v++)
            kl[scored] += exp(one[v]) * (one[v] - other[v]);
        sum += kl[scored];
        same += best_of(one) == best_of(other);
    }
    qsort(kl, (size_t)scored, sizeof *kl, descending);
    json_t *object = perplexity("--against-exact", "--segment=100000");
    assert_true(sum > 0);
    expect_near(number(object, "kl_mean"), sum / scored, "the mean divergence");
    expect_near(number(object, "kl_max"), kl[0], "the largest divergence");
    // A hundredth of the tokens lies above.
    expect_near(number(object, "kl_99th_percentile"), kl[scored / 100], "the 99th percentile");
    expect_near(number(object, "same_top_1"), (double)same / scored, "the agreement");
    assert_true(number(object, "kl_mean_error") > 0);
    assert_true(number(object, "against_perplexity") != number(object, "perplexity"));
    json_decref(object);
    free(p);
    free(q);
}

static void against_itself(void **state)
{
    (void)state;
    json_t *object = perplexity("--against", model);
    assert_true(number(object, "kl_max") == 0);
    assert_true(number(object, "same_top_1") == 1);
    assert_true(number(object, "against_perplexity") == number(object, "perplexity"));
    json_decref(object);
    char *text = OUTPUT_OF("perplexity", model, "-f", "story.txt", "--against-exact");
    assert_non_null(strstr(text, "KL divergence"));
    assert_non_null(strstr(text, "same top-1"));
    free(text);
}

static void against_another_cache(void **state)
{
    (void)state;
    json_t *held = perplexity("--against-kv-dtype", "q4_0/f16");
    json_t *other = perplexity("--kv-dtype", "q4_0/f16"); // the last one counts
    assert_true(number(held, "against_perplexity") == number(other, "perplexity"));
    assert_true(number(held, "against_perplexity") != number(held, "perplexity"));
    assert_true(number(held, "kl_mean") > 0);
    json_decref(other);
    json_decref(held);
    held = perplexity("--against-kv-dtype", "f32");
    assert_true(number(held, "kl_max") == 0);
    json_decref(held);
}

static void refuse(int status, const char *fragment, const char *const words[])
{
    program_result result = program_run(folder, words);
    if (result.status != status || !strstr(result.err, fragment) || *result.out)
        fail_msg("exit status %d, '%s'", result.status, result.err);
    program_result_free(&result);
}

#define REFUSE(status, fragment, ...)                                                              \
    refuse(status, fragment,                                                                       \
           (const char *const[]){WEFT_TEST_PROGRAM, "perplexity", __VA_ARGS__, NULL})

static void refuses(void **state)
{
    (void)state;
    REFUSE(2, "-f TEXT is missing", model);
    REFUSE(2, "MODEL is missing", "-f", "story.txt");
    REFUSE(2, "--segment", model, "-f", "story.txt", "--segment", "3");
    REFUSE(2, "--against-exact", model, "-f", "story.txt", "--against-exact", "--exact");
    REFUSE(2, "--against-exact", model, "-f", "story.txt", "--against-exact", "--against", model);
    REFUSE(2, "--kv-dtype must be", model, "-f", "story.txt", "--against-kv-dtype", "q4_k");
    REFUSE(1, "nowhere.txt", model, "-f", "nowhere.txt");
    REFUSE(1, "too few", model, "-f", "short.txt");
    REFUSE(1, "different vocabularies", model, "-f", "story.txt", "--against", "tiny.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_segment),        cmocka_unit_test(of_many_segments),
        cmocka_unit_test(against_exact),         cmocka_unit_test(against_itself),
        cmocka_unit_test(against_another_cache), cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
