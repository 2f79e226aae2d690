// SPDX-License-Identifier: MIT
// What plans of attention choose by on the GPU at hand.
#include <string.h>

#include "src/kernels/attention/attention_plan_cuda.h"

struct device {
    const char *name;
    struct weft__attention_thresholds of;
};

static const struct device devices[] = {
#define X(name, few_keys, cluster_keys, end_bytes, whole_keys)                                     \
    {name, {few_keys, cluster_keys, end_bytes, whole_keys}},
#include "src/kernels/attention/attention_devices.def"
#undef X
};

struct weft__attention_thresholds
weft__attention_thresholds_of(const struct weft__cuda_choice *choice)
{
    const char *const name = choice->device ? choice->device : "";
    const struct device *device = devices;
    while (strncmp(name, device->name, strlen(device->name)) != 0)
        device++;
    struct weft__attention_thresholds own = device->of;
    const weft_tuning *const tuned = choice->attention;
    if (tuned && tuned->few_keys)
        own.few_keys = tuned->few_keys;
    if (tuned && tuned->cluster_keys)
        own.cluster_keys = tuned->cluster_keys;
    return own;
}
