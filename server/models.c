// SPDX-License-Identifier: MIT
#include "server/models.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct server_models {
    const server_options *options;
    void (*wake)(void *connection);
    served_model *list;
    int32_t count;
    pthread_t loader;
    pthread_mutex_t lock;
    pthread_cond_t news;
    // Guarded by the lock:
    bool has_loader, stopping, draining;
    uint64_t clock;
    metrics retired; // what models counted that were put away
    engine_scheduler_info retired_scheduler;
};

void models_lock(server_models *models)
{
    pthread_mutex_lock(&models->lock);
}

void models_unlock(server_models *models)
{
    pthread_mutex_unlock(&models->lock);
}

int32_t models_count(const server_models *models)
{
    return models->count;
}

served_model *models_at(server_models *models, int32_t n)
{
    return &models->list[n];
}

served_model *models_find(server_models *models, const char *name)
{
    for (int32_t n = 0; n < models->count; n++)
        if (models->count == 1 || (name && strcmp(models->list[n].name, name) == 0))
            return &models->list[n];
    return NULL;
}

// --- one model ----------------------------------------------------------------------------------------

// Encoders take a text in one piece. (Asked before the runner's thread has the worker.)
static int32_t longest_text(const engine_model_info *info, const engine_worker_info *run)
{
    return info->encoder && run->chunk_tokens < run->context_tokens ? run->chunk_tokens
                                                                    : run->context_tokens;
}

static void read_template(served_model *served)
{
    const gguf_file *file = engine_model_file(served->model);
    served->template = chat_template_from_gguf(file, &served->no_template);
    served->style = chat_template_calls(served->template);
    served->thoughts = chat_template_thoughts(served->template);
}

static bool describe(served_model *served, engine_error *err)
{
    engine_model_info info;
    engine_worker_info run;
    const tokenizer *t = engine_model_tokenizer(served->model);
    if (!t)
        return engine_fail(err, "the model has no tokenizer: it cannot be served");
    engine_model_describe(served->model, &info);
    engine_worker_describe(served->worker, &run);
    size_t pieces = tokenizer_size(t);
    served->vocab = pieces < (size_t)info.vocab ? (int32_t)pieces : info.vocab;
    served->longest_text = longest_text(&info, &run);
    served->bytes = info.weight_bytes + run.kv_pool_bytes + run.buffer_bytes;
    return true;
}

// Where the pages of a model are kept, DIR/NAME.pages, whatever bytes the name has; NULL: nowhere.
static char *cache_path(const server_models *models, const served_model *served)
{
    const char *folder = models->options->cache_folder;
    size_t room = folder ? strlen(folder) + 3 * strlen(served->name) + 16 : 0;
    char *path = folder ? malloc(room) : NULL;
    if (!path)
        return NULL;
    size_t size = (size_t)snprintf(path, room, "%s/", folder);
    for (const char *at = served->name; *at; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                     (*at >= '0' && *at <= '9') || *at == '-' || *at == '_' ||
                     (*at == '.' && at > served->name);
        size +=
            (size_t)snprintf(path + size, room - size, plain ? "%c" : "%%%02x", (unsigned char)*at);
    }
    snprintf(path + size, room - size, ".pages");
    return path;
}

static void warn(const server_models *models, const served_model *served, const engine_error *err)
{
    if (models->options->warn)
        models->options->warn(models->options->user, served->name, err);
}

// What is not there is not missed.
static void restore_pages(const server_models *models, served_model *served)
{
    engine_error err = {""};
    struct stat file;
    char *path = cache_path(models, served);
    if (path && stat(path, &file) == 0 && !engine_worker_restore_pages(served->worker, path, &err))
        warn(models, served, &err);
    free(path);
}

static void save_pages(const server_models *models, const served_model *served)
{
    engine_error err = {""};
    char *path = cache_path(models, served);
    if (path && !engine_worker_save_pages(served->worker, path, &err))
        warn(models, served, &err);
    free(path);
}

static void put_away(const server_models *models, served_model *served)
{
    bool ran = served->runner != NULL;
    runner_stop(served->runner);
    runner_free(served->runner);
    if (ran)
        save_pages(models, served);
    chat_template_free(served->template);
    engine_worker_close(served->worker);
    engine_model_close(served->model);
    served->runner = NULL;
    served->template = NULL;
    served->worker = NULL;
    served->model = NULL;
}

