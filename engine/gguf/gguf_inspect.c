// SPDX-License-Identifier: MIT
// What a person wants to know of a file.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/format.h>

#include "engine/base/text.h"
#include "engine/gguf/gguf_file.h"

static void string_text(gguf_string string, char *text, size_t size_bytes)
{
    size_t length = string.size_bytes < size_bytes - 1 ? string.size_bytes : size_bytes - 1;
    for (size_t i = 0; i < length; i++)
        text[i] = string.data[i] ? string.data[i] : '?';
    text[length] = '\0';
    text_make_printable(text);
}

const char *gguf_value_text(const gguf_entry *entry, char *text, size_t size_bytes)
{
    switch (entry->type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64: snprintf(text, size_bytes, "%" PRIu64, entry->value.u64); break;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64: snprintf(text, size_bytes, "%" PRId64, entry->value.i64); break;
    case GGUF_F32:
    case GGUF_F64: snprintf(text, size_bytes, "%g", entry->value.f64); break;
    case GGUF_BOOL: snprintf(text, size_bytes, entry->value.boolean ? "true" : "false"); break;
    case GGUF_STRING: string_text(entry->value.string, text, size_bytes); break;
    case GGUF_ARRAY:
        snprintf(text, size_bytes, "%zu x %s", entry->value.array.count,
                 gguf_value_type_name(entry->value.array.type));
        break;
    default: text[0] = '\0';
    }
    return text;
}

static int compare_totals(const void *left, const void *right)
{
    const gguf_format_total *a = left;
    const gguf_format_total *b = right;
    if (a->size_bytes != b->size_bytes)
        return a->size_bytes < b->size_bytes ? 1 : -1;
    return (a->type->id > b->type->id) - (a->type->id < b->type->id);
}

// Unknown formats are described in each part of a model anew.
static bool is_same_format(const ggml_type_info *a, const ggml_type_info *b)
{
    return a == b || (a->block_bytes == 0 && b->block_bytes == 0 && a->id == b->id);
}

size_t gguf_format_totals(const gguf_file *file, gguf_format_total totals[GGUF_MAX_FORMATS])
{
    size_t count = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const gguf_tensor *tensor = &file->tensors[i];
        size_t t = 0;
        while (t < count && !is_same_format(totals[t].type, tensor->type))
            t++;
        if (t == GGUF_MAX_FORMATS)
            t--;
        else if (t == count)
            totals[count++] = (gguf_format_total){.type = tensor->type};
        totals[t].tensor_count++;
        totals[t].element_count += tensor->element_count;
        totals[t].size_bytes += (size_t)gguf_tensor_bytes(tensor);
    }
    qsort(totals, count, sizeof(totals[0]), compare_totals);
    return count;
}

int64_t gguf_planes_bytes(const gguf_planes *planes, int64_t rows, int64_t cols)
{
    if (!planes->scales)
        return 0;
    const int64_t groups = (cols - 1) / planes->scale_cols + 1;
    const int64_t bytes =
        weft_dtype_row_bytes(planes->scale_dtype, groups) * ((rows - 1) / planes->scale_rows + 1);
    return planes->biases ? 2 * bytes : bytes;
}

int64_t gguf_tensor_bytes(const gguf_tensor *tensor)
{
    const int64_t cols = tensor->shape[0];
    return (int64_t)tensor->size_bytes +
           (tensor->planes.scales
                ? gguf_planes_bytes(&tensor->planes, tensor->element_count / cols, cols)
                : 0);
}
