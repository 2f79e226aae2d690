// SPDX-License-Identifier: MIT
// A dense model whose layers are one launch (src/kernels/token/), on the emulator: logits and tokens are those
// of the launches that it takes the place of, to the bit. usage: test_cuda_emulated_token FORMAT [SHAPE]
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/quantize/quantize.h"
#include "engine/session/session.h"
#include "tests/support/scratch.h"
#include "tests/support/standin/standin_case.h"

enum { VOCAB = 512, STEPS = 1, CHAIN = 2, TEXTS = 2, MOST_PROMPT = 157 };

// Of a shape: what is said is the less the larger its matrices are.
struct trial {
    const char *shape;
    int32_t layers, prompt, chains, texts;
    bool pure;
    bool logits; // made by the launch, too, and the largest of them: of block formats
};
static const struct trial trials[] = {
    {"emulated-dense", 3, MOST_PROMPT, 2, TEXTS, true, false},
    {"emulated-wide", 4, 20, 1, 1, false, true}, // more than eight tiles a row
    {"emulated-logits", 2, 4, 1, 1, true, true},
    // of plain weights: whole stripes, an odd number of them
    {"emulated-long", 2, 40, 1, 1, true, false},
};
static const struct trial *trial = trials;
static const char *format = "q4_0";
static engine_error err;

// What a text of a worker came to: logits of every step, then the tokens of chains.
struct said {
    float logits[STEPS][VOCAB];
    int32_t tokens[2 * CHAIN];
    float infinite[VOCAB]; // logits of a step that sees infinities
};

#define FINE(what) CHECK_OR_SAY(what, err.text)

static void feed(engine_worker *worker, engine_session *session, int32_t first, int32_t count)
{
    int32_t ids[MOST_PROMPT];
    for (int32_t i = 0; i < count; i++)
        ids[i] = (first + i * 37) % VOCAB;
    engine_feed feed = {.session = session, .ids = ids, .count = count};
    FINE(engine_eval(worker, &feed, 1, NULL, NULL, &err));
}

// Infinities among the first keys and values of the text, in every layer: attention looks at them once more.
static void poison(const engine_worker *worker, const engine_session *session)
{
    const int32_t page = session->page_table[0];
    const size_t bytes = page_pool_whole_page_bytes(worker->pool);
    uint16_t *numbers = malloc(bytes);
    CHECK(numbers && page_pool_read(worker->pool, page, numbers));
    for (size_t i = 5; i < bytes / 2; i += 1024)
        numbers[i] = i / 1024 % 2 ? 0x7c00 : 0xfc00;
    CHECK(page_pool_write(worker->pool, page, numbers));
    free(numbers);
}

// To the bit; what is not a number need not be the same one.
static bool same_numbers(const float *a, const float *b)
{
    for (int32_t i = 0; i < VOCAB; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(a[i] != a[i] && b[i] != b[i]))
            return false;
    return true;
}

// Two texts that grow by turns, so that their pages lie between one another.
static void speak(engine_worker *worker, struct said said[TEXTS])
{
    static const engine_sampling likeliest = {.params = {.temperature = 0}};
    engine_session *session[TEXTS];
    for (int32_t t = 0; t < trial->texts; t++) {
        session[t] = engine_session_open(worker, &err);
        FINE(session[t]);
        feed(worker, session[t], 11 + t, trial->prompt);
    }
    for (int32_t step = 0; step < STEPS; step++)
        for (int32_t t = 0; t < trial->texts; t++) {
            feed(worker, session[t], 7 * step + t, 1);
            memcpy(said[t].logits[step], engine_session_logits(session[t]),
                   sizeof said[t].logits[step]);
        }
    for (int32_t i = 0; i < trial->chains; i++)
        for (int32_t t = 0; t < trial->texts; t++) {
            engine_draw draw = {session[t], &likeliest, 3 + t};
            FINE(engine_decode(worker, &draw, 1, CHAIN, said[t].tokens + i * CHAIN, &err));
        }
    poison(worker, session[0]);
    feed(worker, session[0], 5, 1);
    memcpy(said[0].infinite, engine_session_logits(session[0]), sizeof said[0].infinite);
    for (int32_t t = 0; t < trial->texts; t++)
        engine_session_close(session[t]);
}

static int launches_of(const char *function)
{
    int found = 0;
    CHECK(standin->num_launches <= STANDIN_MOST_LAUNCHES);
    for (int i = 0; i < standin->num_launches; i++)
        found += strcmp(standin->launches[i].function, function) == 0;
    return found;
}

// Is the matrix of logits left to a launch of its own, behind that of the layers? It is of plain weights, and where that launch rounds X
// itself: of short rows.
static bool logits_are_apart(void)
{
    bool apart = false;
    for (int i = 0; i + 1 < standin->num_launches; i++)
        apart |= strcmp(standin->launches[i].function, "weft_token") == 0 &&
                 strncmp(standin->launches[i + 1].function, "weft_linear", 11) == 0;
    return apart;
}

static void case_same(void)
{
    static struct said graph[TEXTS], persistent[TEXTS];
    char path[SCRATCH_PATH_BYTES];
    const quantize_options quantize = {.mix = format, .pure = trial->pure};
    scratch_file(path, NULL, 0);
    FINE(engine_quantize_shape(trial->shape, path, &quantize, &err));
    engine_model *model = engine_model_open(path, &err);
    FINE(model);
    for (int32_t i = 0; i < 2; i++) {
        const engine_options options = {.device = WEFT_DEVICE_CUDA,
                                        .max_sessions = trial->texts,
                                        .context_tokens = 256,
                                        .chain_tokens = CHAIN};
        setenv("WEFT_PROGRAM", i ? "persistent" : "graph", 1);
        engine_worker *worker = engine_worker_open(model, &options, &err);
        FINE(worker);
        standin->num_launches = 0;
        speak(worker, i ? persistent : graph);
        // one token of one text: a step, or a link of a chain
        const int tokens = trial->texts * (STEPS + trial->chains * CHAIN) + 1;
        CHECK(launches_of("weft_token") == (i ? tokens : 0));
        CHECK(launches_of("weft_attention_token") == (i ? 0 : trial->layers * tokens));
        const bool inside = i && trial->logits && strchr(format, 'q');
        CHECK(logits_are_apart() == (i && !inside));
        CHECK(launches_of("weft_sample_best") ==
              (inside ? 0 : trial->texts * trial->chains * CHAIN));
        engine_worker_close(worker);
    }
    for (int32_t t = 0; t < TEXTS; t++) {
        CHECK(memcmp(graph[t].logits, persistent[t].logits, sizeof graph[t].logits) == 0);
        CHECK(memcmp(graph[t].tokens, persistent[t].tokens, sizeof graph[t].tokens) == 0);
    }
    CHECK(same_numbers(graph[0].infinite, persistent[0].infinite));
    CHECK(graph[0].logits[0][0] != 0);
    CHECK(trial->texts < 2 ||
          memcmp(graph[0].tokens, graph[1].tokens, sizeof graph[0].tokens) != 0);
    engine_model_close(model);
    scratch_remove(path);
}

int main(int argc, char **argv)
{
    static const struct standin_case cases[] = {{"same", case_same}};
    format = argc > 1 ? argv[1] : format;
    for (size_t i = 0; argc > 2 && i < sizeof trials / sizeof *trials; i++)
        if (strcmp(argv[2], trials[i].shape) == 0)
            trial = &trials[i];
    return standin_run(cases, 1);
}
