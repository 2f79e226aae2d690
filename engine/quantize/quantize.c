// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "engine/quantize/quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/weft.h>

#include "engine/base/alloc.h"
#include "engine/gguf/gguf.h"
#include "engine/gguf/mix.h"
#include "engine/quantize/importance.h"
#include "engine/quantize/job.h"
#include "engine/quantize/rows.h"
#include "engine/safetensors/checkpoint.h"

enum { CHUNK_BYTES = 8 << 20 }; // of finished rows that are held

const char *engine_mix_at(int32_t n)
{
    const gguf_mix *mix = gguf_mix_at(n);
    return mix ? gguf_mix_name(mix) : NULL;
}

// --- what is to be done ---------------------------------------------------------------------------------

bool quantize_job_start(quantize_job *job, const quantize_options *options, engine_error *err)
{
    weft_device_info cpu = {.size = sizeof cpu};
    *job = (quantize_job){.options = options, .threads = options->threads};
    if (job->threads <= 0)
        job->threads = weft_device_describe(WEFT_DEVICE_CPU, 0, &cpu) == WEFT_OK ? cpu.cores : 1;
    job->mix = gguf_mix_find(options->mix);
    if (!job->mix)
        return engine_fail(err,
                           "no format or mix is called '%s': `weft quantize --help` lists them",
                           options->mix);
    if (options->importance_path) {
        job->importance = importance_open(options->importance_path, err);
        if (!job->importance)
            return false;
    }
    job->facts.importance = job->importance != NULL;
    job->facts.pure = options->pure;
    return true;
}

void quantize_job_free(quantize_job *job)
{
    importance_close(job->importance);
    gguf_output_close(job->output);
    free(job->tensors);
}

static bool check_source(const quantize_job *job, const quantize_tensor *tensor, engine_error *err)
{
    const ggml_type_info *from = tensor->from.type;
    if (from->block_bytes == 0)
        return engine_fail(err, "tensor %s has the unknown format %s: take the original model",
                           tensor->from.name, from->name);
    if (from == tensor->to)
        return true;
    if (from->dtype == WEFT_DTYPE_NONE)
        return engine_fail(err, "tensor %s is %s, which cannot be read as numbers",
                           tensor->from.name, from->name);
    if (from->block_elements == 1 || from->dtype == WEFT_Q8_0 || job->options->again)
        return true;
    return engine_fail(
        err,
        "tensor %s is %s already, and errors add up: take the original model, or say "
        "--requantize",
        tensor->from.name, from->name);
}

// Importance weights of a tensor, one per column of each of its matrices.
static bool find_importance(const quantize_job *job, quantize_tensor *tensor, engine_error *err)
{
    if (!job->importance)
        return true;
    tensor->importance =
        importance_find(job->importance, tensor->from.name, &tensor->importance_count);
    int64_t cols = tensor->from.shape[0];
    int64_t matrices = tensor->from.shape[2] * tensor->from.shape[3];
    if (!tensor->importance || tensor->importance_count == (size_t)cols ||
        tensor->importance_count == (size_t)(cols * matrices))
        return true;
    return engine_fail(err,
                       "the importance weights of tensor %s are %zu, not one for each of its %lld "
                       "columns: they were made with another model",
                       tensor->from.name, tensor->importance_count, (long long)cols);
}

bool quantize_job_add(quantize_job *job, const gguf_tensor *from, engine_error *err)
{
    quantize_tensor *tensor = &job->tensors[job->count++];
    tensor->from = *from;
    tensor->to =
        gguf_mix_choose(job->mix, &job->facts, from->name, from->rank, from->shape, from->type);
    tensor->rows = from->element_count / from->shape[0];
    job->elements += (double)from->element_count;
    return check_source(job, tensor, err) && find_importance(job, tensor, err);
}

// --- doing it -------------------------------------------------------------------------------------------

typedef struct chunk {
    int64_t rows; // most at a time
    void *bytes;
    double *errors, *squares;
} chunk;

