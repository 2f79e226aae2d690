// SPDX-License-Identifier: MIT
#include "engine/model/adapters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

static const char end_a[] = ".lora_a", end_b[] = ".lora_b";
enum { END_BYTES = sizeof end_a - 1, MAX_RANK = 4096 };

// A file that is being read.
typedef struct reading {
    model_adapted *to;
    const engine_model *model;
    const gguf_file *file;
    const char *path;
    float times;  // what the user gave
    float alpha;  // the file's; 0: none
    size_t count; // pairs so far, of all files
    engine_error *err;
} reading;

bool model_is_adapter(const gguf_file *file)
{
    gguf_string type;
    return gguf_get_string(file, "general.type", &type) == GGUF_FOUND &&
           gguf_string_equals(type, "adapter");
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name);
    return length > END_BYTES && strcmp(name + length - END_BYTES, end) == 0;
}

static bool check_head(reading *r)
{
    static const char key[] = "general.architecture", type_key[] = "adapter.type";
    const char *family = r->model->config.architecture->name;
    gguf_string name, type;
    if (!model_is_adapter(r->file))
        return engine_fail(r->err, "this is a model, not an adapter: give an adapter's GGUF file");
    if (!gguf_needed(r->file, gguf_get_string(r->file, type_key, &type), type_key, "a string",
                     r->err) ||
        !gguf_needed(r->file, gguf_get_string(r->file, key, &name), key, "a string", r->err))
        return false;
    if (!gguf_string_equals(type, "lora"))
        return engine_fail(r->err, "adapters of type '%.*s' cannot run yet: weft knows lora",
                           GGUF_SHOWN(type));
    if (!gguf_string_equals(name, family))
        return engine_fail(r->err, "the adapter is for '%.*s', the model is of the family %s: %s",
                           GGUF_SHOWN(name), family, "take one that was made for this model");
    static const char alpha[] = "adapter.lora.alpha";
    if (!gguf_wanted(r->file, gguf_get_f32(r->file, alpha, &r->alpha), alpha,
                     "a floating-point number", r->err))
        return false;
    return isfinite(r->alpha) ||
           engine_fail(r->err, "%s is no number that can be used: the file is damaged", alpha);
}

// Adapters stand beside matrices that lines multiply by.
static bool is_adaptable(const engine_model *model, enum model_layer_tensor id)
{
    for (const model_line *line = model->config.architecture->lines; line->op; line++)
        for (int i = 0; line->op != MODEL_ROUTE && i < MODEL_MAX_PARTS; i++)
            if (line->parts[i].matrix == id)
                return true;
    return false;
}

// Rows of the matrices of a tensor from `first` on, `rows` of each.
static model_tensor rows_of(const gguf_tensor *from, int64_t first, int64_t rows)
{
    const char *data = from->data;
    return (model_tensor){.data = data + weft_dtype_row_bytes(from->dtype, from->shape[0]) * first,
                          .dtype = from->dtype,
                          .rows = rows * from->shape[2],
                          .cols = from->shape[0]};
}

// A pair of a file, that is to be scaled; NULL: by 0, which adds nothing.
static model_adapter *new_pair(reading *r, int64_t rank)
{
    float scale = r->alpha != 0 ? r->times * r->alpha / (float)rank : r->times;
    if (scale == 0)
        return NULL;
    if (rank > r->to->weights.adapter_rank)
        r->to->weights.adapter_rank = (int32_t)rank;
    model_adapter *pair = &r->to->pairs[r->count++];
    *pair = (model_adapter){.rank = (int32_t)rank, .scale = scale};
    return pair;
}

// `rows` rows of B from `first` on, and all of A, beside a matrix.
static void attach(reading *r, model_tensor *matrix, const gguf_tensor *a, const gguf_tensor *b,
                   int64_t first, int64_t rows)
{
    model_adapter *pair = new_pair(r, b->shape[0]);
    if (!pair)
        return;
    pair->a = rows_of(a, 0, b->shape[0]);
    pair->b = rows_of(b, first, rows);
    pair->next = matrix->adapters;
    matrix->adapters = pair;
}

