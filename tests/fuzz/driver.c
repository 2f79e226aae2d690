// SPDX-License-Identifier: MIT
// Stands in for libFuzzer where the compiler has none: runs every seed, then random mutations of them.
// Without coverage to guide it this finds little, but it keeps every target running in every build.
//
// usage: fuzz_<what> [-runs=N] [-seed=N] FILE...

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { MAX_INPUT_BYTES = 1 << 16, MAX_EDITS = 6 };

typedef struct input {
    uint8_t *data;
    size_t size_bytes;
} input;

// xorshift64*, Vigna 2016
static uint64_t random_state = 1;

static uint64_t random_u64(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

static size_t random_below(size_t bound)
{
    return bound > 0 ? (size_t)(random_u64() % bound) : 0;
}

static int read_input(input *in, const char *path)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        fprintf(stderr, "%s: cannot open; name seed files\n", path);
        return 1;
    }
    in->data = malloc(MAX_INPUT_BYTES);
    in->size_bytes = in->data != NULL ? fread(in->data, 1, MAX_INPUT_BYTES, stream) : 0;
    fclose(stream);
    return in->data == NULL;
}

// A copy of exactly its size, so that address checkers see the first byte read beyond it.
static void run(const uint8_t *data, size_t size_bytes)
{
    uint8_t *exact = calloc(1, size_bytes > 0 ? size_bytes : 1);
    if (exact == NULL)
        abort();
    memcpy(exact, data, size_bytes);
    LLVMFuzzerTestOneInput(exact, size_bytes);
    free(exact);
}

static void overwrite_number(input *in)
{
    static const uint64_t numbers[] = {
        0,      1,          2,        7,          8,          0x7f,       0x80,       0xff,
        0xffff, 0x7fffffff, 1u << 31, 0xffffffff, 1ull << 32, 1ull << 62, 1ull << 63, UINT64_MAX};
    uint64_t number = numbers[random_below(sizeof(numbers) / sizeof(numbers[0]))];
    number += random_below(3) - 1;
    size_t width = (size_t)1 << random_below(4);
    if (in->size_bytes >= width)
        memcpy(in->data + random_below(in->size_bytes - width + 1), &number, width);
}

static void move_chunk(input *in, const input *from)
{
    if (in->size_bytes == 0 || from->size_bytes == 0)
        return;
    size_t source = random_below(from->size_bytes);
    size_t target = random_below(in->size_bytes);
    size_t room = MAX_INPUT_BYTES - target;
    size_t count = 1 + random_below(from->size_bytes - source);
    count = count < room ? count : room;
    memmove(in->data + target, from->data + source, count);
    if (target + count > in->size_bytes)
        in->size_bytes = target + count;
}

static void edit(input *in, const input *other)
{
    size_t position = random_below(in->size_bytes);
    switch (random_below(8)) {
    case 0:
        if (in->size_bytes > 0)
            in->data[position] ^= (uint8_t)(1u << random_below(8));
        break;
    case 1:
        if (in->size_bytes > 0)
            in->data[position] = (uint8_t)random_u64();
        break;
    case 2: in->size_bytes = random_below(in->size_bytes + 1); break;
    case 3: move_chunk(in, other); break;
    case 4: move_chunk(in, in); break;
    default: overwrite_number(in);
    }
}

int main(int argc, char **argv)
{
    unsigned long runs = 5000;
    size_t seed_count = 0;
    input *seeds = calloc((size_t)argc, sizeof(*seeds));
    input work = {calloc(1, MAX_INPUT_BYTES), 0};
    if (seeds == NULL || work.data == NULL)
        return 1;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-runs=", 6) == 0)
            runs = strtoul(argv[i] + 6, NULL, 10);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            random_state = strtoull(argv[i] + 6, NULL, 10) | 1;
        else if (read_input(&seeds[seed_count++], argv[i]) != 0)
            return 1;
    }
    run(work.data, 0);
    for (size_t i = 0; i < seed_count; i++)
        run(seeds[i].data, seeds[i].size_bytes);
    for (unsigned long done = 0; seed_count > 0 && done < runs; done++) {
        const input *seed = &seeds[random_below(seed_count)];
        work.size_bytes = seed->size_bytes;
        memcpy(work.data, seed->data, seed->size_bytes);
        for (size_t edits = 1 + random_below(MAX_EDITS); edits > 0; edits--)
            edit(&work, &seeds[random_below(seed_count)]);
        run(work.data, work.size_bytes);
    }
    printf("%zu seeds, %lu mutations\n", seed_count, seed_count > 0 ? runs : 0);
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].data);
    free(seeds);
    free(work.data);
    return 0;
}
