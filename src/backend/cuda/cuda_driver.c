// SPDX-License-Identifier: MIT
#include "src/backend/cuda/cuda_driver.h"

#include <pthread.h>
#include <stdio.h>

#include "src/backend/cuda/cuda_library.h"

static struct weft__cuda_driver driver;
static struct weft__nvrtc nvrtc;
static char driver_why[256], nvrtc_why[256];
static pthread_once_t driver_once = PTHREAD_ONCE_INIT, nvrtc_once = PTHREAD_ONCE_INIT;

static void open_driver(void)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
    static const struct weft__library library = {"WEFT_CUDA_DRIVER", names,
                                                 "the NVIDIA driver's library",
                                                 "install the driver, or use the CPU"};
    static const struct weft__symbol symbols[] = {
#define SYMBOL(member, symbol, parameters) {#symbol, offsetof(struct weft__cuda_driver, member)},
        WEFT__CUDA_DRIVER_MAP(SYMBOL)
#undef SYMBOL
    };
    if (!weft__cuda_library_open(&library, symbols, sizeof symbols / sizeof *symbols, &driver,
                                 driver_why))
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
    static const struct weft__library library = {
        "WEFT_CUDA_NVRTC", names, "NVRTC, the compiler of GPU kernels",
        "install it (package libnvrtc or the CUDA toolkit), or add its folder to LD_LIBRARY_PATH"};
    static const struct weft__symbol symbols[] = {
#define SYMBOL(member, symbol, parameters) {#symbol, offsetof(struct weft__nvrtc, member)},
        WEFT__NVRTC_MAP(SYMBOL)
#undef SYMBOL
    };
    weft__cuda_library_open(&library, symbols, sizeof symbols / sizeof *symbols, &nvrtc, nvrtc_why);
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
