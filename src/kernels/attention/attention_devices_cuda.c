// SPDX-License-Identifier: MIT
// What plans of attention choose by on the GPU at hand.
#include <string.h>

#include "src/kernels/attention/attention_plan_cuda.h"

static const struct weft__attention_device devices[] = {
#define X(name, few_keys, cluster_keys, end_bytes, whole_keys, merge_bytes, abreast_bytes)         \
    {name, {few_keys, cluster_keys, end_bytes, whole_keys, merge_bytes, abreast_bytes}},
#include "src/kernels/attention/attention_devices.def"
#undef X
};

const struct weft__attention_device *
weft__attention_device_named(const struct weft__attention_device *list, const char *name)
{
    while (strncmp(name, list->name, strlen(list->name)) != 0)
        list++;
    return list;
}

struct weft__attention_thresholds
weft__attention_thresholds_of(const struct weft__cuda_choice *choice)
{
    const char *const name = choice->device ? choice->device : "";
    struct weft__attention_thresholds own = weft__attention_device_named(devices, name)->of;
    const weft_tuning *const tuned = choice->attention;
    if (tuned && tuned->few_keys)
        own.few_keys = tuned->few_keys;
    if (tuned && tuned->cluster_keys)
        own.cluster_keys = tuned->cluster_keys;
    return own;
}
