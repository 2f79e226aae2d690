// SPDX-License-Identifier: MIT
// Matrices that are laid out for the CPU: workers of a model share them, a folder keeps them for the next start.
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/open_worker.h"
#include "tests/support/scratch.h"

static const char *demo = WEFT_TEST_GOLDEN "/../../models/demo.gguf";
static char folder[SCRATCH_PATH_BYTES];
static char cache[sizeof folder + 8], model_path[sizeof folder + 16], bf16_path[sizeof folder + 16];

static void copy_to_model(const char *from)
{
    char command[1024];
    snprintf(command, sizeof command, "cp '%s' '%s'", from, model_path);
    assert_int_equal(system(command), 0);
}

// The one file of the cache; false if there is none.
static bool kept_file(char *path, size_t room)
{
    DIR *list = opendir(cache);
    int files = 0;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        if (entry->d_name[0] == '.')
            continue;
        files++;
        snprintf(path, room, "%s/%s", cache, entry->d_name);
    }
    if (list)
        closedir(list);
    assert_true(files <= 1);
    return files == 1;
}

static int open_folder(void **state)
{
    (void)state;
    scratch_folder(folder);
    snprintf(cache, sizeof cache, "%s/kept", folder);
    snprintf(model_path, sizeof model_path, "%s/model.gguf", folder);
    copy_to_model(demo);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    return scratch_remove(folder);
}

static engine_worker_info info_of(const engine_worker *worker)
{
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    return info;
}

