// SPDX-License-Identifier: MIT
// Shared memory of a block, what each SM has of the work, the words of a row.
//
// Function constants: WEFT_FORMAT of all matrices, WEFT_EMBED and WEFT_WIDE (columns of the stream and of down), WEFT_SLOTS of the ring, those of
// attention_token.cu, WEFT_TOKEN_GATE (as WEFT_GATE of linear_stream.cuh), WEFT_EVEN: which matrices' partial sums are added up
// as even ones and odd ones (bits of enum kind; as the launches do that are replaced, linear_stream.cuh), WEFT_EIGHTS: which
// matrices have chains of eight tiles' columns, not sixteen (down in the second format; bits of enum kind), WEFT_SECOND: the format of V and of down
// in some layers (token_second.cuh), or 0, WEFT_BEGINS: the first layer's Q, K and V are made here, of an X that a launch before has rounded,
// WEFT_LOGITS: rows of the matrix of logits, or 0 (token_logits.cuh), WEFT_LOGITS_SECOND: it has the second format.
#ifndef WEFT_KERNELS_TOKEN_SHARED_CUH
#define WEFT_KERNELS_TOKEN_SHARED_CUH

#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/token/token_device.h"

enum kind { QKV, O, UP, DOWN, KINDS, LAST_DOWN = KINDS, SECOND_DOWN, SECOND_LAST_DOWN, SECOND_V };

// How tiles of a unit lie in slots of four: two columns of two blocks of sixteen rows, a warp has both blocks of a column; or four
// columns of one block.
enum form { PAIRS, ROWS_ALONE };

enum {
    EMBED = WEFT_EMBED,
    WIDE = WEFT_WIDE,
    ATTENDED = WEFT_Q_HEADS * WEFT_HEAD_DIM, // columns of O
    HEAD_ROWS = ATTENDED + 2 * WEFT_KV_HEADS * WEFT_HEAD_DIM,
    GROUP_HEADS = WEFT_Q_HEADS / WEFT_KV_HEADS,

    MULTIPLIERS = WEFT__TOKEN_MULTIPLIERS,
    TILE = TILE_BYTES(4),
    TILE_COLS = PLAIN ? WEFT__TOKEN_PLAIN_TILE_COLS : 256,
    UNIT_ROWS = PLAIN ? 16 : 32, // of O and down
    SLOT_TILES = WEFT__TOKEN_SLOT_TILES(TILE),
    TEAM_WARPS = SLOT_TILES / 2,      // which have a slot, two tiles each of it
    TEAMS = MULTIPLIERS / TEAM_WARPS, // they take slots in turn
    MULTIPLYING = MULTIPLIERS * WARP,
    DELIVERING = 2 * WARP,
    SLOT = SLOT_TILES * TILE,
    READERS = 2, // of a slot count as so many
    DEPTH = WEFT_SLOTS,
    FLIGHT = WEFT__TOKEN_FLIGHT(SLOT, PLAIN),
    Q_K_UNITS = (ATTENDED + WEFT_KV_HEADS * WEFT_HEAD_DIM) / 16,
    V_UNITS = WEFT_KV_HEADS * WEFT_HEAD_DIM / 16,
    PLACES = 3,      // of sums that are not delivered yet
    MOST_DRAWN = 32, // units that are asked for and not delivered yet, at most
    UNIT_WORDS = WEFT__TOKEN_UNIT_BYTES / 16,

    LONGEST_X = ATTENDED > WIDE ? ATTENDED : WIDE,
    LONG_X = PLAIN && EMBED > LONGEST_X ? EMBED : LONGEST_X,
    X_BYTES = PLAIN ? 0 : WEFT__TOKEN_X_BYTES(EMBED),
    ALL_X_BYTES = PLAIN ? WEFT__TOKEN_PLAIN_X_BYTES(LONG_X) : WEFT__TOKEN_LONG_X_BYTES(LONG_X),
    STATES_BYTES = WARPS * GROUP_HEADS * (WEFT_HEAD_DIM + 4) * 4,
    LONG_X_BYTES = ALL_X_BYTES > STATES_BYTES ? ALL_X_BYTES : STATES_BYTES,
    RING_BYTES = (DEPTH * SLOT + 127) / 128 * 128,
};

// Numbers of barriers of the block.
enum { ROW_IS_THERE = 1, MULTIPLIERS_MEET = 2 };