static bool report(const quantize_job *job, size_t n, int64_t rows_done, double error,
                   double square)
{
    const quantize_tensor *tensor = &job->tensors[n];
    double elements = (double)tensor->from.element_count;
    if (!job->options->progress)
        return true;
    quantize_progress progress = {
        .tensor = tensor->from.name,
        .from = tensor->from.type->name,
        .to = tensor->to->name,
        .index = (int64_t)n,
        .count = (int64_t)job->count,
        .elements = tensor->from.element_count,
        .from_bytes = (int64_t)tensor->from.size_bytes,
        .to_bytes =
            tensor->from.element_count / tensor->to->block_elements * tensor->to->block_bytes,
        .done = rows_done == tensor->rows,
        .rows_done = rows_done,
        .rows = tensor->rows,
        .error = sqrt(error / elements),
        .relative = square > 0 ? sqrt(error / square) : 0,
        .done_fraction = (job->elements_done + elements * (double)rows_done /
                                                   (double)(tensor->rows ? tensor->rows : 1)) /
                         job->elements,
    };
    return job->options->progress(job->options->user, &progress);
}

static bool stopped(engine_error *err)
{
    return engine_fail(err, "stopped");
}

static bool copy_tensor(quantize_job *job, size_t n, engine_error *err)
{
    const quantize_tensor *tensor = &job->tensors[n];
    return gguf_output_data(job->output, tensor->from.data, tensor->from.size_bytes, err) &&
           (report(job, n, tensor->rows, 0, 0) || stopped(err));
}

static bool check_sums(const quantize_tensor *tensor, double error, double square,
                       engine_error *err)
{
    if (!isfinite(square))
        return engine_fail(err, "tensor %s holds numbers that are not finite: the file is damaged",
                           tensor->from.name);
    if (!isfinite(error))
        return engine_fail(err, "tensor %s holds numbers too large for %s: choose another format",
                           tensor->from.name, tensor->to->name);
    return true;
}

// Rows [first, first + count) of one matrix, so that one row of importance weights serves them.
static bool convert_rows(quantize_job *job, const quantize_tensor *tensor, chunk *c, int64_t first,
                         int64_t count, engine_error *err)
{
    int64_t cols = tensor->from.shape[0], matrix = first / tensor->from.shape[1];
    const float *weights = tensor->importance;
    if (weights && tensor->importance_count > (size_t)cols)
        weights += matrix * cols;
    const quantize_rows work = {.from = tensor->from.data,
                                .from_dtype = tensor->from.dtype,
                                .to_dtype = tensor->to->dtype,
                                .planes = tensor->from.planes,
                                .seed = tensor->seed,
                                .first = first,
                                .count = count,
                                .cols = cols,
                                .importance = weights,
                                .search = tensor->from.data != NULL,
                                .to = c->bytes,
                                .errors = c->errors,
                                .squares = c->squares};
    int64_t row_bytes = weft_dtype_row_bytes(tensor->to->dtype, cols);
    if (!quantize_rows_run(&work, job->threads))
        return engine_fail(err, "out of memory for rows of tensor %s; close other programs",
                           tensor->from.name);
    return gguf_output_data(job->output, c->bytes, (size_t)(count * row_bytes), err);
}

static bool convert_chunks(quantize_job *job, size_t n, chunk *c, engine_error *err)
{
    const quantize_tensor *tensor = &job->tensors[n];
    int64_t rows_per_matrix = tensor->from.shape[1];
    double error = 0, square = 0;
    for (int64_t first = 0, count; first < tensor->rows; first += count) {
        int64_t left = rows_per_matrix - first % rows_per_matrix;
        count = left < c->rows ? left : c->rows;
        if (!convert_rows(job, tensor, c, first, count, err))
            return false;
        for (int64_t i = 0; i < count; i++) {
            error += c->errors[i];
            square += c->squares[i];
        }
        if (!check_sums(tensor, error, square, err))
            return false;
        if (!report(job, n, first + count, error, square))
            return stopped(err);
    }
    return true;
}

static bool convert_tensor(quantize_job *job, size_t n, engine_error *err)
{
    const quantize_tensor *tensor = &job->tensors[n];
    int64_t row_bytes = weft_dtype_row_bytes(tensor->to->dtype, tensor->from.shape[0]);
    chunk c = {.rows = CHUNK_BYTES / row_bytes + 1};
    if (c.rows > tensor->from.shape[1])
        c.rows = tensor->from.shape[1];
    c.bytes = engine_alloc((size_t)c.rows, (size_t)row_bytes);
    c.errors = engine_alloc((size_t)c.rows, sizeof *c.errors);
    c.squares = engine_alloc((size_t)c.rows, sizeof *c.squares);
    bool good = c.bytes && c.errors && c.squares;
    if (!good)
        engine_fail(err, "out of memory for rows of tensor %s; close other programs",
                    tensor->from.name);
    good = good && convert_chunks(job, n, &c, err);
    free(c.bytes);
    free(c.errors);
    free(c.squares);
    return good;
}

