// SPDX-License-Identifier: MIT
// Thresholds and sizes by which plans choose (weft/tuning.h): the library's own as a table of data, entries
// of a file and of the caller before them. Choosing is a function of the table and the problem alone.
#ifndef WEFT_PLAN_TUNING_H
#define WEFT_PLAN_TUNING_H

#include <stdbool.h>

#include <weft/tuning.h>

enum {
    WEFT__TUNING_MOST = 512,            // entries
    WEFT__TUNING_FILE_BYTES = 64 << 10, // of a file, at most
};

// What a context keeps; NULL while it has nothing but the library's own.
struct weft__tunings {
    int32_t count;
    char note[256];
    weft_tuning entries[WEFT__TUNING_MOST]; // those of the file first; later ones go before
};

// The library's own, n = 0, 1, ...; NULL past the last. They are asked in this order.
const weft_tuning *weft__plan_tuning_built_in(int32_t n);

// Rounds an entry's key as tuning.h says.
void weft__plan_tuning_round_key(weft_tuning *entry);

// What is wrong with an entry, in words; NULL: nothing.
const char *weft__plan_tuning_fault(const weft_tuning *entry);

// The values for a problem, of which the key is read as it is (min_threads: the context's threads). tables NULL:
// the library's own.
weft_tuning weft__plan_tuning_choose(const struct weft__tunings *tables,
                                     const weft_tuning *problem);

// An entry as a line of the file, without its end; false if there is no room.
bool weft__plan_tuning_format(const weft_tuning *entry, char *text, size_t bytes);

// The whole text of a file, as weft_tuning_write() leaves it: false, with the reason in `why`, unless it is for
// `machine` and every line is sound. Entries go to `to`, those of earlier files are kept.
bool weft__plan_tuning_parse(const char *text, size_t bytes, const char *machine,
                             struct weft__tunings *to, char why[160]);

// The first lines of a file.
bool weft__plan_tuning_head(const char *machine, char *text, size_t bytes);

#endif
