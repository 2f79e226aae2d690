// SPDX-License-Identifier: MIT
// One product through an installed library; valid as C11 and as C++17.
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

int main(void)
{
    weft_context *context = NULL;
    weft_plan *plan = NULL;
    if (weft_context_create(NULL, &context) != WEFT_OK)
        return 1;
    weft_linear_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.weight_dtype = WEFT_F32;
    desc.rows = 2;
    desc.cols = 3;
    if (weft_linear_plan(context, &desc, &plan) != WEFT_OK)
        return 1;
    const float w[6] = {1, 2, 3, 4, 5, 6}, x[3] = {1, 10, 100};
    float y[2] = {0, 0};
    weft_linear_args args;
    memset(&args, 0, sizeof args);
    args.size = sizeof args;
    args.batch = 1;
    args.weight = w;
    args.x = x;
    args.y = y;
    weft_status status = weft_linear_run(plan, &args);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
    printf("weft %s: %g %g\n", weft_version(), y[0], y[1]);
    return status == WEFT_OK && y[0] == 321 && y[1] == 654 ? 0 : 1;
}
