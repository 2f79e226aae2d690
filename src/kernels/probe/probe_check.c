// SPDX-License-Identifier: MIT
// Holds the probes against the reference: the sums of memory must be equal to the bit, and chains must
// have counted what their number and length say.
#include "src/kernels/check.h"
#include "src/kernels/probe/probe_kernel.h"

static uint64_t run(struct check_case *c, weft_probe_args args, const char *variant)
{
    weft_probe_result result = {0};
    args.variant = variant;
    check_ok(c, weft_probe_run(check_context(c, variant), &args, &result), "run");
    return result.value;
}

check_fn weft__probe_check;
void weft__probe_check(struct check_case *c)
{
    const struct weft__probe_kernel *kernel = (const struct weft__probe_kernel *)c->kernel;
    char reference[64];
    if (c->format) {
        check_skip(c);
        return;
    }
    weft_probe_args args = {.size = sizeof args, .kind = kernel->kind};
    if (kernel->kind == WEFT_PROBE_READ) {
        args.bytes = check_length(c, 40, 8) * WEFT_PROBE_UNIT_BYTES;
        args.memory = check_buffer(c, (size_t)args.bytes, 64);
        uint64_t got = run(c, args, c->kernel->name);
        uint64_t want = run(c, args, check_reference(c, reference));
        check_close(c, (double)(got - want), 0, 0, "sum", 0);
    } else {
        // Twice the steps count twice; one step of the shortest chain is at least one product.
        args.steps = check_length(c, 1000, 8);
        uint64_t once = run(c, args, c->kernel->name);
        args.steps *= 2;
        uint64_t twice = run(c, args, c->kernel->name);
        uint64_t threads = (uint64_t)weft_context_threads(c->context);
        check_close(c, (double)twice, 2 * (double)once, 0, "count", 0);
        check_close(c, (double)(once % (threads * 8 * (uint64_t)args.steps / 2)), 0, 0, "count", 1);
    }
    check_note(c, "kind %d bytes %lld steps %lld", (int)args.kind, (long long)args.bytes,
               (long long)args.steps);
}