static int64_t matrices_of(const reading *r, enum model_layer_tensor id)
{
    return model_extent_matrices(&r->model->config, model_layer_specs[id].rows);
}

// The matrices of a layer that a name means: one, or the parts of one that is whole in files. NULL: none.
static model_tensor *find_matrix(const reading *r, int32_t layer, const char *name,
                                 const gguf_tensor *b, enum model_layer_tensor *id)
{
    model_tensor *tensors = r->to->weights.layers[layer].tensors;
    for (int i = MODEL_NO_TENSOR + 1; i < MODEL_LAYER_TENSOR_COUNT; i++) {
        if (strcmp(model_layer_specs[i].name, name) != 0 || !tensors[i].data)
            continue;
        *id = (enum model_layer_tensor)i;
        if (tensors[i].rows == b->shape[1] * matrices_of(r, *id))
            return &tensors[i];
    }
    return NULL;
}

static const model_fused *find_fused(const reading *r, int32_t layer, const char *name,
                                     const gguf_tensor *b)
{
    const model_tensor *tensors = r->to->weights.layers[layer].tensors;
    const uint64_t may = r->model->config.architecture->may;
    for (const model_fused *fused = model_fused_tensors; fused->whole; fused++) {
        int64_t rows = 0;
        if (fused->whole == MODEL_FFN_UP_GATE && !(may >> MODEL_FFN_UP_GATE & 1))
            continue; // the name is that of gate and up
        for (int i = 0; i < MODEL_MAX_PARTS && fused->parts[i]; i++)
            rows += tensors[fused->parts[i]].data ? tensors[fused->parts[i]].rows : 0;
        if (strcmp(model_layer_specs[fused->whole].name, name) == 0 && rows == b->shape[1])
            return fused;
    }
    return NULL;
}

static bool refuse_name(const reading *r, const char *name)
{
    return engine_fail(r->err,
                       "the adapter changes %s, which is no matrix of this model that can be "
                       "adapted: take one that was made for this model's matrices",
                       name);
}

// "blk.N.NAME"
static bool split_name(const reading *r, const char *full, int32_t *layer, const char **name)
{
    char *end;
    if (strncmp(full, "blk.", 4) != 0 || full[4] < '0' || full[4] > '9')
        return false;
    long n = strtol(full + 4, &end, 10);
    *layer = (int32_t)n;
    *name = end + 1;
    return n >= 0 && n < r->model->config.layers && *end == '.';
}

// Of each of `matrices` matrices one A and one B; where they are heads', one may serve all.
typedef struct wanted_pair {
    int64_t cols, matrices;
    bool experts;
} wanted_pair;

static bool is_plain(weft_dtype dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_F16 || dtype == WEFT_BF16;
}

static bool check_pair(const reading *r, const char *name, const gguf_tensor *a,
                       const gguf_tensor *b, wanted_pair want)
{
    int64_t rank = b->shape[0];
    const bool once = !want.experts;
    if (a->dtype == WEFT_DTYPE_NONE || b->dtype == WEFT_DTYPE_NONE ||
        (want.matrices > 1 && (!is_plain(a->dtype) || !is_plain(b->dtype))))
        return engine_fail(r->err, "%s is adapted in a format that weft cannot run: %s", name,
                           "convert the adapter to f16 or f32");
    if (rank < 1 || rank > MAX_RANK || a->shape[1] != rank || a->shape[0] != want.cols ||
        (a->shape[2] != want.matrices && !(once && a->shape[2] == 1)) ||
        (b->shape[2] != want.matrices && !(once && b->shape[2] == 1)) || a->shape[3] != 1 ||
        b->shape[3] != 1)
        return engine_fail(r->err,
                           "the adapter's matrices of %s are %lld x %lld and %lld x %lld, which do "
                           "not fit its %lld columns: the file is of another model or damaged",
                           name, (long long)b->shape[1], (long long)rank, (long long)a->shape[1],
                           (long long)a->shape[0], (long long)want.cols);
    return true;
}

