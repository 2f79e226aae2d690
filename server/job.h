// SPDX-License-Identifier: MIT
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

// A request of a client on its way: from the connection to the engine's thread, and its answer back. What is
// written to the client gathers in `out`; the engine never waits for who reads it.

#include "server/api.h"
#include "server/embedding.h"

typedef struct server_job server_job;

typedef struct server_choice {
    server_job *job;
    int32_t index;
    engine_request *request;  // NULL: not begun, or ended
    tokenizer_text text;      // of an answer that is not streamed
    answer_parts parts;       // if wish.split
    tokenizer_text thoughts;  // of such an answer that is not streamed
    json_t *calls;            // likewise; NULL: none
    tokenizer_text arguments; // of the last call
    json_t *logprobs;         // a list; NULL: none wanted
    size_t text_offset;       // of the next token, for completions' logprobs
    engine_finish finish;
    double logprob; // of all its tokens, if wish.best_of asks
    int32_t generated, cached;
    bool told;            // it is in the answer
    double last_token;    // when it came; 0: none has
    tokenizer_text frame; // an event of its stream that says nothing; empty: not made yet
    size_t frame_at;      // where in it a text stands
} server_choice;

// What /v1/responses tells: items, one after another.
typedef struct response_output {
    json_t *items;  // that are whole
    json_t *item;   // that is being written; NULL: none. Its text is the choice's, or its arguments
    int64_t events; // of the stream, that were written
} response_output;

struct server_job {
    server_job *next;             // in the runner's list
    struct server_runner *runner; // that has it
    api_wish wish;
    embedding embedding; // count > 0: the job wants these vectors, and wish is empty
    tokenizer_ids ids;   // of the prompt
    uint64_t owner;
    char id[48];
    int64_t created; // seconds
    const char *model_name;
    const tokenizer *tokenizer;
    double arrived;
    response_output output;
    server_choice *choices; // [wish.best_of]
    int32_t *breakers;      // of DRY
    constraint *constraint; // of the runner; NULL: none
    int32_t left;           // that have not ended
    // The runner's lock guards what follows.
    int holders;      // the connection, the engine's thread
    int socket;       // of the connection; -1: it is closed
    bool watched;     // by the runner, for being closed
    void *suspended;  // the connection, while it waits; NULL: it does not
    bool untold;      // out has something that the connection does not know of
    double woken;     // when it was told last
    bool begun, done; // out has something to say; all is in it
    bool gone;        // the client went away
    api_error error;  // status 0: none
    tokenizer_text out;
    size_t out_taken;
    bool no_memory; // out is not what it should be
};

// NULL when memory is short. The wish becomes the job's.
server_job *job_make(api_wish *wish);
void job_free(server_job *job);

// What is said of a token, of a choice's end, of all: into out if it is streamed, else kept for job_write_whole.
void job_write_token(server_choice *choice, const engine_token *token);
void job_write_end(server_choice *choice);
void job_write_done(server_job *job);

// Into out: an object, and one as an event of the stream. Both take it over.
bool job_write_json(server_job *job, json_t *object);
void job_write_event(server_job *job, json_t *object);

// Into out: UTF-8 as a string of JSON, quotes included. False when memory is short.
bool job_write_string(server_job *job, const char *text, size_t bytes);

// An error as OpenAI words it; NULL when memory is short. The caller frees it.
char *job_error_text(const api_error *error);

#endif
