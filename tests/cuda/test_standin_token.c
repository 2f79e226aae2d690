// SPDX-License-Identifier: MIT
// Which texts of a program have their layers as one launch (src/backend/cuda/cuda_token.c), on the stand-in
// driver: where that was measured to be faster, and no longer ones.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/quantize/quantize.h"
#include "tests/support/scratch.h"
#include "tests/support/standin/standin_case.h"

enum {
    VOCAB = 512,
    MOST = 4096,
    CONTEXT = 2 * MOST,
    CHAIN = 12,
    LINKS = 8, // of a chain that are one graph
    LAYERS = 2
}; // MOST: token_devices.def

static engine_error err;

#define FINE(what) CHECK_OR_SAY(what, err.text)

static int launches_of(const char *function)
{
    int found = 0;
    CHECK(standin->num_launches <= STANDIN_MOST_LAUNCHES);
    for (int i = 0; i < standin->num_launches; i++)
        found += strcmp(standin->launches[i].function, function) == 0;
    return found;
}

struct opened {
    char path[SCRATCH_PATH_BYTES];
    engine_model *model;
    engine_worker *worker;
    engine_session *session;
};

static void open_all(struct opened *o, const char *device, const char *program)
{
    const quantize_options quantize = {.mix = "q4_0", .pure = true};
    const engine_options options = {.device = WEFT_DEVICE_CUDA,
                                    .max_sessions = 1,
                                    .context_tokens = CONTEXT,
                                    .chain_tokens = CHAIN};
    setenv("STANDIN_NAME", device, 1);
    if (program)
        setenv("WEFT_PROGRAM", program, 1);
    else
        unsetenv("WEFT_PROGRAM");
    scratch_file(o->path, NULL, 0);
    FINE(engine_quantize_shape("emulated-heads", o->path, &quantize, &err));
    o->model = engine_model_open(o->path, &err);
    FINE(o->model);
    o->worker = engine_worker_open(o->model, &options, &err);
    FINE(o->worker);
    o->session = engine_session_open(o->worker, &err);
    FINE(o->session);
}

static void close_all(struct opened *o)
{
    engine_session_close(o->session);
    engine_worker_close(o->worker);
    engine_model_close(o->model);
    scratch_remove(o->path);
}

static void feed(const struct opened *o, int32_t count)
{
    static int32_t ids[CONTEXT];
    engine_feed feed = {.session = o->session, .ids = ids, .count = count};
    FINE(engine_eval(o->worker, &feed, 1, NULL, NULL, &err));
}

// One token more: is it made by the one launch? If it is not, by those of all layers.
static bool step_is_one(const struct opened *o)
{
    standin->num_launches = 0;
    feed(o, 1);
    const int one = launches_of("weft_token"), attention = launches_of("weft_attention_token");
    CHECK((one == 1 && attention == 0) || (one == 0 && attention == LAYERS));
    return one == 1;
}

static void chain(const struct opened *o)
{
    static const engine_sampling likeliest = {.params = {.temperature = 0}};
    int32_t tokens[CHAIN];
    engine_draw draw = {o->session, &likeliest, 3};
    standin->num_launches = 0;
    FINE(engine_decode(o->worker, &draw, 1, CHAIN, tokens, &err));
}

// The program's texts may become twice as long as one launch is worth it.
static void case_by_length(void)
{
    struct opened o;
    open_all(&o, "NVIDIA H200", NULL);
    feed(&o, MOST - 2 * CHAIN);
    const int64_t graphs = standin->graph_launches;
    chain(&o);
    CHECK(launches_of("weft_token") == CHAIN && launches_of("weft_attention_token") == 0);
    CHECK(standin->graph_launches - graphs == CHAIN / LINKS + CHAIN % LINKS);
    feed(&o, MOST - 1 - engine_session_length(o.session));
    CHECK(step_is_one(&o));
    CHECK(engine_session_length(o.session) == MOST);
    CHECK(!step_is_one(&o));
    engine_worker_info before, after;
    engine_worker_describe(o.worker, &before);
    CHECK(before.one_launches > 1); // of the chain, of the step
    chain(&o);
    engine_worker_describe(o.worker, &after);
    CHECK(after.one_launches == before.one_launches);
    CHECK(launches_of("weft_token") == 0 && launches_of("weft_attention_token") > 0);
    close_all(&o);
}

static void case_asked_for(void)
{
    struct opened o;
    open_all(&o, "stand-in GPU", "persistent");
    feed(&o, MOST + 7);
    CHECK(step_is_one(&o));
    close_all(&o);
}

static void case_refused(void)
{
    struct opened o;
    open_all(&o, "NVIDIA H200", "graph");
    feed(&o, 100);
    CHECK(!step_is_one(&o));
    close_all(&o);
}

static void case_not_measured(void)
{
    struct opened o;
    open_all(&o, "NVIDIA B200", NULL);
    feed(&o, 100);
    CHECK(!step_is_one(&o));
    close_all(&o);
}

int main(void)
{
    static const struct standin_case cases[] = {{"by length", case_by_length},
                                                {"asked for", case_asked_for},
                                                {"refused", case_refused},
                                                {"not measured", case_not_measured}};
    return standin_run(cases, sizeof cases / sizeof *cases);
}