struct shared {
    float parts[PLACES][MULTIPLIERS][WARP]; // sums of warps
    float residual[WEFT__TOKEN_MOST_OWN][WARP];
    uint8_t queries[PART_BYTES];
    float factors[ROWS];
    float squares[MULTIPLIERS];   // of a row of plain numbers, by warp
    uint8_t fresh[2 * ROW_BYTES]; // the new key and value
    float2 angles[WEFT_ROTARY / 2 + 1];
    struct place place;                 // the SM's part of attention
    int32_t attends, split, fresh_page; // split: which part of the keys; page of the new key
    uint32_t launch;                    // its number
    uint2 walked
        [MULTIPLIERS]; // of a warp that multiplies: slots before its next matrix, and where its sums go
    uint64_t plan[MULTIPLIERS]; // of the matrix that is multiplied next
    uint32_t again;             // the turn of sums that were not finite
    int32_t drawn[MOST_DRAWN],
        ends; // units of logits that the SM has taken; how many, once that is known
    int32_t share[WEFT__TOKEN_ROWS][2]; // of units
    uint64_t full[DEPTH], empty[DEPTH], summed[PLACES], taken[PLACES], begun;
};

enum { SHARED_AT = RING_BYTES + X_BYTES + LONG_X_BYTES };

DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    return bytes;
}

DEVICE struct shared *shared_rest()
{
    return (struct shared *)(shared_memory() + SHARED_AT);
}

// Where a tile of keys and values lies in its slot: boxes want multiples of 1024.
DEVICE uint8_t *shared_keys(uint32_t seq)
{
    const uint32_t at = seq % DEPTH * SLOT;
    return shared_memory() + (at + 1023) / 1024 * 1024;
}

DEVICE uint8_t *shared_row(int32_t kind)
{
    return shared_memory() + RING_BYTES + (kind == O || kind == DOWN ? X_BYTES : 0);
}

// --- work -----------------------------------------------------------------------------------------

// A matrix: units are 32 rows of W, two tiles of sixteen of them a column (of gate and up: sixteen of each), of Q, K and V sixteen.
// A slot of the ring has SLOT_TILES of a unit.
struct work {
    int32_t cols, tiles, slots; // tiles: of a row; slots: of a unit
    enum form form;
};

DEVICE enum form form_of(int32_t kind)
{
    if (PLAIN)
        return kind == UP ? PAIRS : ROWS_ALONE;
    return kind == QKV ? ROWS_ALONE : PAIRS;
}

DEVICE int32_t slots_of(int32_t tiles, enum form form)
{
    if (PLAIN && form == ROWS_ALONE) // pairs of tiles sixteen apart (token_plain.cuh)
        return tiles / 32 * TEAMS + min(tiles % 32 / 2, TEAMS);
    return form == PAIRS ? (tiles + TEAM_WARPS - 1) / TEAM_WARPS
                         : (tiles + SLOT_TILES - 1) / SLOT_TILES;
}

DEVICE struct work work_of(int32_t kind)
{
    struct work w;
    w.cols = kind == O ? ATTENDED : kind == DOWN ? WIDE : EMBED;
    w.tiles = w.cols / TILE_COLS;
    w.form = form_of(kind);
    w.slots = slots_of(w.tiles, w.form);
    return w;
}

DEVICE int32_t units_of(int32_t kind)
{
    return kind == QKV ? HEAD_ROWS / 16 : kind == UP ? WIDE / 16 : EMBED / UNIT_ROWS;
}

// The SM's part of `count` things.
DEVICE int32_t share_begin(int32_t count, int32_t block)
{
    return (int32_t)((int64_t)count * block / gridDim.x);
}

// Which of `items` the SM has, or -1: those that have one lie apart.
DEVICE int32_t item_of_block(int32_t items)
{
    const int32_t item = share_begin(items, (int32_t)blockIdx.x);
    return share_begin(items, (int32_t)blockIdx.x + 1) > item ? item : -1;
}

// The SM's units.
DEVICE int32_t units_of_block(int32_t kind)
{
    return shared_rest()->share[kind][1] - shared_rest()->share[kind][0];
}

// Of matrices of the second format (token_second.cuh): slots of a block of sixteen rows, and of a unit. columns: slots are two columns
// of one of a unit's blocks and of the other in turn.
struct second_work {
    int32_t cols, tiles, block_slots, slots;
    bool columns;
};