static bool load(const server_models *models, served_model *served, engine_error *err)
{
    const server_options *options = models->options;
    const engine_speculation *speculation = NULL;
    served->model = engine_model_open(served->path, err);
    if (served->model)
        served->worker = engine_worker_open(served->model, options->engine, err);
    if (served->worker && describe(served, err) &&
        (!options->opened ||
         options->opened(options->user, served->model, served->worker, &speculation, err))) {
        read_template(served);
        restore_pages(models, served);
        served->runner = runner_start(served->worker, options, speculation, models->wake, err);
    }
    if (served->runner)
        return true;
    put_away(models, served);
    return false;
}

// --- the loader ---------------------------------------------------------------------------------------

// What a model has counted is not lost with it.
static void retire(server_models *models, served_model *served)
{
    engine_worker_info worker = {0};
    runner_describe(served->runner, &models->retired, &models->retired_scheduler, &worker);
    models->retired_scheduler.running = models->retired_scheduler.waiting = 0;
}

static bool is_open(const served_model *served)
{
    return served->state == SERVED_LOADED || served->state == SERVED_LEAVING;
}

static int64_t open_bytes(const server_models *models)
{
    int64_t bytes = 0;
    for (int32_t n = 0; n < models->count; n++)
        bytes += is_open(&models->list[n]) ? models->list[n].bytes : 0;
    return bytes;
}

static served_model *least_used(server_models *models, int state, bool idle)
{
    served_model *least = NULL;
    for (served_model *one = models->list; one < models->list + models->count; one++)
        if ((int)one->state == state && (!idle || one->users == 0) &&
            (!least || one->used < least->used))
            least = one;
    return least;
}

// With the lock held, which is let go of meanwhile: puts a model away when its users have ended. Whoever asks for it
// from now on waits, so that a model in constant use does not keep others out.
static void close_one(server_models *models, served_model *served)
{
    served->state = SERVED_LEAVING;
    while (served->users > 0 && !models->stopping)
        pthread_cond_wait(&models->news, &models->lock);
    if (models->stopping)
        return;
    models_unlock(models);
    runner_stop(served->runner);
    models_lock(models);
    retire(models, served);
    served->state = SERVED_CLOSING;
    models_unlock(models);
    put_away(models, served);
    models_lock(models);
    served->state = served->waiters ? SERVED_WANTED : SERVED_AWAY;
}

// With the lock held, which is let go of meanwhile.
static void make_room(server_models *models, const served_model *wanted)
{
    int64_t most = models->options->memory_bytes;
    while (!models->stopping && most > 0 && open_bytes(models) > 0 &&
           open_bytes(models) + wanted->bytes > most) {
        served_model *least = least_used(models, SERVED_LOADED, true);
        close_one(models, least ? least : least_used(models, SERVED_LOADED, false));
    }
}

static void wake_waiters(const server_models *models, served_model *served, bool loaded)
{
    while (served->waiters) {
        waiter *one = served->waiters;
        served->waiters = one->next;
        one->state = loaded ? WAITER_HAS : WAITER_FAILED;
        served->users += loaded;
        models->wake(one->connection);
    }
}

// With the lock held, which is let go of meanwhile.
static void load_wanted(server_models *models, served_model *served)
{
    engine_error err = {""};
    served->state = SERVED_LOADING;
    models_unlock(models);
    bool fine = load(models, served, &err);
    if (!fine)
        warn(models, served, &err);
    models_lock(models);
    served->state = fine ? SERVED_LOADED : SERVED_AWAY;
    served->used = ++models->clock;
    wake_waiters(models, served, fine);
}

static void *run(void *opaque)
{
    server_models *models = opaque;
    models_lock(models);
    while (!models->stopping) {
        served_model *wanted = least_used(models, SERVED_WANTED, false);
        if (wanted)
            make_room(models, wanted);
        else
            pthread_cond_wait(&models->news, &models->lock);
        if (wanted && !models->stopping)
            load_wanted(models, wanted);
    }
    for (int32_t n = 0; n < models->count; n++)
        wake_waiters(models, &models->list[n], false);
    models_unlock(models);
    return NULL;
}

// --- from outside -------------------------------------------------------------------------------------

static bool make_list(server_models *models, engine_error *err)
{
    const server_options *options = models->options;
    models->list = calloc((size_t)options->model_count, sizeof *models->list);
    if (!models->list)
        return engine_fail(err, "not enough memory for the server");
    for (; models->count < options->model_count; models->count++) {
        const server_model *wish = &options->models[models->count];
        served_model *served = &models->list[models->count];
        struct stat file = {0};
        served->path = wish->path;
        strncpy(served->name, wish->name, sizeof served->name - 1);
        text_make_printable(served->name);
        if (stat(wish->path, &file) != 0 &&
            models->count > 0) // the first says more when it is opened
            return engine_fail(err, "%s: there is no such file", wish->path);
        served->bytes = (int64_t)file.st_size;
        for (int32_t n = 0; n < models->count; n++)
            if (strcmp(models->list[n].name, served->name) == 0)
                return engine_fail(err, "two models have the name %s", served->name);
    }
    return true;
}