static bool refuse_rows(const reading *r, const char *name, const gguf_tensor *b, int64_t rows)
{
    return engine_fail(r->err,
                       "the adapter's matrix of %s has %lld rows, the model's has %lld: the file "
                       "is of another model",
                       name, (long long)b->shape[1], (long long)rows);
}

// The output, and the embedding, whose rows of A are those of tokens.
static bool add_global(reading *r, const char *name, const gguf_tensor *a, const gguf_tensor *b)
{
    const int64_t vocab = r->model->config.vocab, dim = r->model->config.embedding_dim;
    model_weights *weights = &r->to->weights;
    if (r->model->config.full_mask ||
        (strcmp(name, "output.weight") != 0 && strcmp(name, "token_embd.weight") != 0))
        return refuse_name(r, name);
    if (name[0] == 'o') {
        if (b->shape[1] != vocab)
            return refuse_rows(r, name, b, vocab);
        if (!check_pair(r, name, a, b, (wanted_pair){dim, 1, false}))
            return false;
        const bool own = weights->globals[MODEL_GLOBAL_OUTPUT].data != NULL;
        attach(r, &weights->globals[own ? MODEL_GLOBAL_OUTPUT : MODEL_GLOBAL_EMBEDDING], a, b, 0,
               vocab);
        return true;
    }
    if (b->shape[1] != dim || a->shape[1] != vocab)
        return refuse_rows(r, name, b, dim);
    gguf_tensor turned = *a; // as others are: the rank first
    turned.shape[0] = vocab;
    turned.shape[1] = a->shape[0];
    if (!is_plain(a->dtype) || !check_pair(r, name, &turned, b, (wanted_pair){vocab, 1, false}))
        return is_plain(a->dtype) ? false : refuse_name(r, name);
    model_adapter *pair = new_pair(r, b->shape[0]);
    if (!pair)
        return true;
    pair->a = rows_of(a, 0, vocab);
    pair->b = rows_of(b, 0, dim);
    pair->next = weights->embedding_adapters;
    weights->embedding_adapters = pair;
    return true;
}

static bool add_to_layer(reading *r, const char *full, int32_t layer, const char *name,
                         const gguf_tensor *a, const gguf_tensor *b)
{
    enum model_layer_tensor id = MODEL_NO_TENSOR;
    model_tensor *tensors = r->to->weights.layers[layer].tensors;
    model_tensor *matrix = find_matrix(r, layer, name, b, &id);
    const model_fused *fused = matrix ? NULL : find_fused(r, layer, name, b);
    enum model_layer_tensor first = fused ? fused->parts[0] : id;
    if (!first || !is_adaptable(r->model, first))
        return refuse_name(r, full);
    if (!matrix && !fused)
        return refuse_rows(r, full, b, tensors[id].rows / matrices_of(r, id));
    const model_extent extent = model_layer_specs[first].rows;
    const wanted_pair want = {tensors[first].cols, matrices_of(r, first),
                              extent == MODEL_EXPERTS_INNER || extent == MODEL_EXPERTS_EMBEDDING};
    if (!check_pair(r, full, a, b, want))
        return false;
    if (matrix) {
        attach(r, matrix, a, b, 0, b->shape[1]);
        return true;
    }
    int64_t row = 0;
    for (int i = 0; i < MODEL_MAX_PARTS && fused->parts[i]; i++) {
        model_tensor *part = &tensors[fused->parts[i]];
        attach(r, part, a, b, row, part->rows);
        row += part->rows;
    }
    return true;
}