DEVICE struct second_work second_work_of(int32_t kind, bool last)
{
    struct second_work w;
    w.cols = kind == DOWN ? WIDE : EMBED;
    w.tiles = w.cols / 256;
    w.columns = kind == DOWN && WEFT_EIGHTS >> (last ? SECOND_LAST_DOWN : SECOND_DOWN) & 1;
    w.block_slots = (w.tiles + 1) / 2;
    w.slots = kind == DOWN ? 2 * w.block_slots : w.block_slots;
    return w;
}

// Has the layer's V (kind QKV), or its down, the second format?
DEVICE bool is_second(const struct weft__token_args *args, int32_t kind, int32_t layer)
{
    if (!WEFT_SECOND || (kind != QKV && kind != DOWN))
        return false;
    const uint32_t *bits = kind == DOWN ? args->second_down : args->second_v;
    return bits[layer / 32] >> layer % 32 & 1;
}

// Which sixteen rows of Q, K and V the SM's unit i is: units of Q and K and, behind them, of V, of which all SMs have about as many.
DEVICE int32_t v_before(int32_t unit)
{
    return (int32_t)((int64_t)unit * V_UNITS / (Q_K_UNITS + V_UNITS));
}

// The SM's units of V.
DEVICE int32_t v_units_of_block()
{
    const int32_t *share = shared_rest()->share[QKV];
    return v_before(share[1]) - v_before(share[0]);
}

DEVICE int32_t head_unit(int32_t i)
{
    const int32_t *share = shared_rest()->share[QKV];
    const int32_t v = v_before(share[0]), others = share[1] - share[0] - v_units_of_block();
    return i < others ? share[0] - v + i : Q_K_UNITS + v + i - others;
}

// Of the SM's units of a matrix, those of the second format, which come last.
DEVICE int32_t second_units(int32_t kind, bool second)
{
    const int32_t *share = shared_rest()->share[kind];
    return !second ? 0 : kind == QKV ? v_units_of_block() : share[1] - share[0];
}

// Is that the layer behind the last: the matrix of logits (token_logits.cuh)? It is multiplied as if it were Q, K and V of a further one,
// but for its units, which are drawn.
DEVICE bool is_logits(const struct weft__token_args *args, int32_t layer)
{
    return WEFT_LOGITS && layer == args->num_layers;
}

enum { DRAWN = 0xffff }; // in the place of a number of units

// Is there no unit `u` of logits? Known to who has waited for a slot of it, or for one behind it.
DEVICE bool logits_end(int32_t u)
{
    return u >= *(const volatile int32_t *)&shared_rest()->ends;
}

// What the launches before have left is there, and what the block knows of the text.
DEVICE void text_wait()
{
    wait_for_previous();
    barrier_wait(shared_address(&shared_rest()->begun), 0);
}

DEVICE void slot_wait(uint32_t seq)
{
    barrier_wait(shared_address(shared_rest()->full + seq % DEPTH), seq / DEPTH & 1);
}

DEVICE void slot_release(uint32_t seq)
{
    barrier_arrive(shared_address(shared_rest()->empty + seq % DEPTH));
}

// --- words of rows --------------------------------------------------------------------------------

DEVICE uint32_t *counter_of(const struct weft__token_args *args, int32_t row)
{
    return args->launches + (row + 1) * (WEFT__TOKEN_COUNTER_BYTES / 4);
}

// A unit: 32 rounded numbers in three words of 16 bytes, each of which ends with its turn. A row has the first words of all units, then
// all second ones, then the third.
//
//      codes 0..11, sums of the sixteens, 12 bits each      | turn
//      codes 12..23, the lower 24 bits of the sum of squares | turn
//      codes 24..31, scale, the upper 8 bits                 | turn
enum {
    TURN_SHIFT = 24
}; // of the last four bytes: a word that is waited for is of the turn before until it comes

DEVICE bool word_look(const uint8_t *from, uint32_t turn, uint32_t word[4])
{
    receive_whole(from, word);
    return word[3] >> TURN_SHIFT == (turn & 255);
}

DEVICE int32_t units_of_row(int32_t row)
{
    return (row == WEFT__TOKEN_ROW_attended ? ATTENDED
            : row == WEFT__TOKEN_ROW_down   ? WIDE
                                            : EMBED) /
           32;
}

#if !PLAIN

