// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "src/api/api.h"
#include "src/base/file.h"
#include "src/base/memory.h"
#include "src/base/sha256.h"
#include "src/plan/tuning.h"

enum { MACHINE_BYTES = 256 };

// What a file belongs to, on one line.
static void machine_of(const weft_context *context, char text[MACHINE_BYTES])
{
    weft_device_info info = {.size = sizeof info};
    const struct weft__backend *backend = context->backend;
    if (backend->describe(backend->device_index ? backend->device_index(context) : 0, &info) !=
        WEFT_OK)
        info.name[0] = 0;
    info.name[sizeof info.name - 1] = 0;
    snprintf(text, MACHINE_BYTES, "%s, %s, weft %s", info.name, context->backend->level(context),
             weft_version());
}

// The file that the environment names, or the machine's own. False if there is to be none.
static bool own_path(const weft_context *context, char path[WEFT__PATH_BYTES])
{
    const char *wish = getenv("WEFT_TUNING");
    if (wish && *wish)
        return strcmp(wish, "off") != 0 && snprintf(path, WEFT__PATH_BYTES, "%s", wish) > 0 &&
               strlen(wish) < WEFT__PATH_BYTES;
    char machine[MACHINE_BYTES], digest_text[65];
    unsigned char digest[WEFT__SHA256_BYTES];
    struct weft__sha256 sha;
    if (!weft__file_cache_folder(path))
        return false;
    machine_of(context, machine);
    weft__sha256_begin(&sha);
    weft__sha256_add(&sha, machine, strlen(machine));
    weft__sha256_end(&sha, digest);
    weft__sha256_text(digest, digest_text);
    size_t used = strlen(path);
    snprintf(path + used, WEFT__PATH_BYTES - used, "/tuning-%.16s.txt", digest_text);
    return true;
}

static struct weft__tunings *table_of(weft_context *context)
{
    if (!context->tunings) {
        context->tunings = context->host.allocate(context->host.user, sizeof *context->tunings);
        if (context->tunings) {
            context->tunings->count = 0;
            context->tunings->note[0] = 0;
        }
    }
    return context->tunings;
}

static bool is_kernel(const weft_context *context, enum weft__op op, const char *name)
{
    const struct weft__kernel_table *table = context->backend->tables[op];
    for (int32_t i = 0; i < table->count; i++) {
        const struct weft__kernel *row =
            (const void *)((const char *)table->rows + (size_t)i * (size_t)table->row_bytes);
        if (strcmp(row->name, name) == 0)
            return context->backend->fits(context, row);
    }
    return false;
}

static enum weft__op op_of(const weft_tuning *entry)
{
    return entry->op == WEFT_TUNING_LINEAR ? WEFT__OP_linear : WEFT__OP_attention;
}

static const char *op_name(const weft_tuning *entry)
{
    return entry->op == WEFT_TUNING_LINEAR ? "linear" : "attention";
}

// Are the kernels that entries name there?
static bool kernels_run(const weft_context *context, const struct weft__tunings *table,
                        char why[160])
{
    for (int32_t i = 0; i < table->count; i++) {
        const weft_tuning *entry = &table->entries[i];
        if (context->backend->tuning_fault(entry)) {
            snprintf(why, 160, "%s", context->backend->tuning_fault(entry));
            return false;
        }
        if (*entry->kernel && !is_kernel(context, op_of(entry), entry->kernel)) {
            snprintf(why, 160, "no %s kernel that runs here is called '%s'", op_name(entry),
                     entry->kernel);
            return false;
        }
    }
    return true;
}

static void read_file(weft_context *context, const char *path)
{
    char machine[MACHINE_BYTES], why[160] = "it cannot be read, or is longer than such a file";
    size_t bytes = 0;
    const weft_allocator *host = &context->host;
    char *text = host->allocate(host->user, WEFT__TUNING_FILE_BYTES);
    int found = text ? weft__file_read(path, text, WEFT__TUNING_FILE_BYTES, &bytes) : 0;
    struct weft__tunings *table = found ? table_of(context) : NULL;
    if (table) {
        machine_of(context, machine);
        bool sound = found > 0 && weft__plan_tuning_parse(text, bytes, machine, table, why) &&
                     kernels_run(context, table, why);
        if (sound)
            snprintf(table->note, sizeof table->note, "%d entries from %.180s", table->count, path);
        else
            snprintf(table->note, sizeof table->note, "ignored %.80s: %s", path, why);
        table->count = sound ? table->count : 0;
        if (context->log) {
            char line[sizeof table->note + 8];
            snprintf(line, sizeof line, "tuning: %s", table->note);
            context->log(context->log_user, line);
        }
    }
    if (text)
        host->release(host->user, text);
}

void weft__api_tuning_open(weft_context *context, const char *path)
{
    char own[WEFT__PATH_BYTES];
    if (!context->backend->tuning_fault || (path && !*path))
        return;
    if (path || own_path(context, own))
        read_file(context, path ? path : own);
}