// At the start, not when all that was evaluated has to go there.
static bool check_folder(const char *folder, engine_error *err)
{
    struct stat about;
    int error = 0;
    if (!folder)
        return true;
    if (stat(folder, &about) != 0)
        error = errno;
    else if (!S_ISDIR(about.st_mode))
        error = ENOTDIR;
    else if (access(folder, W_OK | X_OK) != 0)
        error = errno;
    return !error || engine_fail(err,
                                 "%s: prompts cannot be kept there: %s; make the folder, or choose "
                                 "another (--cache-dir)",
                                 folder, strerror(error));
}

server_models *models_open(const server_options *options, void (*wake)(void *connection),
                           engine_error *err)
{
    server_models *models = calloc(1, sizeof *models);
    if (!models) {
        engine_fail(err, "not enough memory for the server");
        return NULL;
    }
    models->options = options;
    models->wake = wake;
    pthread_mutex_init(&models->lock, NULL);
    pthread_cond_init(&models->news, NULL);
    if (check_folder(options->cache_folder, err) && make_list(models, err) &&
        load(models, &models->list[0], err)) {
        models->list[0].state = SERVED_LOADED;
        models->has_loader = pthread_create(&models->loader, NULL, run, models) == 0;
        if (models->has_loader)
            return models;
        engine_fail(err, "a thread cannot be started");
    }
    models_free(models);
    return NULL;
}

bool models_take(server_models *models, served_model *served, waiter *one, void *connection)
{
    if (one->state == WAITER_HAS)
        return true;
    if (one->state == WAITER_FAILED)
        return false;
    served->used = ++models->clock;
    if (served->state == SERVED_LOADED) {
        served->users++;
        one->state = WAITER_HAS;
        return true;
    }
    if (models->stopping || models->draining) {
        one->state = WAITER_FAILED;
        return false;
    }
    if (one->state == WAITER_NEW) {
        *one = (waiter){.next = served->waiters, .connection = connection, .state = WAITER_WAITS};
        served->waiters = one;
    }
    if (served->state == SERVED_AWAY)
        served->state = SERVED_WANTED;
    pthread_cond_signal(&models->news);
    return false;
}

void models_hold(server_models *models, served_model *served)
{
    models_lock(models);
    served->users++;
    models_unlock(models);
}

static void let_go(server_models *models, served_model *served)
{
    if (--served->users == 0)
        pthread_cond_signal(&models->news);
}

void models_let_go(server_models *models, served_model *served)
{
    models_lock(models);
    let_go(models, served);
    models_unlock(models);
}

void models_give_back(server_models *models, served_model *served, waiter *one)
{
    models_lock(models);
    if (one->state == WAITER_HAS)
        let_go(models, served);
    for (waiter **at = &served->waiters; one->state == WAITER_WAITS && *at; at = &(*at)->next)
        if (*at == one) {
            *at = one->next;
            break;
        }
    one->state = WAITER_NEW;
    models_unlock(models);
}

bool models_drain(server_models *models)
{
    bool idle = true;
    models_lock(models);
    models->draining = true;
    for (served_model *one = models->list; one < models->list + models->count; one++) {
        idle = idle && !one->waiters;
        if (is_open(one))
            idle = runner_drain(one->runner) && idle;
    }
    models_unlock(models);
    return idle;
}

void models_stop(server_models *models)
{
    if (!models)
        return;
    models_lock(models);
    models->stopping = true;
    pthread_cond_signal(&models->news);
    models_unlock(models);
    if (models->has_loader)
        pthread_join(models->loader, NULL);
    models->has_loader = false;
    for (int32_t n = 0; n < models->count; n++)
        runner_stop(models->list[n].runner);
}

void models_free(server_models *models)
{
    if (!models)
        return;
    for (int32_t n = 0; n < models->count; n++)
        put_away(models, &models->list[n]);
    free(models->list);
    pthread_mutex_destroy(&models->lock);
    pthread_cond_destroy(&models->news);
    free(models);
}

void models_describe(server_models *models, metrics *counted, engine_scheduler_info *scheduler,
                     engine_worker_info *worker)
{
    models_lock(models);
    *counted = models->retired;
    *scheduler = models->retired_scheduler;
    *worker = (engine_worker_info){0};
    for (served_model *one = models->list; one < models->list + models->count; one++)
        if (is_open(one))
            runner_describe(one->runner, counted, scheduler, worker);
    models_unlock(models);
}
