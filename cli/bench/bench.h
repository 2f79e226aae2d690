// SPDX-License-Identifier: MIT
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

// What the benchmarks share. A benchmark is one file, cli/bench/bench_<what>.c, that defines the
// cli_command bench_<what> and is listed in cli/bench.c. It measures rows: JSON objects that stand
// beside the ceilings of the device, measured in the same run.

#include <jansson.h>

#include "cli/cli.h"

// --- options ------------------------------------------------------------------------------------------

// What an option's value is, and so the type of the member of the request that it sets.
typedef enum bench_option_kind {
    BENCH_FLAG,    // bool
    BENCH_TEXT,    // const char *
    BENCH_INT,     // int32_t
    BENCH_LIST,    // bench_list
    BENCH_DTYPE,   // weft_dtype
    BENCH_FORMATS, // bench_formats
    BENCH_MADE_UP, // const char *: a format or a mix of a model that is made up
    BENCH_ENGINE,  // one of CLI_MODEL_OPTIONS, into the run's engine_options
    BENCH_OTHER,   // what `take` makes of it
} bench_option_kind;

typedef struct bench_option {
    const char *name; // without its dashes; NULL ends a table
    bench_option_kind kind;
    size_t offset;                                  // of the member in the request
    int32_t low, high;                              // of an int or the numbers of a list
    int engine_option;                              // CLI_OPT_...
    bool (*take)(void *request, const char *value); // false with a message
} bench_option;

#define BENCH_HELP                                                                                 \
    "  --threads T         threads; default one per core\n"                                        \
    "  --device D          cpu (default), cuda or cuda:N\n"                                        \
    "  --seconds S         time to measure a row for; default 1\n"                                 \
    "  --working-set MIB   memory to rotate over; default 4 times the last cache, at most a\n"     \
    "                      quarter of the machine's memory\n"                                      \
    "  --baseline FILE     rows that --json printed before: shows what became faster, by rows\n"   \
    "                      of the same problem\n"                                                  \
    "  --json              one JSON object per row\n"

#define BENCH_COLD_HELP                                                                            \
    "  --hot               the same memory every time, as far as caches keep it; the default\n"    \
    "                      rotates over copies, as the layers of a model do\n"                     \
    "  --variant V         a kernel by name (weft info --kernels) instead of the best one\n"

enum { BENCH_MAX_LIST = 64 };

// Numbers such as "1,2,4".
typedef struct bench_list {
    int32_t values[BENCH_MAX_LIST];
    int32_t count;
} bench_list;

// Formats such as "q4_0,q8_0", or "all".
typedef struct bench_formats {
    weft_dtype values[BENCH_MAX_LIST];
    int32_t count;
} bench_formats;

// For a `take` of an option that is a list of numbers or something else.
bool bench_parse_list(const cli_command *self, const char *option, const char *text, int32_t low,
                      int32_t high, bench_list *list);

// --- a run --------------------------------------------------------------------------------------------

typedef struct bench {
    const cli_command *self;
    bool json, hot;
    float seconds;
    int32_t working_set_mib; // 0: chosen
    const char *variant, *baseline_path;
    engine_options options; // threads and device; the rest for whole models
    // Set by bench_begin.
    weft_context *context;
    json_t *baseline; // rows of --baseline, or NULL
    char *memory;     // what is rotated over, on the device; huge pages where the system gives them
    int64_t memory_bytes; // a whole number of WEFT_PROBE_UNIT_BYTES
    int64_t next_byte;    // where the rotation goes on
    int32_t rows_printed;
    bool progress_shown;
} bench;

bench bench_default(const cli_command *self);

// Reads a command line into a request, whose first member is the bench: the options of BENCH_HELP,
// --hot, --variant and those of `own`. Returns -1 to go on, or an exit status.
int bench_parse(bench *request, const bench_option *own, int argc, char **argv);

// Creates the context; false with a message.
bool bench_begin(bench *run);
void bench_end(bench *run);

// How much memory to rotate over for a problem of problem_bytes: that much alone when hot.
int64_t bench_working_set(const bench *run, int64_t problem_bytes);

// Refuses what the memory of this machine would not hold, with a message: a system that promises more than
// it has would end the program later.
bool bench_fits(const bench *run, double bytes);

// Makes run->memory `bytes` long, rounded up, all of it touched; false with a message.
bool bench_reserve(bench *run, int64_t bytes);

// Copies to memory of the device, from there or from the host. False with a message.
bool bench_put(bench *run, void *to, const void *from, int64_t bytes);

