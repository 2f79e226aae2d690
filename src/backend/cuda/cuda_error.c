// SPDX-License-Identifier: MIT
// Words for what the driver refuses.
#include "src/backend/cuda/cuda_context.h"

// After these every call of the driver context fails: only a new process, or context, helps.
static bool is_lost(CUresult result)
{
    return (result >= 700 && result <= 720 && result != 701 && result != 704 && result != 705) ||
           result == 46 || result == 214 || result == 220 || result == 709;
}

weft_status weft__cuda_fail(weft_context *context, CUresult result, const char *what)
{
    const struct weft__cuda_driver *driver = weft__cuda_of(context)->driver;
    const char *text = NULL;
    if (driver->error_string(result, &text) != CUDA_SUCCESS || !text)
        text = "unknown error";
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return weft__fail(context, WEFT_ENOMEM, "the GPU has no memory left for %s", what);
    return weft__fail(
        context, WEFT_EDEVICE, "%s failed on the GPU: %s (error %d)%s", what, text, result,
        is_lost(result) ? "; the device is lost to this context, make a new one" : "");
}
