// SPDX-License-Identifier: MIT
#ifndef CLI_CLI_H
#define CLI_CLI_H

// What the sub-commands share. A sub-command is one file, cli/<name>.c, that defines the cli_command
// cli_<name> and is listed in main.c.

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/engine.h"

// Exit statuses.
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_command {
    const char *name;
    const char *summary; // one line for the overview
    const char
        *help[3]; // the page of --help, in parts: C promises no longer literals than 4095 bytes
    int (*run)(const struct cli_command *self, int argc, char **argv);
} cli_command;

// --- messages -----------------------------------------------------------------------------------------

// One line on standard error, "weft NAME: text"; returns CLI_USAGE or CLI_FAILED.
int cli_bad_usage(const cli_command *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int cli_failed(const cli_command *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// --- options ------------------------------------------------------------------------------------------

// The next option of argv, as getopt_long gives it, under any of the names of next_option.c; -m FILE becomes
// the first operand unless the command has an option --model. Answers --help and words mistakes itself: then it
// returns CLI_OPTIONS_END or CLI_OPTIONS_BAD, and *status is what to exit with. Every option has a
// number; those below are known to cli_model_option.
enum {
    CLI_OPTIONS_END = -1,
    CLI_OPTIONS_BAD = -2,
    CLI_OPT_THREADS = 1000,
    CLI_OPT_DEVICE,
    CLI_OPT_CTX,
    CLI_OPT_CHUNK,
    CLI_OPT_KV_DTYPE,
    CLI_OPT_EXACT,
    CLI_OPT_ATTENTION,
    CLI_OPT_LORA,
    CLI_OPT_NO_MMAP,
    CLI_OPT_NO_PACK,
    CLI_OPT_PACK_CACHE,
    CLI_OPT_HELP,
};

#define CLI_MODEL_OPTIONS                                                                          \
    {"threads", required_argument, NULL, CLI_OPT_THREADS},                                         \
        {"device", required_argument, NULL, CLI_OPT_DEVICE},                                       \
        {"ctx", required_argument, NULL, CLI_OPT_CTX},                                             \
        {"chunk", required_argument, NULL, CLI_OPT_CHUNK},                                         \
        {"kv-dtype", required_argument, NULL, CLI_OPT_KV_DTYPE},                                   \
        {"exact", no_argument, NULL, CLI_OPT_EXACT},                                               \
        {"attention", required_argument, NULL, CLI_OPT_ATTENTION},                                 \
        {"lora", required_argument, NULL, CLI_OPT_LORA},                                           \
        {"no-mmap", no_argument, NULL, CLI_OPT_NO_MMAP},                                           \
        {"no-pack", no_argument, NULL, CLI_OPT_NO_PACK},                                           \
        {"pack-cache", required_argument, NULL, CLI_OPT_PACK_CACHE},                               \
    {                                                                                              \
        "help", no_argument, NULL, CLI_OPT_HELP                                                    \
    }

#define CLI_MODEL_HELP                                                                             \
    "  -t, --threads T     threads; default one per core\n"                                        \
    "  --device D          cpu (default), cuda or cuda:N\n"                                        \
    "  -c, --ctx C         longest text in tokens; default the model's own, at most 4096\n"        \
    "  --chunk N           most tokens in one pass over the weights; default 512 (GPU: 2048)\n"    \
    "  --kv-dtype K[/V]    format of the KV cache, or one for keys and one for values: f16,\n"     \
    "                      bf16, f32, int8, fp8_e4m3, fp8_e5m2, q8_0, q5_1, q5_0, q4_1, q4_0,\n"   \
    "                      iq4_nl\n"                                                               \
    "  --exact             keep activations in f32 against quantised weights (slower)\n"           \
    "  --lora FILE[=SCALE] an adapter (GGUF), times SCALE (1); up to 8 times\n"                    \
    "  --no-pack           on the CPU, read matrices from the mapped file instead of laying\n"     \
    "                      them out anew at the start: starts sooner, writes slower, half the\n"   \
    "                      memory\n"                                                               \
    "  --pack-cache DIR    keep what was laid out in a folder, and map it at the next start\n"     \
    "  --no-mmap           copy a GGUF file's weights into memory as they are, in huge pages\n"    \
    "  --attention KERNEL  by name (weft info --kernels), for debugging: attention_any_ref\n"      \
    "                      computes scores, softmax and values one after another\n"

int cli_next_option(const cli_command *self, int argc, char **argv, const struct option *options,
                    int *status);

// Writes the page of --help to standard output.
void cli_print_help(const cli_command *self);

// Takes all of them: -1 to go on, or an exit status. take() says no after it has worded why; the option's value is
// in optarg.
typedef bool cli_take_fn(void *wish, int option);
int cli_take_options(const cli_command *self, int argc, char **argv, const struct option *options,
                     cli_take_fn *take, void *wish);

// Keeps in *nearest (NULL at first) which of the names seen is so near to a mistyped word that it may
// have been meant.
void cli_keep_nearer(const char *word, const char *name, const char **nearest);

// "K" or "K/V", a format of the KV cache for both or one for keys and one for values, to kv_dtype and v_dtype.
bool cli_kv_dtype(const cli_command *self, const char *value, engine_options *options);

// Takes one of CLI_MODEL_OPTIONS; false (with a message) if its value is bad.
bool cli_model_option(const cli_command *self, int option, const char *value,
                      engine_options *options);

// Numbers with their bounds; false with a message that names the option.
bool cli_int(const cli_command *self, const char *option, const char *text, int64_t low,
             int64_t high, int64_t *value);
bool cli_int32(const cli_command *self, const char *option, const char *text, int32_t low,
               int32_t high, int32_t *value);
// Most tokens to generate; -1 and 0 are no limit.
bool cli_token_limit(const cli_command *self, const char *text, int32_t *value);
bool cli_float(const cli_command *self, const char *option, const char *text, float low, float high,
               float *value);
bool cli_dtype(const cli_command *self, const char *option, const char *text, weft_dtype *value);
// A format or a mix of a model that is made up (engine_model_synthesise()).
bool cli_formats(const cli_command *self, const char *option, const char *text, const char **value);

// How a GPU was given the layers of the tokens that the worker has decoded: "one launch" or "launches".
const char *cli_layers_of(const engine_worker *worker);

// A list of ids such as "1,2,3"; the caller frees *ids.
bool cli_ids(const cli_command *self, const char *option, const char *text, int32_t **ids,
             int32_t *count);

// The one operand that a sub-command takes, named `what`; NULL (with a message) if there is none or more.
const char *cli_operand(const cli_command *self, int argc, char **argv, const char *what);

// All options and the one operand MODEL: -1 to go on, or an exit status.
int cli_take_model(const cli_command *self, int argc, char **argv, const struct option *options,
                   cli_take_fn *take, void *wish, const char **path);

// --- input and output ---------------------------------------------------------------------------------

// A whole file, or standard input for "-", NUL-terminated; NULL with a message. The caller frees it.
char *cli_read_file(const cli_command *self, const char *path, size_t *bytes);

// Lines typed at a terminal, with editing and a history; NULL when memory is short. Reading returns the
// next line without its end, which the caller frees, or NULL at the end of input; Ctrl-C discards a line.
typedef struct cli_line_editor cli_line_editor;
cli_line_editor *cli_line_editor_open(void);
void cli_line_editor_close(cli_line_editor *lines); // may be NULL
char *cli_line_editor_read(cli_line_editor *lines);

// Text from the command line as JSON, made printable; NULL when memory is short.
json_t *cli_json_text(const char *text);

// Prints an object on a line of its own and takes it over; NULL is a lack of memory. Returns the exit
// status.
int cli_print_json(const cli_command *self, json_t *object);

// Progress on standard error, only if that is a terminal: an engine_progress_fn whose user is a
// cli_progress. cli_progress_clear wipes the line.
typedef struct cli_progress {
    const char *label;
    bool shown;
} cli_progress;

bool cli_progress_show(void *user, int32_t done_tokens, int32_t all_tokens);
void cli_progress_clear(cli_progress *progress);

// Text for people on standard output: where that is a terminal, words are kept whole at its edge. Whole
// UTF-8 characters only; false if it cannot be written. Start at the beginning of a line.
typedef struct cli_wrap {
    int columns, column; // of the terminal, 0: no wrapping; of the cursor
    char word[256];      // that was begun
    size_t word_bytes;
    int word_columns;
} cli_wrap;

void cli_wrap_start(cli_wrap *wrap);
bool cli_wrap_write(cli_wrap *wrap, const char *text, size_t bytes);

// An answer as its tokens come, its thoughts told from its text however the model's family marks them. A terminal shows
// thoughts dimmed; elsewhere they stand between <think> and </think>.
typedef struct cli_thinking {
    const tokenizer *tokenizer;
    answer_parts parts;
    tokenizer_text thoughts, text; // what came
    cli_wrap wrap;
    bool shown;  // else it is only kept
    bool dims;   // standard output is a terminal that can
    bool inside; // of thoughts that are shown
    bool fine;
} cli_thinking;

// The answer to a prompt in the model's template (NULL: there is none, all of it is text); release it with
// cli_thinking_free. What is in a zeroed one, or one of an answer before, is released.
void cli_thinking_start(cli_thinking *thinking, const chat_template *t, const tokenizer *tok,
                        const tokenizer_ids *prompt, chat_thinking wish, bool shown);
// False if it cannot be written or memory is short.
bool cli_thinking_token(cli_thinking *thinking, const engine_token *token);
bool cli_thinking_end(cli_thinking *thinking); // shows what was kept back
void cli_thinking_free(cli_thinking *thinking);

// Reads and writes characters as UTF-8, as models do, whatever the user's locale is.
void cli_use_utf8(void);

// Becomes true when the user has pressed Ctrl-C since cli_catch_interrupt.
void cli_catch_interrupt(void);

// Until the next cli_catch_interrupt, Ctrl-C ends a wait for input, too.
void cli_let_interrupt_end_reading(void);
bool cli_interrupted(void);

double cli_now_seconds(void);
int64_t cli_peak_memory_bytes(void);

// "1.2 GB", in decimal units, and "1 token", "2 tokens"; the text is in one of four static buffers.
const char *cli_bytes(int64_t bytes);
const char *cli_tokens(int64_t tokens);

// --- sampling options, shared by run and chat ---------------------------------------------------------

enum {
    CLI_OPT_TEMP = 1100,
    CLI_OPT_TOP_K,
    CLI_OPT_TOP_P,
    CLI_OPT_MIN_P,
    CLI_OPT_SEED,
    CLI_OPT_REPEAT,
    CLI_OPT_FREQUENCY,
    CLI_OPT_PRESENCE,
    CLI_OPT_STOP,
    CLI_OPT_IGNORE_END,
    CLI_OPT_SYSTEM,
    CLI_OPT_THINKING,
    CLI_OPT_TOOLS,
    CLI_OPT_DOCUMENTS,
    CLI_OPT_GRAMMAR,
    CLI_OPT_JSON_SCHEMA,
};

// One for each setting of the further samplers.
enum {
    CLI_OPT_SAMPLERS = 1300,
#define CLI_SHAPING_ENUM(member, option, low, high, standard, help) CLI_OPT_##member,
    ENGINE_SHAPING_SETTINGS(CLI_SHAPING_ENUM)
#undef CLI_SHAPING_ENUM
};

#define CLI_SHAPING_OPTION(member, option, low, high, standard, help)                              \
    {option, required_argument, NULL, CLI_OPT_##member},

#define CLI_SAMPLING_OPTIONS                                                                       \
    ENGINE_SHAPING_SETTINGS(CLI_SHAPING_OPTION){"samplers", required_argument, NULL,               \
                                                CLI_OPT_SAMPLERS},                                 \
        {"temp", required_argument, NULL, CLI_OPT_TEMP},                                           \
        {"top-k", required_argument, NULL, CLI_OPT_TOP_K},                                         \
        {"top-p", required_argument, NULL, CLI_OPT_TOP_P},                                         \
        {"min-p", required_argument, NULL, CLI_OPT_MIN_P},                                         \
        {"seed", required_argument, NULL, CLI_OPT_SEED},                                           \
        {"repeat-penalty", required_argument, NULL, CLI_OPT_REPEAT},                               \
        {"frequency-penalty", required_argument, NULL, CLI_OPT_FREQUENCY},                         \
        {"presence-penalty", required_argument, NULL, CLI_OPT_PRESENCE},                           \
        {"stop", required_argument, NULL, CLI_OPT_STOP},                                           \
        {"ignore-end", no_argument, NULL, CLI_OPT_IGNORE_END},                                     \
        {"system", required_argument, NULL, CLI_OPT_SYSTEM},                                       \
        {"thinking", required_argument, NULL, CLI_OPT_THINKING},                                   \
        {"tools", required_argument, NULL, CLI_OPT_TOOLS},                                         \
        {"grammar", required_argument, NULL, CLI_OPT_GRAMMAR},                                     \
        {"json-schema", required_argument, NULL, CLI_OPT_JSON_SCHEMA},                             \
    {                                                                                              \
        "documents", required_argument, NULL, CLI_OPT_DOCUMENTS                                    \
    }

#define CLI_SAMPLING_HELP                                                                          \
    "  --temp T            temperature; 0 = always the likeliest token (default 0.7)\n"            \
    "  --top-k K           draw from the K likeliest tokens; 0 = all (default 40)\n"               \
    "  --top-p P           ... whose probabilities reach P together; 1 = all (default 0.95)\n"     \
    "  --min-p P           ... at least P times as likely as the likeliest (default 0.05)\n"       \
    "  -s, --seed S        makes the draws repeatable; default, and -1, from the clock\n"          \
    "  --repeat-penalty R  divides the logits of recent tokens; 1 = off (default)\n"               \
    "  --frequency-penalty F, --presence-penalty F\n"                                              \
    "                      subtracted for each, or for any, recent occurrence (default 0)\n"       \
    "  --typical-p P --top-n-sigma N --xtc-probability P --xtc-threshold P --dry-multiplier M\n"   \
    "  --dry-base B --dry-allowed-length N --dry-window N --dynatemp-range T\n"                    \
    "  --dynatemp-exponent E --mirostat-tau T --mirostat-eta E\n"                                  \
    "                      further samplers, off unless given (docs/sampling.md)\n"                \
    "  --samplers A,B,..   which samplers run, in this order\n"                                    \
    "  --stop TEXT         end before TEXT would appear; may be given up to 16 times\n"            \
    "  --ignore-end        go on when the model ends its text\n"                                   \
    "  --system TEXT       the system message of the conversation\n"                               \
    "  --thinking on|off   for models that can think before they answer\n"                         \
    "  --tools FILE        a JSON array of functions that the model may call\n"                    \
    "  --documents FILE    a JSON array of texts that the model may answer from\n"                 \
    "  --grammar FILE      the answer keeps to a grammar (GBNF) and ends where it is complete\n"   \
    "  --json-schema FILE  the answer is JSON that is valid for a schema\n"

enum { CLI_MAX_STOPS = 16 };

typedef struct cli_sampling {
    engine_sampling sampling;
    const char *stops[CLI_MAX_STOPS + 1];
    int32_t stop_count;
    bool ignore_end;
    const char *system;
    chat_thinking thinking;
    char *tools, *documents; // JSON, owned
    engine_shaping shaping;
    int32_t *dry_breakers;  // owned
    char *grammar, *schema; // texts, owned; at most one of them
} cli_sampling;

// The defaults that the help states, with a seed from the clock.
cli_sampling cli_sampling_default(void);

// --- speculation --------------------------------------------------------------------------------------

enum { CLI_OPT_LOOKUP = 1200, CLI_OPT_DRAFT };

#define CLI_SPECULATION_OPTIONS                                                                    \
    {"lookup", no_argument, NULL, CLI_OPT_LOOKUP},                                                 \
    {                                                                                              \
        "draft", required_argument, NULL, CLI_OPT_DRAFT                                            \
    }

#define CLI_SPECULATION_HELP                                                                       \
    "  --lookup            guesses tokens from what the text has had before, and checks\n"         \
    "                      several in a pass: faster for texts that repeat or edit. A guess is\n"  \
    "                      taken if it is what is drawn, so the text of a seed stays the same\n"   \
    "  --draft FILE        a smaller model with the same vocabulary that guesses likewise\n"

typedef struct cli_speculation {
    const char *draft_path;
    engine_model *draft;
    engine_speculation wish;
} cli_speculation;

bool cli_speculation_option(int option, const char *value, cli_speculation *speculation);

// Opens the draft model, if there is one, for texts of the worker's; false with a reason.
bool cli_speculation_open(cli_speculation *speculation, const engine_model *model,
                          const engine_worker *worker, const engine_options *options,
                          engine_error *err);
void cli_speculation_close(cli_speculation *speculation);

// What is to be speculated with; NULL: nothing.
const engine_speculation *cli_speculation_wish(const cli_speculation *speculation);

// --- sampling, further --------------------------------------------------------------------------------

// Takes one of CLI_SAMPLING_OPTIONS; false (with a message) if its value is bad.
bool cli_sampling_option(const cli_command *self, int option, const char *value,
                         cli_sampling *sampling);

// Takes the options of the further samplers among them.
bool cli_shaping_option(const cli_command *self, int option, const char *value,
                        engine_shaping *shaping);

// What is to be drawn with, for texts of the model; `sampling` must stay where it is.
engine_sampling cli_sampling_of(cli_sampling *sampling, const engine_model *model);

void cli_sampling_free(cli_sampling *sampling);

// Does it hold what only a chat template can use? Then --raw is bad usage: false, with a message.
bool cli_sampling_fits_raw(const cli_command *self, const cli_sampling *sampling);

// What a template is given to open the model's turn.
chat_options cli_chat_options(const cli_sampling *sampling);

// What an answer keeps to, as the options say. All NULL: it is free.
typedef struct cli_constraint {
    token_trie *trie;
    constraint *made;
} cli_constraint;

bool cli_constraint_open(cli_constraint *c, const cli_sampling *sampling, const engine_model *model,
                         engine_error *err);
void cli_constraint_close(cli_constraint *c);

// Tokens per second after the first one, which belongs to the prompt; 0 if there was no other.
double cli_generation_rate(const engine_result *result);

// Warns on standard error where a text may become longer than what the model was trained with.
void cli_warn_of_context(const cli_command *self, const engine_model *model,
                         const engine_worker *worker);

// The line of figures after a generation, on standard error.
void cli_print_result(const engine_result *result, const engine_model *model);

#endif