// Logits behind a few tokens at once and one by itself; the caller frees them.
static float *logits_of(engine_worker *worker, size_t *count)
{
    enum { FIRST = 5 };
    const int32_t ids[FIRST + 1] = {1, 2, 3, 40, 50, 60};
    engine_error err = {""};
    engine_model_info info;
    engine_model_describe(engine_worker_model(worker), &info);
    *count = (FIRST + 1) * (size_t)info.vocab;
    float *logits = malloc(*count * sizeof *logits);
    engine_session *session = engine_session_open(worker, &err);
    engine_feed feed = {.session = session, .ids = ids, .count = FIRST, .logits = logits};
    assert_non_null(logits);
    if (!session || !engine_eval(worker, &feed, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    feed = (engine_feed){.session = session,
                         .ids = ids + FIRST,
                         .count = 1,
                         .logits = logits + FIRST * (size_t)info.vocab};
    if (!engine_eval(worker, &feed, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    engine_session_close(session);
    return logits;
}

static void assert_same_logits(engine_worker *a, engine_worker *b)
{
    size_t count, other;
    float *x = logits_of(a, &count), *y = logits_of(b, &other);
    assert_int_equal(count, other);
    assert_memory_equal(x, y, count * sizeof *x);
    free(x);
    free(y);
}

static engine_worker *opened(const char *path, const engine_options *options)
{
    engine_error err = {""};
    engine_worker *worker = open_worker(path, options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    return worker;
}

static void workers_of_a_model_share(void **state)
{
    (void)state;
    const engine_options options = {.threads = 1};
    engine_error err = {""};
    engine_worker *first = opened(demo, &options);
    engine_model *model = (engine_model *)engine_worker_model(first);
    engine_worker *second = open_worker_of(model, &options, &err);
    engine_worker *exact =
        open_worker_of(model, &(engine_options){.threads = 1, .exact = true}, &err);
    assert_true(second && exact);
    const engine_worker_info one = info_of(first), two = info_of(second);
    assert_false(one.packed_found);
    assert_int_equal(one.packed_bytes, two.packed_bytes);
    assert_int_equal(two.packed_found, two.packed_bytes > 0);
    assert_false(info_of(exact).packed_found); // it reads blocks
    assert_same_logits(first, second);
    size_t count;
    float *before = logits_of(second, &count);
    engine_worker_close(first);
    float *after = logits_of(second, &count);
    assert_memory_equal(before, after, count * sizeof *before);
    free(before);
    free(after);
    engine_worker_close(exact);
    close_worker(second);
}

static void *open_another(void *model)
{
    return open_worker_of(model, &(engine_options){.threads = 1}, NULL);
}

static void workers_that_open_at_once_share(void **state)
{
    (void)state;
    enum { WORKERS = 3 };
    engine_error err = {""};
    engine_model *model = engine_model_open(demo, &err);
    pthread_t threads[WORKERS];
    void *workers[WORKERS];
    int found = 0;
    assert_non_null(model);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_another, model), 0);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(threads[i], &workers[i]), 0);
        assert_non_null(workers[i]);
        found += info_of(workers[i]).packed_found;
    }
    assert_int_equal(found, info_of(workers[0]).packed_bytes ? WORKERS - 1 : 0);
    for (int i = 0; i < WORKERS; i++)
        engine_worker_close(workers[i]);
    engine_model_close(model);
}

// Opens the copy with the cache: was there a file that served, and are the logits those of `source`, which is laid out anew?
static void assert_kept_of(const char *source, bool found)
{
    engine_worker *kept = opened(model_path, &(engine_options){.threads = 1, .pack_cache = cache});
    engine_worker *plain = opened(source, &(engine_options){.threads = 1});
    const engine_worker_info info = info_of(kept);
    assert_int_equal(info.packed_found, found && info.packed_bytes > 0);
    assert_same_logits(kept, plain);
    close_worker(plain);
    close_worker(kept);
}

static void assert_kept(bool found)
{
    assert_kept_of(demo, found);
}

// Changes a byte of the kept file, `at` bytes from its beginning or, if negative, its end.
static void damage(long at)
{
    char path[1024];
    assert_true(kept_file(path, sizeof path));
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

static void a_folder_keeps_them(void **state)
{
    (void)state;
    char path[1024];
    struct stat status;
    assert_kept(false);
    if (!kept_file(path, sizeof path))
        skip(); // a CPU that has no layout of its own for these formats
    assert_kept(true);
    const long places[] = {0, 16, 24, 32, 40, 4096, 100000, -1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        damage(places[i]);
        assert_kept(false);
        assert_kept(true);
    }
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(truncate(path, status.st_size - 1), 0);
    assert_kept(false);
    assert_int_equal(truncate(path, 0), 0);
    assert_kept(false);
    assert_kept(true);
}

// A file that was written anew, with the same bytes or others, is another model.
static void a_stale_file_is_written_anew(void **state)
{
    (void)state;
    char path[1024];
    assert_kept(false || kept_file(path, sizeof path));
    const struct timeval times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimes(model_path, times), 0);
    assert_kept(false);
    assert_kept(true);
}

// bf16 in 12 bits have a list behind their rows; both are what they were.
static void a_folder_keeps_lists(void **state)
{
    (void)state;
    char path[1024];
    engine_error err = {""};
    snprintf(bf16_path, sizeof bf16_path, "%s/bf16.gguf", folder);
    const quantize_options options = {.mix = "bf16", .again = true, .threads = 1};
    if (!engine_quantize(demo, bf16_path, &options, &err))
        fail_msg("%s", err.text);
    if (kept_file(path, sizeof path))
        assert_int_equal(remove(path), 0);
    copy_to_model(bf16_path);
    assert_kept_of(bf16_path, false);
    if (kept_file(path, sizeof path)) { // else a CPU that reads 16 bits as they are
        assert_kept_of(bf16_path, true);
        damage(-9); // the last of a list, or what is left of its room
        assert_kept_of(bf16_path, false);
        assert_kept_of(bf16_path, true);
        assert_int_equal(remove(path), 0);
    }
    copy_to_model(demo);
}

static void refuse(const char *path, engine_options options, const char *word)
{
    engine_error err = {""};
    engine_worker *worker = open_worker(path, &options, &err);
    assert_null(worker);
    if (!strstr(err.text, word))
        fail_msg("'%s' does not say '%s'", err.text, word);
}

static void what_cannot_be_kept_is_said(void **state)
{
    (void)state;
    char path[1024], inside[sizeof model_path + 8];
    engine_error err = {""};
    refuse(demo, (engine_options){.no_pack = true, .pack_cache = cache}, "--no-pack");
    refuse(demo, (engine_options){.no_mmap = true, .pack_cache = cache}, "--no-mmap");
    engine_options options = {.threads = 1, .context_tokens = 64, .pack_cache = cache};
    engine_model *made_up = engine_model_synthesise("smollm2-135m/1", "q8_0", &options, &err);
    assert_non_null(made_up);
    assert_null(open_worker_of(made_up, &options, &err));
    assert_non_null(strstr(err.text, "GGUF"));
    engine_model_close(made_up);
    if (!kept_file(path, sizeof path))
        skip();
    snprintf(inside, sizeof inside, "%s/kept", model_path);
    refuse(model_path, (engine_options){.threads = 1, .pack_cache = inside},
           "choose another folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_of_a_model_share),
        cmocka_unit_test(workers_that_open_at_once_share),
        cmocka_unit_test(a_folder_keeps_them),
        cmocka_unit_test(a_stale_file_is_written_anew),
        cmocka_unit_test(what_cannot_be_kept_is_said),
        cmocka_unit_test(a_folder_keeps_lists),
    };
    return cmocka_run_group_tests(tests, open_folder, drop_folder);
}