weft_status weft_tuning_add(weft_context *context, const weft_tuning *user_entry)
{
    weft_tuning entry = {0};
    if (!context)
        return WEFT_EINVAL;
    if (!context->backend->tuning_fault)
        return weft__fail(context, WEFT_EUNSUPPORTED, "tuning: this device has no entries");
    if (!weft__api_read(&entry, WEFT__KNOWN(&entry), user_entry))
        return weft__fail(context, WEFT_EINVAL,
                          "tuning: the entry is NULL, has no size or sets members this version "
                          "does not know");
    const char *fault = weft__plan_tuning_fault(&entry);
    fault = fault ? fault : context->backend->tuning_fault(&entry);
    if (fault)
        return weft__fail(context, WEFT_EINVAL, "tuning: %s", fault);
    if (*entry.kernel && !is_kernel(context, op_of(&entry), entry.kernel))
        return weft__fail(context, WEFT_EINVAL,
                          "tuning: no %s kernel that runs here is called '%s'", op_name(&entry),
                          entry.kernel);
    struct weft__tunings *table = table_of(context);
    if (!table || table->count == WEFT__TUNING_MOST)
        return weft__fail(context, WEFT_ENOMEM, "tuning: no room for more than %d entries",
                          WEFT__TUNING_MOST);
    weft__plan_tuning_round_key(&entry);
    entry.size = sizeof entry;
    entry.source = WEFT_TUNING_CALLER;
    table->entries[table->count++] = entry;
    return WEFT_OK;
}

void weft_tuning_clear(weft_context *context)
{
    if (context && context->tunings)
        context->tunings->count = 0;
}

bool weft_tuning_at(const weft_context *context, int32_t n, weft_tuning *out)
{
    if (!context || n < 0)
        return false;
    int32_t count = context->tunings ? context->tunings->count : 0;
    const weft_tuning *entry = n < count ? &context->tunings->entries[count - 1 - n]
                               : context->backend == &weft__backend_cpu
                                   ? weft__plan_tuning_built_in(n - count)
                                   : NULL;
    return entry && weft__api_answer(out, entry, sizeof *entry);
}

weft_status weft_tuning_choose(const weft_context *context, const weft_tuning *problem,
                               weft_tuning *out)
{
    weft_tuning key = {0};
    if (!context || !weft__api_read(&key, WEFT__KNOWN(&key), problem) ||
        (key.op != WEFT_TUNING_LINEAR && key.op != WEFT_TUNING_ATTENTION))
        return WEFT_EINVAL;
    if (!key.min_threads)
        key.min_threads = context->backend->threads(context);
    const weft_tuning chosen = weft__plan_tuning_choose(context->tunings, &key);
    return weft__api_answer(out, &chosen, sizeof chosen) ? WEFT_OK : WEFT_EINVAL;
}

weft_status weft_tuning_text(const weft_tuning *user_entry, char *text, size_t bytes)
{
    weft_tuning entry = {0};
    bool fine = text && weft__api_read(&entry, WEFT__KNOWN(&entry), user_entry) &&
                !weft__plan_tuning_fault(&entry) && weft__plan_tuning_format(&entry, text, bytes);
    return fine ? WEFT_OK : WEFT_EINVAL;
}

const char *weft_tuning_note(const weft_context *context)
{
    return context && context->tunings ? context->tunings->note : "";
}

// Does a later entry have the same key?
static bool is_replaced(const struct weft__tunings *table, int32_t i)
{
    const weft_tuning *a = &table->entries[i];
    for (int32_t j = i + 1; j < table->count; j++) {
        const weft_tuning *b = &table->entries[j];
        if (a->op == b->op && a->dtype == b->dtype && a->min_threads == b->min_threads &&
            a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
            a->page_size == b->page_size && a->rows == b->rows && a->cols == b->cols)
            return true;
    }
    return false;
}

// The text of a file of the context's entries, in the order in which they were added; 0 if there is no room.
static size_t write_text(const weft_context *context, char *text, size_t room)
{
    char machine[MACHINE_BYTES];
    machine_of(context, machine);
    if (!weft__plan_tuning_head(machine, text, room))
        return 0;
    size_t at = strlen(text);
    for (int32_t i = 0; context->tunings && i < context->tunings->count; i++) {
        if (is_replaced(context->tunings, i))
            continue;
        if (!weft__plan_tuning_format(&context->tunings->entries[i], text + at, room - at - 1))
            return 0;
        at += strlen(text + at);
        text[at++] = '\n';
    }
    return at;
}

weft_status weft_tuning_write(weft_context *context, const char *path)
{
    char own[WEFT__PATH_BYTES];
    if (!context)
        return WEFT_EINVAL;
    if (!context->backend->tuning_fault || (!path && !own_path(context, own)))
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "tuning: there is no place for a file (WEFT_TUNING=off, or no HOME)");
    const weft_allocator *host = &context->host;
    char *text = host->allocate(host->user, WEFT__TUNING_FILE_BYTES);
    if (!text)
        return weft__fail(context, WEFT_ENOMEM, "tuning: no memory for a file");
    const struct weft__file_part part = {text, write_text(context, text, WEFT__TUNING_FILE_BYTES)};
    const char *to = path ? path : own;
    weft_status status = WEFT_OK;
    if (part.bytes == 0)
        status = weft__fail(context, WEFT_ENOMEM, "tuning: the entries are more than a file holds");
    else if (!weft__file_write(to, &part, 1))
        status = weft__fail(context, WEFT_EDEVICE, "tuning: %.300s cannot be written", to);
    host->release(host->user, text);
    return status;
}
