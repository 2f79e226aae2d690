// SPDX-License-Identifier: MIT
// From a kernel's text and constants to machine code, through NVRTC.
#include <stdio.h>
#include <string.h>

#include "src/backend/cuda/device_text.h"
#include "src/backend/cuda/pipeline.h"
#include "src/base/memory.h"

static const char *const fixed_options[] = {"-std=c++17", "-default-device",
                                            "-diag-suppress=177,550"};
enum { FIXED_OPTIONS = sizeof fixed_options / sizeof *fixed_options };

struct options {
    char text[WEFT__CUDA_MAX_CONSTANTS + 1][64];
    const char *list[WEFT__CUDA_MAX_CONSTANTS + FIXED_OPTIONS + 3];
    int count;
};

static void make_options(const struct weft__cuda_kernel *kernel, const char *arch, bool verbose,
                         struct options *options)
{
    options->count = 0;
    for (int i = 0; i < FIXED_OPTIONS; i++)
        options->list[options->count++] = fixed_options[i];
    for (int32_t i = 0; i < kernel->num_constants; i++) {
        snprintf(options->text[i], sizeof options->text[i], "-D%s=%d", kernel->names[i],
                 kernel->values[i]);
        options->list[options->count++] = options->text[i];
    }
    char *last = options->text[kernel->num_constants];
    snprintf(last, sizeof options->text[0], "-arch=%s", arch);
    options->list[options->count++] = last;
    if (kernel->exact)
        options->list[options->count++] = "-fmad=false";
    if (verbose)
        options->list[options->count++] = "--ptxas-options=-v";
}

void weft__cuda_kernel_name(const struct weft__cuda_kernel *kernel, char *name, size_t bytes)
{
    size_t used = (size_t)snprintf(name, bytes, "%s[", kernel->function);
    const char *comma = "";
    for (int32_t i = 0; i < kernel->num_constants && used + 1 < bytes; i++) {
        if (kernel->values[i] == 0)
            continue;
        used += (size_t)snprintf(name + used, bytes - used, "%s%s=%d", comma, kernel->names[i],
                                 kernel->values[i]);
        comma = ",";
    }
    if (used + 1 < bytes)
        snprintf(name + used, bytes - used, "]");
}

void weft__cuda_kernel_key(const struct weft__nvrtc *nvrtc, const struct weft__cuda_kernel *kernel,
                           const char *arch, unsigned char key[WEFT__SHA256_BYTES])
{
    struct weft__sha256 sha;
    struct options options;
    int major = 0, minor = 0;
    char compiler[32];
    nvrtc->version(&major, &minor);
    snprintf(compiler, sizeof compiler, "nvrtc %d.%d", major, minor);
    make_options(kernel, arch, false, &options);
    weft__sha256_begin(&sha);
    weft__sha256_add(&sha, compiler, strlen(compiler) + 1);
    weft__sha256_add(&sha, kernel->function, strlen(kernel->function) + 1);
    for (int i = 0; i < options.count; i++)
        weft__sha256_add(&sha, options.list[i], strlen(options.list[i]) + 1);
    weft__device_text_hash(kernel->file, &sha);
    weft__sha256_end(&sha, key);
}

void weft__cuda_arch(const struct weft__nvrtc *nvrtc, int32_t sm, char arch[16])
{
    int archs[64], count = 0, best = 0;
    if (nvrtc->num_archs(&count) != 0 || count < 1 || count > 64 || nvrtc->archs(archs) != 0)
        count = 0;
    for (int i = 0; i < count; i++)
        if (archs[i] <= sm && archs[i] > best)
            best = archs[i];
    if (best == 90 && sm == 90)
        snprintf(arch, 16, "sm_90a"); // wgmma and setmaxnreg
    else if (best / 10 == sm / 10)
        snprintf(arch, 16, "sm_%d", best);
    else
        snprintf(arch, 16, "compute_%d", best ? best : sm);
}

static void read_log(const struct weft__nvrtc *nvrtc, nvrtcProgram program, char *log,
                     size_t log_bytes)
{
    size_t bytes = 0;
    log[0] = 0;
    if (nvrtc->log_bytes(program, &bytes) != 0 || bytes < 2)
        return;
    char *text = weft__base_allocate(NULL, bytes + 1);
    if (!text)
        return;
    if (nvrtc->log(program, text) == 0) {
        text[bytes] = 0;
        snprintf(log, log_bytes, "%s", text);
    }
    weft__base_release(NULL, text);
}

static weft_status take_image(const struct weft__nvrtc *nvrtc, nvrtcProgram program, bool ptx,
                              struct weft__cuda_image *image)
{
    size_t bytes = 0;
    if ((ptx ? nvrtc->ptx_bytes(program, &bytes) : nvrtc->cubin_bytes(program, &bytes)) != 0 ||
        bytes == 0)
        return WEFT_EDEVICE;
    image->data = weft__base_allocate(NULL, bytes);
    if (!image->data)
        return WEFT_ENOMEM;
    image->bytes = bytes;
    if ((ptx ? nvrtc->ptx(program, image->data) : nvrtc->cubin(program, image->data)) == 0)
        return WEFT_OK;
    weft__base_release(NULL, image->data);
    return WEFT_EDEVICE;
}

weft_status weft__cuda_compile(const struct weft__nvrtc *nvrtc,
                               const struct weft__cuda_kernel *kernel, const char *arch,
                               bool verbose, struct weft__cuda_image *image, char *log,
                               size_t log_bytes)
{
    const struct weft__device_text *text = weft__device_text(kernel->file);
    struct weft__device_headers headers;
    struct options options;
    nvrtcProgram program = NULL;
    if (!text) {
        snprintf(log, log_bytes, "no device text %s in this build", kernel->file);
        return WEFT_EUNSUPPORTED;
    }
    weft__device_headers(&headers);
    make_options(kernel, arch, verbose, &options);
    if (nvrtc->create(&program, text->text, text->name, headers.count, headers.texts,
                      headers.names) != 0) {
        snprintf(log, log_bytes, "NVRTC takes no program");
        return WEFT_EDEVICE;
    }
    int result = nvrtc->compile(program, options.count, options.list);
    read_log(nvrtc, program, log, log_bytes);
    weft_status status = WEFT_EDEVICE;
    if (result == 0)
        status = take_image(nvrtc, program, strncmp(arch, "compute", 7) == 0, image);
    nvrtc->destroy(&program);
    return status;
}
