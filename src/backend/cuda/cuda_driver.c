// SPDX-License-Identifier: MIT
#include "src/backend/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t offset; // of its pointer in the table
};

struct library {
    const char *variable;     // names another file
    const char *const *names; // tried in turn, NULL at the end
    const char *what, *cure;
};

// Opens a library and fills its table of pointers. False after `why` has been worded.
static bool open_library(const struct library *library, const struct symbol *symbols,
                         size_t num_symbols, void *table, char why[256])
{
    const char *own = getenv(library->variable);
    void *handle = NULL;
    if (own && *own)
        handle = dlopen(own, RTLD_NOW | RTLD_LOCAL);
    for (const char *const *name = library->names; !(own && *own) && !handle && *name; name++)
        handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(why, 256, "%s (%s) was not found: %s", library->what,
                 own && *own ? own : library->names[0], library->cure);
        return false;
    }
    for (size_t i = 0; i < num_symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address) {
            snprintf(why, 256, "%s has no function %s: it is too old, update it", library->what,
                     symbols[i].name);
            dlclose(handle);
            return false;
        }
        memcpy((char *)table + symbols[i].offset, &address, sizeof address);
    }
    return true;
}

static struct weft__cuda_driver driver;
static struct weft__nvrtc nvrtc;
static char driver_why[256], nvrtc_why[256];
static pthread_once_t driver_once = PTHREAD_ONCE_INIT, nvrtc_once = PTHREAD_ONCE_INIT;

static void open_driver(void)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
    static const struct library library = {"WEFT_CUDA_DRIVER", names, "the NVIDIA driver's library",
                                           "install the driver, or use the CPU"};
    static const struct symbol symbols[] = {
#define SYMBOL(member, symbol, parameters) {#symbol, offsetof(struct weft__cuda_driver, member)},
        WEFT__CUDA_DRIVER_MAP(SYMBOL)
#undef SYMBOL
    };
    if (!open_library(&library, symbols, sizeof symbols / sizeof *symbols, &driver, driver_why))
        return;
    CUresult result = driver.init(0);
    const char *text = NULL;
    if (result == CUDA_ERROR_NO_DEVICE)
        snprintf(driver_why, sizeof driver_why, "the NVIDIA driver sees no GPU: use the CPU");
    else if (result != CUDA_SUCCESS)
        snprintf(driver_why, sizeof driver_why, "the NVIDIA driver does not start: %s (error %d)",
                 driver.error_string(result, &text) == CUDA_SUCCESS && text ? text : "unknown",
                 result);
}

static void open_nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so.13",
                                        "libnvrtc.so.12",
                                        "libnvrtc.so",
                                        "libnvrtc.so.11.2",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        NULL};
    static const struct library library = {
        "WEFT_CUDA_NVRTC", names, "NVRTC, the compiler of GPU kernels",
        "install it (package libnvrtc or the CUDA toolkit), or add its folder to LD_LIBRARY_PATH"};
    static const struct symbol symbols[] = {
#define SYMBOL(member, symbol, parameters) {#symbol, offsetof(struct weft__nvrtc, member)},
        WEFT__NVRTC_MAP(SYMBOL)
#undef SYMBOL
    };
    open_library(&library, symbols, sizeof symbols / sizeof *symbols, &nvrtc, nvrtc_why);
}

const struct weft__cuda_driver *weft__cuda_driver(const char **why)
{
    pthread_once(&driver_once, open_driver);
    *why = driver_why;
    return *driver_why ? NULL : &driver;
}

const struct weft__nvrtc *weft__nvrtc(const char **why)
{
    pthread_once(&nvrtc_once, open_nvrtc);
    *why = nvrtc_why;
    return *nvrtc_why ? NULL : &nvrtc;
}
