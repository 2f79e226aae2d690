// SPDX-License-Identifier: MIT
#include "src/backend/cpu/cpu_stream.h"

#include <stdatomic.h>

enum { MAX_SHARES = 16 }; // more threads have one together

// The tasks of a share that nobody has taken:
//
//      63        32 31          0
//      |   end     |   begin    |
struct share {
    _Alignas(64) _Atomic uint64_t left;
};

struct stage {
    weft_task_fn *task;
    struct share shares[MAX_SHARES];
};

struct stream {
    void *work;
    int32_t stages, count; // of shares
    struct stage stage[2];
};

// Takes the first or the last task of a share. False if there is none.
static bool take(struct share *share, bool first, int32_t *index)
{
    uint64_t left = atomic_load_explicit(&share->left, memory_order_relaxed), then;
    do {
        uint32_t begin = (uint32_t)left, end = (uint32_t)(left >> 32);
        if (begin == end)
            return false;
        *index = (int32_t)(first ? begin : end - 1);
        then = first ? left + 1 : left - ((uint64_t)1 << 32);
    } while (!atomic_compare_exchange_weak_explicit(&share->left, &left, then, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

// There are as many tasks as calls, and tasks only become fewer: a look at every share finds one.
static void next_task(void *opaque, int32_t any, int32_t thread)
{
    struct stream *stream = opaque;
    int32_t own = thread % stream->count, index;
    (void)any;
    for (struct stage *stage = stream->stage; stage < stream->stage + stream->stages; stage++)
        for (int32_t i = 0; i < stream->count; i++)
            if (take(&stage->shares[(own + i) % stream->count], i == 0, &index)) {
                stage->task(stream->work, index, thread);
                return;
            }
}

static void add_stage(struct stream *stream, int32_t count, weft_task_fn *task)
{
    struct stage *stage = &stream->stage[stream->stages++];
    stage->task = task;
    for (int64_t i = 0; i < stream->count; i++) {
        uint64_t begin = (uint64_t)(count * i / stream->count);
        uint64_t end = (uint64_t)(count * (i + 1) / stream->count);
        atomic_init(&stage->shares[i].left, end << 32 | begin);
    }
}

static void begin(struct stream *stream, const weft_context *context, void *work)
{
    int32_t threads = weft__cpu_of(context)->threads;
    stream->work = work;
    stream->stages = 0;
    stream->count = threads < MAX_SHARES ? threads : MAX_SHARES;
}

void weft__cpu_stream_for(const weft_context *context, int32_t count, weft_task_fn *task,
                          void *work)
{
    struct stream stream;
    begin(&stream, context, work);
    add_stage(&stream, count, task);
    weft__cpu_parallel_for(context, count, next_task, &stream);
}

void weft__cpu_stream_for_both(const weft_context *context, int32_t first_count,
                               weft_task_fn *first, int32_t then_count, weft_task_fn *then,
                               void *work)
{
    struct stream stream;
    begin(&stream, context, work);
    add_stage(&stream, first_count, first);
    add_stage(&stream, then_count, then);
    weft__cpu_parallel_for(context, first_count + then_count, next_task, &stream);
}