bool quantize_job_run(quantize_job *job, engine_error *err)
{
    for (size_t n = 0; n < job->count; n++) {
        const quantize_tensor *tensor = &job->tensors[n];
        gguf_output_tensor(job->output, tensor->from.name, tensor->from.rank, tensor->from.shape,
                           tensor->to);
    }
    if (!gguf_output_begin(job->output, err))
        return false;
    for (size_t n = 0; n < job->count; n++) {
        const quantize_tensor *tensor = &job->tensors[n];
        bool copy = tensor->from.data && tensor->from.type == tensor->to;
        if (!(copy ? copy_tensor(job, n, err) : convert_tensor(job, n, err)))
            return false;
        job->elements_done += (double)tensor->from.element_count;
    }
    return gguf_output_finish(job->output, err);
}

// --- from a file ----------------------------------------------------------------------------------------

static int32_t number_of(const gguf_file *file, const char *tail, int32_t missing)
{
    char key[256];
    gguf_string architecture;
    int32_t value;
    if (gguf_get_string(file, "general.architecture", &architecture) != GGUF_FOUND)
        return missing;
    snprintf(key, sizeof key, "%.*s.%s", GGUF_SHOWN(architecture), tail);
    return gguf_get_i32(file, key, &value) == GGUF_FOUND && value > 0 ? value : missing;
}

static void read_facts(gguf_mix_facts *facts, const gguf_file *file)
{
    int32_t heads = number_of(file, "attention.head_count", 1);
    facts->layers = number_of(file, "block_count", 1);
    facts->heads_per_kv_head = heads / number_of(file, "attention.head_count_kv", heads);
    facts->tied = gguf_find_tensor(file, "output.weight") == NULL;
}

// Everything but what speaks of the old file's formats and parts.
static void copy_metadata(const quantize_job *job, const gguf_file *file)
{
    static const char *const ours[] = {
        "general.file_type", "general.quantization_version", "general.alignment",    "split.no",
        "split.count",       "split.tensors.count",          "quantize.imatrix.file"};
    for (size_t i = 0; i < gguf_key_count(file); i++) {
        const gguf_entry *entry = gguf_entry_at(file, i);
        bool copied = true;
        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++)
            copied = copied && !gguf_string_equals(entry->key, ours[k]);
        if (copied)
            gguf_output_entry(job->output, entry);
    }
    gguf_output_u32(job->output, "general.quantization_version", 2);
    gguf_output_u32(job->output, "general.file_type", gguf_mix_file_type(job->mix));
    if (job->importance)
        gguf_output_text(job->output, "quantize.imatrix.file", job->options->importance_path);
}

static bool is_same_file(const char *in, const char *out)
{
    struct stat a, b;
    return stat(in, &a) == 0 && stat(out, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool quantize_file(quantize_job *job, const gguf_file *file, const char *out,
                          engine_error *err)
{
    read_facts(&job->facts, file);
    job->tensors = engine_alloc(gguf_tensor_count(file), sizeof *job->tensors);
    if (!job->tensors)
        return engine_fail(err, "out of memory for the list of tensors; close other programs");
    for (size_t i = 0; i < gguf_tensor_count(file); i++)
        if (!quantize_job_add(job, gguf_tensor_at(file, i), err))
            return false;
    job->output = gguf_output_open(out, err);
    if (!job->output)
        return false;
    copy_metadata(job, file);
    return quantize_job_run(job, err);
}

bool engine_quantize(const char *in, const char *out, const quantize_options *options,
                     engine_error *err)
{
    if (is_same_file(in, out)) {
        engine_fail(err, "is the model that is read: choose another name for the new one");
        return engine_fail_in(err, out);
    }
    quantize_job job;
    gguf_file *file = model_file_open(in, err);
    bool good = file && quantize_job_start(&job, options, err);
    good = good && quantize_file(&job, file, out, err);
    if (file)
        quantize_job_free(&job);
    gguf_close(file);
    return good;
}
