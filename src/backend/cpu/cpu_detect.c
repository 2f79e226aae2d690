// SPDX-License-Identifier: MIT
// CPU features, never CPU models. A level counts only if every feature of its bundle is there and the
// operating system saves the registers (XCR0).
#define _GNU_SOURCE
#include <stdio.h>

#include "src/backend/cpu/cpu.h"

#define WEFT__BIT(isa) (1u << WEFT__ISA_##isa)

#if defined(WEFT__X86)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has(uint32_t reg, uint32_t bits)
{
    return (reg & bits) == bits;
}

// The registers of AMX are large: Linux gives them to a process that asks.
static bool may_use_tiles(void)
{
#ifdef __linux__
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

static bool has_amx(uint64_t xcr0, uint32_t d7)
{
    enum { XCR0_TILES = 0x60000, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25 };
    return (xcr0 & XCR0_TILES) == XCR0_TILES && has(d7, AMX_TILE | AMX_BF16 | AMX_INT8) &&
           may_use_tiles();
}

uint32_t weft__cpu_isa_mask(void)
{
    enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6 };
    uint32_t mask = WEFT__BIT(ref);
    uint32_t a, b, c, d, b7, c7, d7, a71 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, bit_OSXSAVE))
        return mask;
    uint64_t xcr0 = read_xcr0();
    bool avx = has(c, bit_AVX | bit_FMA | bit_F16C) && (xcr0 & XCR0_AVX) == XCR0_AVX;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !avx || !has(b7, bit_AVX2))
        return mask;
    if (a >= 1)
        __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    mask |= WEFT__BIT(avx2);
    if ((xcr0 & XCR0_AVX512) != XCR0_AVX512 ||
        !has(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ | bit_AVX512CD))
        return mask;
    mask |= WEFT__BIT(avx512);
    if (!has(c7, bit_AVX512VNNI | bit_AVX512VBMI | bit_GFNI))
        return mask;
    mask |= WEFT__BIT(avx512vnni);
    if (!has(a71, 1u << 5)) // AVX512_BF16
        return mask;
    // Beside AVX-512 FP16 (Sapphire Rapids) dots of bf16 reach half of what f32 multiply-adds do: the kernels of
    // f32 serve better there.
    if (!has(d7, 1u << 23)) // AVX512_FP16
        mask |= WEFT__BIT(avx512bf16);
    if (has_amx(xcr0, d7))
        mask |= WEFT__BIT(amx);
    return mask;
}

// Those with VEX-encoded VNNI (Zen 5, Sapphire Rapids) gain up to a half, Zen 4 and what came before lose a
// tenth: their hardware follows a stream by itself (NOTES.md of linear).
bool weft__cpu_asks_far(void)
{
    enum { AVX_VNNI = 1 << 4 };
    uint32_t a = 0, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || a < 1 ||
        !__get_cpuid_count(7, 1, &a, &b, &c, &d))
        return false;
    return has(a, AVX_VNNI);
}

// Xeons with AMX, whatever the level: 8 KB ahead are 0.77 of what a thread can read, 2 KB 0.92 (NOTES.md of linear).
bool weft__cpu_asks_near(void)
{
    enum { AMX_TILE = 1 << 24 };
    uint32_t a, b, c, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && has(d, AMX_TILE);
}

#elif defined(WEFT__ARM64)
#include <asm/hwcap.h>
#include <sys/auxv.h>

uint32_t weft__cpu_isa_mask(void)
{
    unsigned long hwcap = getauxval(AT_HWCAP);
    uint32_t mask = WEFT__BIT(ref);
    if (!(hwcap & HWCAP_ASIMD))
        return mask;
    mask |= WEFT__BIT(neon);
    if (hwcap & HWCAP_ASIMDDP)
        mask |= WEFT__BIT(neondot);
    return mask;
}

bool weft__cpu_asks_far(void)
{
    return false;
}

bool weft__cpu_asks_near(void)
{
    return false;
}

#else

uint32_t weft__cpu_isa_mask(void)
{
    return WEFT__BIT(ref);
}

bool weft__cpu_asks_far(void)
{
    return false;
}

bool weft__cpu_asks_near(void)
{
    return false;
}

#endif

enum architecture {
    ARCHITECTURE_ANY,
    ARCHITECTURE_X86,
    ARCHITECTURE_ARM64,
#if defined(WEFT__X86)
    ARCHITECTURE_OWN = ARCHITECTURE_X86,
#elif defined(WEFT__ARM64)
    ARCHITECTURE_OWN = ARCHITECTURE_ARM64,
#else
    ARCHITECTURE_OWN = ARCHITECTURE_ANY,
#endif
};

static const struct {
    const char *name;
    enum architecture architecture;
} levels[] = {
#define WEFT__ISA_LEVEL(name, architecture) {#name, ARCHITECTURE_##architecture},
    WEFT__ISA_MAP(WEFT__ISA_LEVEL)
#undef WEFT__ISA_LEVEL
};

static bool is_own(uint32_t isa)
{
    return levels[isa].architecture == ARCHITECTURE_ANY ||
           levels[isa].architecture == ARCHITECTURE_OWN;
}

const char *weft__cpu_lower(uint32_t *mask, const char *level)
{
    for (uint32_t isa = 0; isa < WEFT__ISA_COUNT; isa++) {
        if (strcmp(levels[isa].name, level) != 0)
            continue;
        if (!is_own(isa))
            return "an instruction set of another architecture";
        *mask &= (2u << isa) - 1;
        return NULL;
    }
    return "no instruction set of this library";
}

const char *weft__cpu_levels(char *text, size_t bytes)
{
    size_t length = 0;
    text[0] = 0;
    for (uint32_t isa = 0; isa < WEFT__ISA_COUNT; isa++)
        if (is_own(isa) && length < bytes)
            length += (size_t)snprintf(text + length, bytes - length, "%s%s", isa ? ", " : "",
                                       levels[isa].name);
    return text;
}

const char *weft__cpu_level_name(int32_t isa)
{
    return levels[isa].name;
}

const char *weft__cpu_isa_name(uint32_t mask)
{
    uint32_t isa = WEFT__ISA_COUNT - 1;
    while (isa > 0 && !(mask >> isa & 1u))
        isa--;
    return levels[isa].name;
}