// 32 results, a lane each, rounded as round_results() does it: x * weight as codes, the squares of x where a norm wants them.
template <bool SQUARES>
DEVICE void unit_send(const struct weft__token_args *args, int32_t row, int32_t unit, int32_t lane,
                      float x, float weight, uint32_t turn)
{
    const struct rounded_group group = round_of(lane, x * weight);
    const uint32_t square = SQUARES ? float_bits(warp_sum(x * x, 32)) : 0;
    uint32_t codes = (uint32_t)group.code & 255u;
    codes |= __shfl_down_sync(0xffffffffu, codes, 1) << 8;
    codes |= __shfl_down_sync(0xffffffffu, codes, 2) << 16;
    uint32_t word[4];
#pragma unroll
    for (int32_t i = 0; i < 3; i++)
        word[i] = __shfl_sync(0xffffffffu, codes, (3 * lane + i) * 4 % 32);
    word[2] = lane == 2 ? group.scale : word[2];
    const uint32_t rest = lane == 0   ? (group.sums & 0xfffu) | (group.sums >> 4 & 0xfff000u)
                          : lane == 1 ? square & 0xffffffu
                                      : square >> 24;
    word[3] = rest | turn << TURN_SHIFT;
    if (lane < UNIT_WORDS)
        send_whole((uint8_t *)args->rows[row] + (lane * units_of_row(row) + unit) * 16, word);
    __syncwarp();
    if (lane == 0)
        count_arrival(counter_of(args, row));
}

// A unit into a row of `cols` columns: codes, scale and sums, the square where a norm wants it.
template <bool SQUARES>
DEVICE void unit_place(uint8_t *to, int32_t cols, int32_t unit, const uint32_t word[UNIT_WORDS][4])
{
    uint8_t *codes = to + unit / 2 * 64 + unit % 2 * 8;
    *(uint2 *)codes = make_uint2(word[0][0], word[1][1]);
    *(uint2 *)(codes + 16) = make_uint2(word[0][1], word[1][2]);
    *(uint2 *)(codes + 32) = make_uint2(word[0][2], word[2][0]);
    *(uint2 *)(codes + 48) = make_uint2(word[1][0], word[2][1]);
    const int32_t first = (int32_t)(word[0][3] << 20) >> 20,
                  second = (int32_t)(word[0][3] << 8) >> 20;
    ((uint2 *)(to + cols))[unit] =
        make_uint2(word[2][2], ((uint32_t)first & 0xffffu) | (uint32_t)second << 16);
    if (SQUARES)
        ((uint32_t *)(to + cols + cols / 4))[unit] = (word[1][3] & 0xffffffu) | word[2][3] << 24;
}

#endif

// How often a row has been handed over, this time included: of the first layer X of Q, K and V is not (but that of logits is, behind the
// last), nor what they are made elsewhere.
DEVICE uint32_t uses_of(int32_t row, uint32_t turn)
{
    const bool less = row == WEFT__TOKEN_ROW_qkv || (!WEFT_BEGINS && row == WEFT__TOKEN_ROW_heads);
    // read again: nobody keeps it in a register for this
    if (WEFT_LOGITS && row == WEFT__TOKEN_ROW_qkv)
        return turn - 1;
    return less ? turn - 1 - *(const volatile uint32_t *)&shared_rest()->launch : turn;
}

// Waits until nearly all of the `each` deliveries of a row have come, so that who polls does not take the bandwidth that the last
// words need.
DEVICE void arrivals_wait(const struct weft__token_args *args, int32_t row, uint32_t turn,
                          uint32_t each)
{
    const uint32_t *counter = counter_of(args, row);
    while (!has_counted(counter, uses_of(row, turn) * each - each / 16))
        ;
}

#if !PLAIN

// A row of words to shared memory, by all warps that multiply, a unit a thread, which asks for all of its words before it looks at any.
template <int COLS, bool SQUARES>
DEVICE void row_take(const uint8_t *words, uint32_t turn, uint8_t *to)
{
    enum { UNITS = COLS / 32 };
#pragma unroll 1
    for (int32_t unit = computed_here((int32_t)threadIdx.x); unit < UNITS; unit += MULTIPLYING) {
        uint32_t word[UNIT_WORDS][4];
        bool there;
        do {
            there = true;
#pragma unroll
            for (int32_t k = 0; k < UNIT_WORDS; k++)
                there &= word_look(words + (k * UNITS + unit) * 16, turn, word[k]);
        } while (!there);
        unit_place<SQUARES>(to, COLS, unit, word);
    }
}

#endif

#endif
