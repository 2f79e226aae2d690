// SPDX-License-Identifier: MIT
// The CUDA backend of a build without one.
#include "src/backend/backend.h"

const struct weft__backend *weft__backend_cuda(const char **why)
{
    *why = "this build of weft has no CUDA backend: use the CPU";
    return NULL;
}