// Memory of the device beside the working set, the caller's: weft_memory_free(). NULL with a message.
void *bench_allocate(bench *run, size_t bytes);

// The name of the device: "cpu", "cuda".
const char *bench_device_name(const bench *run);

// Copies of a problem that fit into the memory, one behind the other, each *stride_bytes long.
int32_t bench_copies(const bench *run, int64_t problem_bytes, int64_t *stride_bytes);

// The number of the copy whose turn it is. Everything that reads the memory takes turns round the same
// ring, so that what comes next has always been out of the caches longest.
int32_t bench_next_copy(bench *run, int64_t stride_bytes);

// Prints `weft_error_text` of the run; returns false.
bool bench_error(const bench *run);

// --- time ---------------------------------------------------------------------------------------------

typedef struct bench_time {
    double us_median, us_min;
    int32_t runs;
} bench_time;

// Median and minimum; sorts the samples.
bench_time bench_summary(double *us, int32_t runs);

typedef bool bench_body(void *user);

enum { BENCH_MAX_RACERS = 16 };

// Times `count` bodies in turns for about run->seconds each; us[i] is the median over the turns of body i. NULL
// bodies are left out. False with a message.
bool bench_race(bench *run, const char *what, bench_body *body, void *const users[], int32_t count,
                double us[]);

// --- ceilings -----------------------------------------------------------------------------------------

typedef struct bench_roof {
    double gbps;        // reading run->memory
    double fma_gflops;  // f32; a multiply-add is two operations
    double dot_gflops;  // int8
    double bf16_gflops; // dots of a CPU
    double mma_gflops;  // f16 matrix products of a GPU, whose other three are not measured
} bench_roof;

// What a kernel multiplies on a CPU, and the ceiling of such arithmetic. Matrix products are a GPU's.
typedef enum bench_products { BENCH_F32, BENCH_INT8, BENCH_INT16, BENCH_BF16 } bench_products;
double bench_roof_gflops(const bench *run, const bench_roof *roof, bench_products products);

// Raises the ceilings to what is measured now: called before, between and after what is held against
// them, because a shared machine is not the same one all the time. False with a message.
bool bench_raise_roof(bench *run, bench_roof *roof);

// bench_measure in rounds, with the ceilings before, between and after them. A body that fails leaves
// its reason in the context. False with a message.
bool bench_measure_under(bench *run, const char *what, bench_body *body, void *user,
                         bench_time *time, bench_roof *roof);

// Measures one probe of a kernel (NULL: the best); *amount is the bytes or operations of a run.
bool bench_probe(bench *run, weft_probe_kind kind, const char *variant, double seconds,
                 bench_time *time, double *amount);

// --- rows ---------------------------------------------------------------------------------------------

// The part of a plan's description that names the kernel, and that kernel's instruction set.
typedef struct bench_kernel {
    char name[96];
    const char *isa;
} bench_kernel;

bench_kernel bench_kernel_of(const bench *run, const weft_plan *plan);

// The kernel of that name; an empty name for NULL.
bench_kernel bench_kernel_named(const bench *run, const char *name);

// Numbers in [-1, 1), the same in every run of the program.
float bench_value(uint32_t *state);

// Adds time, bytes, flops, rates and, unless roof_gflops is 0, their share of the roofs.
void bench_add_figures(json_t *row, const bench_time *time, double bytes, double flops,
                       double roof_gbps, double roof_gflops);

// Reads the rows of run->baseline_path; false with a message.
bool bench_read_baseline(bench *run);

// Adds baseline_us and speed_up to a row whose problem the baseline has too: the same words and whole numbers, but
// for those that say how it was done.
void bench_add_baseline(const bench *run, json_t *row);

// Prints a row: an object per line with --json, else a line of the named columns, under a heading once.
// Takes the row over.
typedef struct bench_column {
    const char *key, *heading;
    int width; // negative: to the left
    int digits;
    double scale; // 0: 1; 100 for per cent
} bench_column;

// The last columns of a table of kernels: what bench_add_figures() adds.
#define BENCH_FIGURES                                                                              \
    {"gbps", "GB/s", 7, 1, 0}, {"gflops", "GFLOP/s", 8, 1, 0}, {"roof_gbps", "roof", 7, 1, 0},     \
        {"roof_gflops", "roof", 8, 1, 0}, {"roof_fraction", "% roof", 6, 1, 100},                  \
    {                                                                                              \
        "roof_fraction_best", "best", 6, 1, 100                                                    \
    }

bool bench_print(bench *run, json_t *row, const bench_column *columns);

// One line of progress on standard error, if that is a terminal; NULL wipes it.
void bench_progress(bench *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