static bool add_pair(reading *r, const gguf_tensor *a)
{
    char full[GGUF_MAX_NAME_BYTES + 1], other[GGUF_MAX_NAME_BYTES + 1];
    snprintf(full, sizeof full, "%.*s", (int)(strlen(a->name) - END_BYTES), a->name);
    snprintf(other, sizeof other, "%.*s%s", (int)(sizeof other - sizeof end_b), full, end_b);
    const gguf_tensor *b = gguf_find_tensor(r->file, other);
    const char *name;
    int32_t layer;
    if (!b)
        return engine_fail(r->err, "%s has no %s beside it: the file is incomplete", a->name,
                           other);
    if (split_name(r, full, &layer, &name))
        return add_to_layer(r, full, layer, name, a, b);
    return add_global(r, full, a, b);
}

static bool add_file(reading *r)
{
    size_t pairs = 0;
    if (!check_head(r))
        return false;
    for (size_t i = 0; i < gguf_tensor_count(r->file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(r->file, i);
        char a[GGUF_MAX_NAME_BYTES + 1];
        if (ends_with(tensor->name, end_a)) {
            pairs++;
            if (!add_pair(r, tensor))
                return false;
            continue;
        }
        snprintf(a, sizeof a, "%s", tensor->name);
        if (ends_with(a, end_b)) {
            a[strlen(a) - 1] = 'a';
            if (gguf_find_tensor(r->file, a))
                continue;
            return engine_fail(r->err, "%s has no %s beside it: the file is incomplete",
                               tensor->name, a);
        }
        return engine_fail(r->err, "tensor %s is no part of a pair (.lora_a, .lora_b): %s",
                           tensor->name, "adapters that replace tensors cannot run");
    }
    return pairs > 0 || engine_fail(r->err, "the adapter has no matrices: the file is incomplete");
}

static bool start(model_adapted *adapted, const engine_model *model, engine_error *err)
{
    size_t layers = (size_t)model->config.layers;
    adapted->weights = model->weights;
    adapted->weights.layers = engine_alloc(layers, sizeof *adapted->weights.layers);
    if (!adapted->weights.layers)
        return engine_fail(err, "not enough memory for the model's tables");
    memcpy(adapted->weights.layers, model->weights.layers, layers * sizeof(model_layer));
    return true;
}

bool model_adapt(model_adapted *adapted, const engine_model *model, const engine_options *options,
                 engine_error *err)
{
    size_t room = 0;
    reading r = {.to = adapted, .model = model, .err = err};
    memset(adapted, 0, sizeof *adapted);
    if (options->adapter_count < 0 || options->adapter_count > ENGINE_MAX_ADAPTERS)
        return engine_fail(err, "%d adapters are too many: the most is %d", options->adapter_count,
                           ENGINE_MAX_ADAPTERS);
    if (!start(adapted, model, err))
        return false;
    for (int32_t i = 0; i < options->adapter_count; i++) {
        adapted->files[i] = gguf_open(options->adapters[i].path, err);
        if (!adapted->files[i])
            return false;
        room += gguf_tensor_count(adapted->files[i]);
    }
    adapted->pairs = engine_alloc(room * MODEL_MAX_PARTS, sizeof *adapted->pairs);
    if (!adapted->pairs)
        return engine_fail(err, "not enough memory for the adapters' tables");
    for (int32_t i = 0; i < options->adapter_count; i++) {
        r.file = adapted->files[i];
        r.path = options->adapters[i].path;
        r.times = options->adapters[i].scale;
        r.alpha = 0;
        if (!isfinite(r.times))
            return engine_fail(err, "the scale of %s must be a finite number", r.path);
        if (!add_file(&r))
            return engine_fail_in(err, r.path);
    }
    return true;
}

void model_adapted_free(model_adapted *adapted)
{
    free(adapted->weights.layers);
    free(adapted->pairs);
    for (int i = 0; i < ENGINE_MAX_ADAPTERS; i++)
        gguf_close(adapted->files[i]);
    memset(adapted, 0, sizeof *adapted);
}
