// SPDX-License-Identifier: MIT
#include "engine/chat/jinja/jinja_words.h"

#include <utf8proc.h>

// Calls change(c, position) for every character and writes what it gives, with the character's origin.
typedef utf8proc_int32_t change_fn(utf8proc_int32_t c, size_t position, utf8proc_int32_t before);

static jinja_value change_all(jinja_run *run, jinja_text text, change_fn *change)
{
    jinja_writer writer = {.box = run->box};
    utf8proc_int32_t c, before = ' ';
    for (size_t at = 0, position = 0; at < text.size_bytes && !run->box->failed; position++) {
        utf8proc_uint8_t bytes[4];
        utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text.data + at,
                                                 (utf8proc_ssize_t)(text.size_bytes - at), &c);
        if (size < 1) { // no UTF-8: as it is
            jinja_write(&writer, jinja_part(text, at, 1));
            at++;
            continue;
        }
        utf8proc_int32_t changed = change(c, position, before);
        if (changed == c) {
            jinja_write(&writer, jinja_part(text, at, (size_t)size));
        } else {
            utf8proc_ssize_t written = utf8proc_encode_char(changed, bytes);
            unsigned char source = text.origin ? text.origin[at] : text.source;
            jinja_write_bytes(&writer, (const char *)bytes, (size_t)written, source);
        }
        before = c;
        at += (size_t)size;
    }
    return jinja_of_text(run->box, jinja_written(&writer));
}

static utf8proc_int32_t to_lower(utf8proc_int32_t c, size_t position, utf8proc_int32_t before)
{
    (void)position;
    (void)before;
    return utf8proc_tolower(c);
}

static utf8proc_int32_t to_upper(utf8proc_int32_t c, size_t position, utf8proc_int32_t before)
{
    (void)position;
    (void)before;
    return utf8proc_toupper(c);
}

static utf8proc_int32_t to_sentence(utf8proc_int32_t c, size_t position, utf8proc_int32_t before)
{
    (void)before;
    return position == 0 ? utf8proc_totitle(c) : utf8proc_tolower(c);
}

static bool is_letter(utf8proc_int32_t c)
{
    utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static utf8proc_int32_t to_title(utf8proc_int32_t c, size_t position, utf8proc_int32_t before)
{
    (void)position;
    return is_letter(before) ? utf8proc_tolower(c) : utf8proc_totitle(c);
}

jinja_value jinja_lower(jinja_run *run, jinja_text text)
{
    return change_all(run, text, to_lower);
}

jinja_value jinja_upper(jinja_run *run, jinja_text text)
{
    return change_all(run, text, to_upper);
}

jinja_value jinja_capitalize(jinja_run *run, jinja_text text)
{
    return change_all(run, text, to_sentence);
}

jinja_value jinja_title(jinja_run *run, jinja_text text)
{
    return change_all(run, text, to_title);
}

jinja_value jinja_replace(jinja_run *run, jinja_text text, jinja_text from, jinja_text to,
                          int64_t count)
{
    jinja_writer writer = {.box = run->box};
    size_t at = 0;
    for (int64_t done = 0; (count < 0 || done < count) && !run->box->failed; done++) {
        size_t found =
            from.size_bytes || at < text.size_bytes ? jinja_seek(text, from, at) : SIZE_MAX;
        if (found == SIZE_MAX)
            break;
        jinja_write(&writer, jinja_part(text, at, found - at));
        jinja_write(&writer, to);
        at = found + from.size_bytes;
        if (from.size_bytes == 0) { // between all characters
            size_t next = jinja_character_at(jinja_part(text, at, text.size_bytes - at), 1);
            jinja_write(&writer, jinja_part(text, at, next));
            at += next;
        }
    }
    if (from.size_bytes == 0 && count < 0)
        jinja_write(&writer, to);
    jinja_write(&writer, jinja_part(text, at, text.size_bytes - at));
    return jinja_of_text(run->box, jinja_written(&writer));
}

jinja_value jinja_dict_items(jinja_run *run, jinja_value dict)
{
    jinja_value items = jinja_new_list(run->box);
    for (size_t i = 0; i < dict.dict->count && !run->box->failed; i++) {
        jinja_value pair = jinja_new_list(run->box);
        jinja_append(run->box, pair, dict.dict->entries[i].key);
        jinja_append(run->box, pair, dict.dict->entries[i].value);
        if (pair.kind == JINJA_LIST)
            pair.list->tuple = true;
        jinja_append(run->box, items, pair);
    }
    return items;
}
