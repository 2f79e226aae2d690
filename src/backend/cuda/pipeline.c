// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "src/backend/cuda/pipeline.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/backend/cuda/cuda_cache.h"
#include "src/backend/cuda/cuda_context.h"
#include "src/base/memory.h"

// Writes the image beside its fellows where a kernel engineer wants to see machine code:
// $WEFT_CUDA_DUMP/<name>.cubin (cuobjdump -sass, nvdisasm) or .ptx.
static void dump(const char *name, const struct weft__cuda_image *image, const char *arch)
{
    const char *folder = getenv("WEFT_CUDA_DUMP");
    char path[1024];
    if (!folder || !*folder)
        return;
    int used = snprintf(path, sizeof path, "%s/", folder);
    for (const char *c = name; *c && used + 32 < (int)sizeof path; c++)
        path[used++] = strchr("[],=", *c) ? '.' : *c;
    snprintf(path + used, sizeof path - (size_t)used, "%s%s", arch,
             strncmp(arch, "compute", 7) == 0 ? ".ptx" : ".cubin");
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(image->data, 1, image->bytes, file);
        fclose(file);
    }
}

// The module and what is worth knowing of its function.
static CUresult load(struct weft__cuda *cuda, struct weft__cuda_pipeline *pipeline,
                     const struct weft__cuda_image *image)
{
    const struct weft__cuda_driver *driver = cuda->driver;
    CUresult result = driver->module_load(&pipeline->module, image->data);
    if (result != CUDA_SUCCESS)
        return result;
    result =
        driver->module_function(&pipeline->function, pipeline->module, pipeline->kernel.function);
    const struct {
        int attribute;
        int32_t *value;
    } facts[] = {{CU_FUNC_ATTRIBUTE_NUM_REGS, &pipeline->registers},
                 {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &pipeline->spill_bytes},
                 {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &pipeline->shared_bytes},
                 {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &pipeline->max_threads}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts && result == CUDA_SUCCESS; i++)
        result = driver->function_get(facts[i].value, facts[i].attribute, pipeline->function);
    if (result == CUDA_SUCCESS)
        result = driver->function_set(pipeline->function,
                                      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      cuda->limits.shared_per_block - pipeline->shared_bytes);
    if (result == CUDA_SUCCESS && cuda->limits.sm >= 90) // clusters of more than eight blocks
        result = driver->function_set(pipeline->function,
                                      CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    if (result != CUDA_SUCCESS) {
        driver->module_unload(pipeline->module);
        pipeline->module = NULL;
    }
    return result;
}

static bool compile_and_load(struct weft__cuda *cuda, struct weft__cuda_pipeline *pipeline,
                             const struct weft__nvrtc *nvrtc, const char *arch,
                             const unsigned char *key)
{
    struct weft__cuda_image image;
    char log[320];
    weft_status status =
        weft__cuda_compile(nvrtc, &pipeline->kernel, arch, false, &image, log, sizeof log);
    if (status != WEFT_OK) {
        snprintf(pipeline->why, sizeof pipeline->why, "%.100s does not compile for %s: %s",
                 pipeline->name, arch, *log ? log : weft_status_text(status));
        return false;
    }
    dump(pipeline->name, &image, arch);
    CUresult result = load(cuda, pipeline, &image);
    if (result == CUDA_SUCCESS)
        weft__cuda_cache_store(key, &image);
    else
        snprintf(pipeline->why, sizeof pipeline->why, "the driver does not load %.100s (error %d)",
                 pipeline->name, result);
    weft__base_release(NULL, image.data);
    return result == CUDA_SUCCESS;
}

// From disk if it is there, sound and taken by the driver; else from the compiler.
static bool build(struct weft__cuda *cuda, struct weft__cuda_pipeline *pipeline)
{
    const char *why;
    char arch[16];
    unsigned char key[WEFT__SHA256_BYTES];
    struct weft__cuda_image image;
    const struct weft__nvrtc *nvrtc = weft__nvrtc(&why);
    if (!nvrtc) {
        snprintf(pipeline->why, sizeof pipeline->why, "%s", why);
        return false;
    }
    weft__cuda_arch(nvrtc, cuda->limits.sm, arch);
    weft__cuda_kernel_key(nvrtc, &pipeline->kernel, arch, key);
    if (weft__cuda_cache_load(key, &image)) {
        bool loaded = load(cuda, pipeline, &image) == CUDA_SUCCESS;
        if (loaded)
            dump(pipeline->name, &image, arch);
        weft__base_release(NULL, image.data);
        if (loaded) {
            pipeline->from_disk = true;
            return true;
        }
        weft__cuda_cache_drop(key);
    }
    return compile_and_load(cuda, pipeline, nvrtc, arch, key);
}

static struct weft__cuda_pipeline *next_waiting(struct weft__cuda_pipelines *all)
{
    for (struct weft__cuda_pipeline *p = all->first; p; p = p->next)
        if (!p->lazy && atomic_load(&p->state) == WEFT__PIPELINE_WAITING)
            return p;
    return NULL;
}

// Called with the lock held and a waiting pipeline; returns with the lock held.
static void build_one(struct weft__cuda *cuda, struct weft__cuda_pipeline *pipeline)
{
    struct weft__cuda_pipelines *all = &cuda->pipelines;
    atomic_store(&pipeline->state, WEFT__PIPELINE_COMPILING);
    all->waiting--;
    pthread_mutex_unlock(&all->lock);
    bool entered = weft__cuda_enter(cuda);
    bool built = build(cuda, pipeline);
    weft__cuda_leave(cuda, entered);
    pthread_mutex_lock(&all->lock);
    all->settled++;
    atomic_store(&pipeline->state, built ? WEFT__PIPELINE_READY : WEFT__PIPELINE_FAILED);
    pthread_cond_broadcast(&all->changed);
}

static void *compiler(void *opaque)
{
    struct weft__cuda *cuda = opaque;
    struct weft__cuda_pipelines *all = &cuda->pipelines;
    pthread_mutex_lock(&all->lock);
    while (!all->closing) {
        struct weft__cuda_pipeline *pipeline = next_waiting(all);
        if (pipeline)
            build_one(cuda, pipeline);
        else
            pthread_cond_wait(&all->changed, &all->lock);
    }
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

void weft__cuda_pipelines_open(struct weft__cuda *cuda)
{
    struct weft__cuda_pipelines *all = &cuda->pipelines;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    all->last = &all->first;
}

void weft__cuda_pipelines_close(struct weft__cuda *cuda)
{
    struct weft__cuda_pipelines *all = &cuda->pipelines;
    pthread_mutex_lock(&all->lock);
    all->closing = true;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    for (int32_t i = 0; i < all->num_compilers; i++)
        pthread_join(all->compilers[i], NULL);
    while (all->first) {
        struct weft__cuda_pipeline *pipeline = all->first;
        all->first = pipeline->next;
        if (pipeline->module)
            cuda->driver->module_unload(pipeline->module);
        weft__base_release(NULL, pipeline);
    }
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
}

// One more compiler thread if there is work for it; none at all is fine, a waiter compiles then.
static void hire(struct weft__cuda *cuda)
{
    struct weft__cuda_pipelines *all = &cuda->pipelines;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (all->num_compilers >= WEFT__CUDA_MOST_COMPILERS || all->num_compilers >= cores ||
        all->num_compilers >= all->waiting)
        return;
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    if (pthread_create(&all->compilers[all->num_compilers], NULL, compiler, cuda) == 0)
        all->num_compilers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool same(const struct weft__cuda_kernel *a, const struct weft__cuda_kernel *b)
{
    return a->exact == b->exact && strcmp(a->function, b->function) == 0 &&
           strcmp(a->file, b->file) == 0 && a->num_constants == b->num_constants &&
           memcmp(a->values, b->values, (size_t)a->num_constants * sizeof *a->values) == 0;
}

// It is to be compiled from now on.
static void enlist(struct weft__cuda *cuda, struct weft__cuda_pipeline *pipeline)
{
    struct weft__cuda_pipelines *all = &cuda->pipelines;
    pipeline->lazy = false;
    all->count++;
    all->waiting++;
    hire(cuda);
    pthread_cond_broadcast(&all->changed);
}

weft_status weft__cuda_pipeline_want(weft_context *context, const struct weft__cuda_kernel *kernel,
                                     struct weft__cuda_pipeline **out)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    struct weft__cuda_pipelines *all = &cuda->pipelines;
    struct weft__cuda_pipeline *pipeline;
    pthread_mutex_lock(&all->lock);
    for (pipeline = all->first; pipeline && !same(&pipeline->kernel, kernel);
         pipeline = pipeline->next)
        ;
    if (!pipeline && (pipeline = weft__base_allocate(NULL, sizeof *pipeline)) != NULL) {
        memset(pipeline, 0, sizeof *pipeline);
        pipeline->kernel = *kernel;
        weft__cuda_kernel_name(kernel, pipeline->name, sizeof pipeline->name);
        *all->last = pipeline;
        all->last = &pipeline->next;
        pipeline->lazy = true;
    }
    if (pipeline && pipeline->lazy && !kernel->lazy)
        enlist(cuda, pipeline);
    pthread_mutex_unlock(&all->lock);
    if (!pipeline)
        return weft__fail(context, WEFT_ENOMEM, "no memory to note kernel %s", kernel->function);
    *out = pipeline;
    return WEFT_OK;
}

static weft_status verdict(weft_context *context, const struct weft__cuda_pipeline *pipeline)
{
    if (atomic_load(&pipeline->state) == WEFT__PIPELINE_READY)
        return WEFT_OK;
    return weft__fail(context, WEFT_EDEVICE, "%s", pipeline->why);
}

weft_status weft__cuda_pipeline_wait(weft_context *context, struct weft__cuda_pipeline *pipeline)
{
    struct weft__cuda_pipelines *all = &weft__cuda_of(context)->pipelines;
    pthread_mutex_lock(&all->lock);
    if (pipeline->lazy) {
        pipeline->lazy = false;
        all->count++;
        all->waiting++;
    }
    while (atomic_load(&pipeline->state) < WEFT__PIPELINE_READY) {
        if (atomic_load(&pipeline->state) == WEFT__PIPELINE_WAITING)
            build_one(weft__cuda_of(context), pipeline);
        else
            pthread_cond_wait(&all->changed, &all->lock);
    }
    pthread_mutex_unlock(&all->lock);
    return verdict(context, pipeline);
}

weft_status weft__cuda_pipelines_finish(weft_context *context, weft_progress_fn *progress,
                                        void *user)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    struct weft__cuda_pipelines *all = &cuda->pipelines;
    int32_t told = -1;
    pthread_mutex_lock(&all->lock);
    while (all->settled < all->count || told < all->settled) {
        if (told < all->settled) {
            told = all->settled;
            int32_t count = all->count;
            pthread_mutex_unlock(&all->lock);
            if (progress)
                progress(user, told, count);
            pthread_mutex_lock(&all->lock);
            continue;
        }
        struct weft__cuda_pipeline *waiting = all->num_compilers == 0 ? next_waiting(all) : NULL;
        if (waiting)
            build_one(cuda, waiting);
        else
            pthread_cond_wait(&all->changed, &all->lock);
    }
    pthread_mutex_unlock(&all->lock);
    for (struct weft__cuda_pipeline *p = all->first; p; p = p->next)
        if (atomic_load(&p->state) == WEFT__PIPELINE_FAILED)
            return verdict(context, p);
    return WEFT_OK;
}

bool weft__cuda_instance_at(weft_context *context, int32_t n, weft_instance_info *info)
{
    struct weft__cuda_pipelines *all = &weft__cuda_of(context)->pipelines;
    struct weft__cuda_pipeline *pipeline;
    pthread_mutex_lock(&all->lock);
    for (pipeline = all->first; pipeline && (pipeline->lazy || n > 0); pipeline = pipeline->next)
        n -= !pipeline->lazy;
    pthread_mutex_unlock(&all->lock);
    if (!pipeline)
        return false;
    bool built = weft__cuda_pipeline_wait(context, pipeline) == WEFT_OK;
    *info = (weft_instance_info){.registers = pipeline->registers,
                                 .shared_bytes = pipeline->shared_bytes,
                                 .spill_bytes = pipeline->spill_bytes,
                                 .max_threads = pipeline->max_threads,
                                 .from_disk = pipeline->from_disk,
                                 .name = pipeline->name,
                                 .failure = built ? NULL : pipeline->why};
    return true;
}
