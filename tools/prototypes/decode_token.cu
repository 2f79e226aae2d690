// SPDX-License-Identifier: MIT
// Measured in src/kernels/linear/NOTES.md, "A whole token as one launch". Kept in the history alone.
// nvcc -O3 -std=c++17 -arch=sm_90a decode_token.cu -o decode_token; ./decode_token 0
// A whole token of Llama-3.1-8B q4_0 (512 keys) as one persistent kernel: what would it take? One producer warp streams all weights and keys
// through a ring; G x 4 warps multiply; one warp delivers. Rows are handed over by words that say by themselves that they are there.
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cstring>
#include <cmath>
#include <vector>
#include <algorithm>
#include <cuda_fp16.h>
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)
typedef uint32_t u32; typedef uint8_t u8;
enum { LAYERS = 32, TILE = 2304, NB = 4, WIDE = 14336, DIM = 4096, BLANK = (int)0x80808080, MAGICB = 0x4b400000 };
enum { QKV, ATT, O, GU, DOWN, HEAD, KINDS };
constexpr long RB = 16l * TILE;                       // a row block of 4096 columns
constexpr long W_QKV = 384 * RB, W_O = 256 * RB, W_GU = 1792 * RB, W_DOWN = 256 * 56l * TILE, W_LAYER = W_QKV + W_O + W_GU + W_DOWN, W_HEAD = 8016 * RB;
constexpr long KV_LAYER = 128 * 16384l;
__host__ __device__ constexpr int xwords(int k) { return k * 11 / 32; }   // codes, meta (8 bytes a unit), squares (4)
// global rows of words, four in turn by layer
enum { R_Q = 0, R_PART = R_Q + 6144, R_ML = R_PART + 128 * 512, R_XO = R_ML + 128 * 8, R_XG = R_XO + xwords(DIM), R_XD = R_XG + xwords(DIM), R_END = R_XD + xwords(WIDE), X_AT = 4 * R_END, ROWS_END = X_AT + 4 * xwords(DIM) };
struct Args { const u8 *w; const u8 *kv; u32 *rows; u32 *best; u32 *hint; const float *norm; long long *trace; float *dump; int tokens; };
struct Shared { uint64_t full[20], empty[20], sums[NB], free[NB]; float part[NB][24][32]; u32 goal[8]; volatile int waits; alignas(16) float q[800]; alignas(16) float s[4][32], p[4][32]; };
__device__ __forceinline__ u32 sa(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void mb_wait(u32 b, u32 ph) {
  for (int n = 0;; n++) { u32 ok; asm volatile("{\n.reg .pred P;\nmbarrier.try_wait.parity.shared::cta.b64 P,[%1],%2;\nselp.u32 %0,1,0,P;\n}" : "=r"(ok) : "r"(b), "r"(ph) : "memory"); if (ok) return; if (n > 4000000) __trap(); } }
__device__ __forceinline__ void mb_init(void *b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sa(b)), "r"(n)); }
__device__ __forceinline__ void mb_expect(void *b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void mb_arrive(void *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sa(b)) : "memory"); }
__device__ __forceinline__ void bulk(void *to, const void *from, u32 bytes, void *b, uint64_t pol) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(sa(to)), "l"(from), "r"(bytes), "r"(sa(b)), "l"(pol) : "memory"); }
__device__ __forceinline__ void bar(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
__device__ __forceinline__ u32 ldw(const u32 *p) { u32 v; asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ uint4 ldw4(const u32 *p) { uint4 v; asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ void stw(u32 *p, u32 v) { asm volatile("st.relaxed.gpu.global.u32 [%0],%1;" ::"l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ bool there(uint4 v) { return v.x != BLANK && v.y != BLANK && v.z != BLANK && v.w != BLANK; }
__device__ __forceinline__ u32 word(float f) { u32 u = __float_as_uint(f); return u == (u32)BLANK ? 0 : u; }
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
__device__ __forceinline__ void mma_s8(int d[4], const u32 a[4], uint2 b, const int c[4]) { asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])); }
__device__ __forceinline__ void mma_u8(int d[4], const u32 a[4], uint2 b, const int c[4]) { asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])); }
struct Column { uint2 b; int start[4]; float xs0, xs1; };
__device__ __forceinline__ Column column(const u8 *x, int k, int tile, int lane) {
  const int r = lane / 4, c = lane % 4; Column o;
  o.b = *(const uint2 *)(x + tile * 256 + r / 2 * 64 + c * 16 + r % 2 * 8);
  uint4 m = *(const uint4 *)(x + k + tile * 64 + c * 16);
  o.start[0] = o.start[2] = MAGICB + 9 * (int)m.y; o.start[1] = o.start[3] = MAGICB - 127 * (int)m.w;
  o.xs0 = -__uint_as_float(m.x); o.xs1 = __uint_as_float(m.z) * .0625f; return o; }
struct Tile { uint4 q[4]; uint2 s; };
__device__ __forceinline__ void load(Tile &t, const u8 *from, int lane) {
#pragma unroll
  for (int p = 0; p < 4; p++) t.q[p] = *(const uint4 *)(from + p * 512 + lane * 16);
  t.s = *(const uint2 *)(from + 2048 + lane * 8); }
__device__ __forceinline__ void tile(const Tile &t, int lane, const Column &x, float &a0, float &a1) {
  const int c = lane % 4; int k0, k1, k2, k3;
#pragma unroll
  for (int p = 0; p < 4; p++) {
    u32 w[4] = {t.q[p].x, t.q[p].y, t.q[p].z, t.q[p].w}, low[4]; int d[4], e[4];
#pragma unroll
    for (int j = 0; j < 4; j++) low[j] = ~(w[j] & 0x0f0f0f0fu);
    mma_s8(d, low, x.b, x.start); mma_u8(e, w, x.b, d);
    if (p == 0 || p == c) { k0 = d[0]; k1 = e[1]; k2 = d[2]; k3 = e[3]; }
  }
  float2 f = __half22float2(*(__half2 *)&t.s.x), g = __half22float2(*(__half2 *)&t.s.y); const float M = 12582912.f;
  a0 += (__int_as_float(k0) - M) * x.xs0 * f.x + (__int_as_float(k1) - M) * x.xs1 * f.y;
  a1 += (__int_as_float(k2) - M) * x.xs0 * g.x + (__int_as_float(k3) - M) * x.xs1 * g.y;
}
// slots of 2 WS tiles
struct Share { int from, to, slots; bool pair; };
// slots of 2 WS tiles
template <int WS> __device__ __forceinline__ Share share(int kind, int b, int n) { constexpr int F = 4 / WS;
  if (kind == QKV) return {384 * b / n, 384 * (b + 1) / n, 2 * F, false};
  if (kind == O || kind == DOWN) return {128 * b / n, 128 * (b + 1) / n, (kind == O ? 4 : 14) * F, true};
  if (kind == GU) return {896 * b / n, 896 * (b + 1) / n, 4 * F, true};
  return {4008 * b / n, 4008 * (b + 1) / n, 4 * F, true};
}
// who of the SMs attends, merges: item b of 128, or -1. (Those without O and down are others, so that none is idle in all.)
__device__ __forceinline__ int item(int b, int n) { return 128 * (b + 1) / n - 128 * b / n ? 128 * b / n : -1; }
// lane j has x of column j of a unit: the unit's words at row (of k columns)
__device__ __forceinline__ void round_unit(u32 *row, int k, int unit, float x, float square, int lane) {
  const u32 m = __reduce_max_sync(~0u, __float_as_uint(fabsf(x))); const float big = __uint_as_float(m), scale = big * (1.f / 127.f), by = big > 0 ? 127.f / big : 0;
  const int code = __float2int_rn(x * by), sum = __reduce_add_sync(~0u, code); u32 v = code & 255;
  v |= __shfl_down_sync(~0u, v, 1) << 8; v |= __shfl_down_sync(~0u, v, 2) << 16;
  for (int o = 16; o; o >>= 1) square += __shfl_xor_sync(~0u, square, o);
  u32 *at = row + unit / 2 * 16 + unit % 2 * 2 + (lane % 16) / 4 * 4 + lane / 16;
  if (lane % 4 == 1) { v = __float_as_uint(scale); at = row + k / 4 + unit * 2; }
  if (lane % 4 == 2) { v = (u32)sum; at = row + k / 4 + unit * 2 + 1; }
  if (lane % 4 == 3) { v = __float_as_uint(square); at = row + k / 4 + k / 16 + unit; }
  if (lane < 4 || lane % 4 == 0) stw(at, v);
}
__device__ __forceinline__ void blank_unit(u32 *row, int k, int unit, int lane) {
  u32 *at = row + unit / 2 * 16 + unit % 2 * 2 + (lane % 16) / 4 * 4 + lane / 16;
  if (lane % 4 == 1) at = row + k / 4 + unit * 2; if (lane % 4 == 2) at = row + k / 4 + unit * 2 + 1; if (lane % 4 == 3) at = row + k / 4 + k / 16 + unit;
  if (lane < 4 || lane % 4 == 0) stw(at, BLANK);
}
// HOW: bit 0 compute, bit 1 wait for rows, bit 2 weights are streamed, bit 3 a counter is asked first, bit 4: no attention, bit 5: the counter is believed at three quarters
template <int G, int WS, int FLIGHT, int HOW> __global__ void __launch_bounds__(G * 128 + 64, 1) token(const Args a) {
  constexpr bool COMPUTE = HOW & 1, WAIT = HOW & 2, STREAM = HOW & 4, HINT = HOW & 8, ATTEND = !(HOW & 16), EARLY = HOW & 32, AHEAD = HOW & 64, CALM = HOW & 128, DEBUG = HOW & 256; constexpr int PART = (HOW >> 9 & 3) == 0 ? 4 : (HOW >> 9 & 3) == 1 ? 2 : (HOW >> 9 & 3) == 2 ? 8 : 16; constexpr int W = G * 4, T = W * 32, NG = W / WS, CALM_FLIGHT = 2, SLOT = 2 * WS * TILE, DEPTH = 40 / WS;
  extern __shared__ __align__(128) u8 sm[];
  u8 *ring = sm, *x0 = sm + DEPTH * SLOT, *x1 = x0 + xwords(DIM) * 4, *xd = x1 + xwords(DIM) * 4; Shared *sh = (Shared *)(xd + xwords(WIDE) * 4);
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, b = blockIdx.x, n = gridDim.x, it = item(b, n);
  if (tid < 5) sh->goal[tid] = 0; if (tid == 0) sh->waits = 0;
  if (tid == 0) { for (int i = 0; i < DEPTH; i++) { mb_init(sh->full + i, 1); mb_init(sh->empty + i, WS); } for (int i = 0; i < NB; i++) { mb_init(sh->sums + i, W); mb_init(sh->free + i, 1); } asm volatile("fence.mbarrier_init.release.cluster;"); }
  __syncthreads();
  if (warp == W + 1) { // ---- producer
    if (lane || !STREAM) return;
    uint64_t pol; asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(pol)); uint64_t keep; asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
    int st = 0, par = 1, bs = DEPTH - FLIGHT, bp = 1, seq = 0;
    auto put = [&](const u8 *from, u32 bytes, uint64_t p) {
      mb_wait(sa(sh->empty + st), par);
      if (CALM) { const int lim = sh->waits ? CALM_FLIGHT : FLIGHT, at = seq - lim; if (at >= 0) mb_wait(sa(sh->full + at % DEPTH), at / DEPTH & 1); seq++; }
      else if (FLIGHT < DEPTH) { if (seq >= FLIGHT) mb_wait(sa(sh->full + bs), bp); if (++bs == DEPTH) { bs = 0; bp ^= 1; } seq++; }
      mb_expect(sh->full + st, bytes);
      bulk(ring + st * SLOT, from, bytes, sh->full + st, p);
      if (++st == DEPTH) { st = 0; par ^= 1; } };
    auto units = [&](const u8 *w, int kind) { Share s = share<WS>(kind, b, n); const u8 *p = w + (long)s.from * s.slots * SLOT; for (int i = (s.to - s.from) * s.slots; i; i--, p += SLOT) put(p, SLOT, pol); };
    for (int t = 0; t < a.tokens; t++) {
      const u8 *w = a.w;
      for (int l = 0; l < LAYERS; l++) {
        units(w, QKV); if (ATTEND && it >= 0) { put(a.kv + l * KV_LAYER + it * 16384l, 8192, keep); put(a.kv + l * KV_LAYER + it * 16384l + 8192, 8192, keep); }
        units(w + W_QKV, O); units(w + W_QKV + W_O, GU); units(w + W_QKV + W_O + W_GU, DOWN); w += W_LAYER;
      }
      units(w, HEAD);
    }
    return;
  }
  auto mark = [&](int t, int l, int kind, int what) { if (DEBUG && a.trace && t == a.tokens - 1 && tid % T == 0) a.trace[((l * KINDS + kind) * 4 + what) * n + b] = now(); };
  auto rows = [&](int t, int l) { return a.rows + ((t * 32 + l) & 3) * R_END; };
  auto xrow = [&](int t, int l) { return a.rows + X_AT + ((t * 33 + l) & 3) * xwords(DIM); };
  if (warp == W) { // ---- delivery
    int buf = 0, bpar = 0; const Share own = share<WS>(O, b, n); float residual = 0.01f * lane;
    auto sum = [&]() { mb_wait(sa(sh->sums + buf), bpar); float v = 0;
#pragma unroll
      for (int i = 0; i < W; i++) v += sh->part[buf][i][lane];
      __syncwarp(); if (lane == 0) mb_arrive(sh->free + buf); if (++buf == NB) { buf = 0; bpar ^= 1; } return v; };
    auto told = [&](int which) { if (HINT) { __syncwarp(); if (lane == 0) atomicAdd(a.hint + which * 32, 1); } };
    auto norm_of = [&](const u8 *x) { const float4 q = ((const float4 *)(x + DIM + DIM / 4))[lane]; float s = q.x + q.y + q.z + q.w; for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o); return rsqrtf(s * (1.f / DIM) + 1e-5f); };
    const float *nw = a.norm;
    for (int t = 0; t < a.tokens; t++) {
      { // the embedding: everybody's best, then X of the first layer
        float best = 0;
        if (t && WAIT) for (int i = lane; i < n; i += 32) { u32 v; int c = 0; while ((v = ldw(a.best + (t & 3) * 256 + i)) == BLANK) if (++c > 4000000) __trap(); best = fmaxf(best, __uint_as_float(v)); }
        best = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(best)));
        if (own.from < own.to) { residual = __ldg(nw + own.from * 32 + lane) + 0.001f * best; round_unit(xrow(t, 0), DIM, own.from, residual, residual * residual, lane); blank_unit(xrow(t, 2), DIM, own.from, lane); } told(0);
        if (lane == 0) stw(a.best + ((t + 2) & 3) * 256 + b, BLANK);
      }
      for (int l = 0; l < LAYERS; l++) {
        u32 *r = rows(t, l), *old = rows(t, l + 2);
        const float w1 = own.from < own.to ? __ldg(nw + (l * 2) * DIM + own.from * 32 + lane) : 0, w2 = own.from < own.to ? __ldg(nw + (l * 2 + 1) * DIM + own.from * 32 + lane) : 0;
        bar(1, T + 32);
        { Share s = share<WS>(QKV, b, n); float inv = norm_of(l & 1 ? x1 : x0);
          for (int u = s.from; u < s.to; u++) { float v = sum() * inv; if (lane < 16) { stw(r + R_Q + u * 16 + lane, word(v)); if (DEBUG && a.dump && l == 1 && !t) a.dump[u * 16 + lane] = v; } told(1); }
          for (int u = s.from; u < s.to; u++) if (lane < 16) stw(old + R_Q + u * 16 + lane, BLANK); }
        if (ATTEND && it >= 0) { // merge: head it / 4, 32 of its columns
          const int head = it / 4, kvh = head / 4, h = head % 4; u32 v[16], m, lsum; bool ok; int c = 0;
          do { ok = true;
#pragma unroll
            for (int i = 0; i < 16; i++) v[i] = ldw(r + R_PART + (kvh * 16 + i) * 512 + h * 128 + it % 4 * 32 + lane);
            m = ldw(r + R_ML + (kvh * 16 + lane % 16) * 8 + h * 2); lsum = ldw(r + R_ML + (kvh * 16 + lane % 16) * 8 + h * 2 + 1);
            ok = m != BLANK && lsum != BLANK;
#pragma unroll
            for (int i = 0; i < 16; i++) ok &= v[i] != BLANK;
            if (++c > 4000000) __trap();
          } while (WAIT && !ok);
          float mx = __uint_as_float(m); for (int o = 8; o; o >>= 1) mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, o));
          float e = exp2f(__uint_as_float(m) - mx), tot = e * __uint_as_float(lsum); for (int o = 8; o; o >>= 1) tot += __shfl_xor_sync(~0u, tot, o);
          float x = 0;
#pragma unroll
          for (int i = 0; i < 16; i++) x += __shfl_sync(~0u, e, i) * __uint_as_float(v[i]);
          x /= tot; round_unit(r + R_XO, DIM, it, x, 0, lane); told(2); blank_unit(old + R_XO, DIM, it, lane);
        }
        if (!ATTEND && own.from < own.to) { round_unit(r + R_XO, DIM, own.from, residual, 0, lane); told(2); blank_unit(old + R_XO, DIM, own.from, lane); }
        bar(1, T + 32);
        if (own.from < own.to) { float v = sum(); if (DEBUG && a.dump && l == 1 && !t) a.dump[6144 + own.from * 32 + lane] = v; residual += v; round_unit(r + R_XG, DIM, own.from, residual * w1, residual * residual, lane); told(3); blank_unit(old + R_XG, DIM, own.from, lane); }
        bar(1, T + 32);
        { Share s = share<WS>(GU, b, n); float inv = norm_of(l & 1 ? x1 : x0);
          for (int u = s.from; u < s.to; u++) { float v = sum() * inv; if (DEBUG && a.dump && l == 1 && !t) a.dump[10240 + u * 32 + lane] = v; float up = __shfl_down_sync(~0u, v, 16), h = v / (1.f + __expf(-v)) * up;
            // (halves of units: their codes each, the second's scale)
            h = lane < 16 ? h : 0; const float big = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(fabsf(h)))); const int code = __float2int_rn(h * (big > 0 ? 127.f / big : 0)), sm_ = __reduce_add_sync(~0u, code);
            u32 y = code & 255; y |= __shfl_down_sync(~0u, y, 1) << 8; y |= __shfl_down_sync(~0u, y, 2) << 16; const int g = u / 2; u32 *row = r + R_XD, *at = row + g / 2 * 16 + g % 2 * 2 + (lane % 16) / 4 * 4 + u % 2;
            if (lane == 1) { y = __float_as_uint(big * (1.f / 127.f)); at = row + WIDE / 4 + g * 2; } if (lane == 2) { y = sm_ * 2; at = row + WIDE / 4 + g * 2 + 1; } if (lane == 3) { y = 0; at = row + WIDE / 4 + WIDE / 16 + g; }
            if (lane < 16 && (lane % 4 == 0 || (lane < 4 && u % 2))) stw(at, y); told(4); }
          for (int u = s.from; u < s.to; u++) { const int g = u / 2; u32 *row = old + R_XD, *at = row + g / 2 * 16 + g % 2 * 2 + (lane % 16) / 4 * 4 + u % 2;
            if (lane == 1) at = row + WIDE / 4 + g * 2; if (lane == 2) at = row + WIDE / 4 + g * 2 + 1; if (lane == 3) at = row + WIDE / 4 + WIDE / 16 + g;
            if (lane < 16 && (lane % 4 == 0 || (lane < 4 && u % 2))) stw(at, BLANK); } }
        bar(1, T + 32);
        if (own.from < own.to) { float v = sum(); if (DEBUG && a.dump && l == 1 && !t) a.dump[10240 + 28672 + own.from * 32 + lane] = v; residual += v; round_unit(xrow(t, l + 1), DIM, own.from, residual * w2, residual * residual, lane); told(0); blank_unit(xrow(t, l + 3), DIM, own.from, lane); }
      }
      bar(1, T + 32);
      { Share s = share<WS>(HEAD, b, n); float best = 0; for (int u = s.from; u < s.to; u++) best = fmaxf(best, sum()); best = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(fmaxf(best, 0.f)))); if (lane == 0) stw(a.best + ((t + 1) & 3) * 256 + b, word(best)); }
    }
    return;
  }
  // ---- multiplication
  const int g = warp / WS, quarter = warp % WS; int st = g, par = 0, buf = 0, bpar = 1; int mine = g, seq = 0, waited = 0; 
  auto advance = [&] { mine += NG; st += NG; if (st >= DEPTH) { st -= DEPTH; par ^= 1; } };
  auto take = [&](const u32 *row, int words, u8 *to, int which, u32 arrivals) {
    if (HINT && WAIT) { if (tid == 0) { sh->goal[which] += arrivals; int c = 0; while ((int)(ldw(a.hint + which * 32) - sh->goal[which] + (EARLY ? arrivals / PART : 0)) < 0) if (++c > 4000000) __trap(); } bar(2, T); }
    constexpr int U = (xwords(WIDE) / 4 + T - 1) / T; uint4 v[U];
#pragma unroll
    for (int j = 0; j < U; j++) if (tid + j * T < words / 4) v[j] = ldw4(row + (tid + j * T) * 4);
    int c = 0;
#pragma unroll
    for (int j = 0; j < U; j++) if (tid + j * T < words / 4) { if (WAIT) while (!there(v[j])) { v[j] = ldw4(row + (tid + j * T) * 4); if (++c > 4000000) __trap(); } ((uint4 *)to)[tid + j * T] = v[j]; }
  };
  auto fetch = [&](Tile &t0, Tile &t1) { // the warp's next slot into registers
    const u8 *slot = ring + st * SLOT; const int c0 = DEBUG ? clock() : 0;
    if (STREAM) mb_wait(sa(sh->full + st), par);
    if (DEBUG) waited += clock() - c0;
    if (COMPUTE) { load(t0, slot + quarter * TILE, lane); load(t1, slot + (WS + quarter) * TILE, lane); }
    __syncwarp(); if (lane == 0 && STREAM) mb_arrive(sh->empty + st);
  };
  auto linear = [&](int kind, const u8 *x, int k, Tile &t0, Tile &t1, bool have) {
    const Share s = share<WS>(kind, b, n);
    for (int u = s.from; u < s.to; u++) {
      float v[4] = {0, 0, 0, 0};
      for (; mine < seq + s.slots; advance()) {
        const int i = mine - seq, col = s.pair ? i * WS + quarter : i * 2 * WS + quarter;
        if (!have) fetch(t0, t1);
        have = false;
        if (COMPUTE) { Column y = column(x, k, col, lane); tile(t0, lane, y, v[0], v[1]);
          if (s.pair) tile(t1, lane, y, v[2], v[3]); else { y = column(x, k, col + WS, lane); tile(t1, lane, y, v[0], v[1]); } }
      }
      seq += s.slots;
      // lane (r, c) keeps the sum of value c: row r + 8 c
      const int c = lane % 4; float keep0 = c & 1 ? v[1] : v[0], send0 = c & 1 ? v[0] : v[1], keep1 = c & 1 ? v[3] : v[2], send1 = c & 1 ? v[2] : v[3];
      keep0 += __shfl_xor_sync(~0u, send0, 1); keep1 += __shfl_xor_sync(~0u, send1, 1);
      const float send = c & 2 ? keep0 : keep1; float keep = c & 2 ? keep1 : keep0; keep += __shfl_xor_sync(~0u, send, 2);
      mb_wait(sa(sh->free + buf), bpar);
      sh->part[buf][warp][lane / 4 + 8 * c] = keep;
      __syncwarp(); if (lane == 0) mb_arrive(sh->sums + buf);
      if (++buf == NB) { buf = 0; bpar ^= 1; }
    }
  };
  auto dump = [&](const u8 *x, int words, int at, int t, int l) { if (DEBUG && a.dump && l == 1 && !t && b == 0) for (int i = tid; i < words; i += T) a.dump[65536 + at + i] = ((const float *)x)[i]; };
  for (int t = 0; t < a.tokens; t++) {
#pragma unroll 1
    for (int f = 0; f <= LAYERS * 4; f++) { // matrix by matrix
      const int l = f >> 2, m = f & 3, kind = l == LAYERS ? HEAD : m == 0 ? QKV : m == 1 ? O : m == 2 ? GU : DOWN, k = kind == DOWN ? WIDE : DIM;
      u32 *r = rows(t, l), *old = rows(t, l + 2); u8 *x = kind == DOWN ? xd : (l + m) & 1 ? x1 : x0;
      waited = 0; mark(t, l, kind, 0); Tile t0, t1; bool have = false;
      if (AHEAD) { const Share s = share<WS>(kind, b, n); if (mine < seq + (s.to - s.from) * s.slots) { fetch(t0, t1); have = true; } }
      take(m == 0 ? xrow(t, l) : r + (m == 1 ? R_XO : m == 2 ? R_XG : R_XD), xwords(k), x, m == 0 ? 0 : m + 1, m == 3 ? 896 : m == 0 && l == 0 ? n : 128);
      bar(1, T + 32); if (CALM && tid == 0) sh->waits = 0; mark(t, l, kind, 1); dump(x, xwords(k), m * 8192, t, l); linear(kind, x, k, t0, t1, have); if (CALM && tid == 0) sh->waits = 1; mark(t, l, kind, 2); if (DEBUG && a.trace && t == a.tokens - 1 && tid == 0) a.trace[((l * KINDS + kind) * 4 + 3) * n + b] = waited;
      if (kind == QKV && ATTEND && it >= 0) {
        const int kvh = it / 16, split = it % 16; mark(t, l, ATT, 0);
        if (HINT && WAIT) { if (tid == 0) { sh->goal[1] += 384; int c = 0; while ((int)(ldw(a.hint + 32) - sh->goal[1] + (EARLY ? 384 / PART : 0)) < 0) if (++c > 4000000) __trap(); } bar(2, T); }
        if (tid < 192) { const u32 *p = r + R_Q + (tid < 128 ? kvh * 512 + tid * 4 : tid < 160 ? 4096 + kvh * 128 + (tid - 128) * 4 : 5120 + kvh * 128 + (tid - 160) * 4);
          uint4 v = ldw4(p); int c = 0; if (WAIT) while (!there(v)) { v = ldw4(p); if (++c > 4000000) __trap(); } ((uint4 *)sh->q)[tid + (tid < 128 ? tid / 32 * 2 : 8)] = v; }
        bar(2, T); mark(t, l, ATT, 1);
        const int ks = seq % DEPTH, vs = (seq + 1) % DEPTH; if (STREAM) { mb_wait(sa(sh->full + ks), (u32)(seq / DEPTH) & 1); mb_wait(sa(sh->full + vs), (u32)((seq + 1) / DEPTH) & 1); }
        const u8 *K = ring + ks * SLOT, *V = ring + vs * SLOT;
        if (tid < 512) { // 128 dots, four threads each
          const int key = tid / 16, h = tid / 4 % 4, part = tid % 4; float s = 0;
#pragma unroll
          for (int i = 0; i < 4; i++) { const int ch = i * 4 + part; uint4 kk = *(const uint4 *)(K + key * 256 + ch * 16); const float4 q0 = *(const float4 *)(sh->q + h * 136 + ch * 8), q1 = *(const float4 *)(sh->q + h * 136 + ch * 8 + 4);
            float2 e0 = __half22float2(*(__half2 *)&kk.x), e1 = __half22float2(*(__half2 *)&kk.y), e2 = __half22float2(*(__half2 *)&kk.z), e3 = __half22float2(*(__half2 *)&kk.w);
            s += e0.x * q0.x + e0.y * q0.y + e1.x * q0.z + e1.y * q0.w + e2.x * q1.x + e2.y * q1.y + e3.x * q1.z + e3.y * q1.w; }
          s += __shfl_xor_sync(~0u, s, 1); s += __shfl_xor_sync(~0u, s, 2); if (part == 0) sh->s[h][key] = s * (0.08838834765f * 1.44269504f); }
        bar(2, T);
        if (tid < 512) { // every warp makes the weights of its head for itself
          const int h = warp / 4; float s = sh->s[h][lane], m = s; for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
          const float p = exp2f(s - m); float sum = p; for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
          if (warp % 4 == 0) sh->p[h][lane] = p;
          bar(3 + h, 128);
          // two dimensions and every second four keys a thread, the others a lane 16 further
          const int pairs = warp % 4 * 16 + lane % 16; float2 acc = {0, 0};
#pragma unroll
          for (int j = 0; j < 4; j++) { const float4 w = *(const float4 *)&sh->p[h][j * 8 + lane / 16 * 4]; const float ws[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
            for (int i = 0; i < 4; i++) { const float2 vv = __half22float2(*(const __half2 *)(V + (j * 8 + lane / 16 * 4 + i) * 256 + pairs * 4)); acc.x += ws[i] * vv.x; acc.y += ws[i] * vv.y; } }
          acc.x += __shfl_xor_sync(~0u, acc.x, 16); acc.y += __shfl_xor_sync(~0u, acc.y, 16);
          const int dim = tid % 128, mine_ = h * 128 + pairs * 2 + lane / 16; const float out = lane < 16 ? acc.x : acc.y;
          stw(r + R_PART + it * 512 + mine_, word(out)); if (dim < 2) stw(r + R_ML + it * 8 + h * 2 + dim, word(dim ? sum : m));
          stw(old + R_PART + it * 512 + tid, BLANK); if (dim < 2) stw(old + R_ML + it * 8 + h * 2 + dim, BLANK);
        }
        (void)split; bar(2, T); mark(t, l, ATT, 2);
        seq += 2; if (mine < seq) { if (lane == 0 && STREAM) mb_arrive(sh->empty + st); advance(); }
      }
    }
  }
}
__global__ void fill(u32 *p, long n, u32 mask, u32 bits) { long i = blockIdx.x * (long)blockDim.x + threadIdx.x; for (; i < n; i += (long)gridDim.x * blockDim.x) { u32 z = (u32)i * 2654435761u; z ^= z >> 15; z *= 0x85ebca6b; z ^= z >> 13; p[i] = (z & mask) | bits; } }
__global__ void fix_scales(u8 *w, long tiles) { for (long t = blockIdx.x; t < tiles; t += gridDim.x) { u32 *d = (u32 *)(w + t * TILE + 2048); d[threadIdx.x] = (d[threadIdx.x] & 0x03ff03ffu) | 0x18001800u; } }
template <int G, int WS, int FLIGHT, int HOW> void variant(const char *name, Args a, long long *trace) {
  constexpr size_t smem = 40 * 2 * TILE + 2 * xwords(DIM) * 4 + xwords(WIDE) * 4 + sizeof(Shared);
  auto fn = token<G, WS, FLIGHT, HOW>; CK(cudaFuncSetAttribute(fn, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem));
  cudaFuncAttributes fa; CK(cudaFuncGetAttributes(&fa, fn));
  cudaStream_t st; CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking)); cudaEvent_t e0, e1; cudaEventCreate(&e0); cudaEventCreate(&e1);
  int sms; cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0); const int n = sms;
  auto run = [&](Args a) { CK(cudaMemsetAsync(a.rows, 0x80, ROWS_END * 4, st)); CK(cudaMemsetAsync(a.best, 0x80, 4096, st)); CK(cudaMemsetAsync(a.hint, 0, 4096, st)); void *args[] = {&a};
    cudaEventRecord(e0, st); CK(cudaLaunchCooperativeKernel(fn, dim3(n), dim3(G * 128 + 64), args, smem, st)); cudaEventRecord(e1, st); cudaError_t e = cudaStreamSynchronize(st); if (e != cudaSuccess) { printf("%s: %s\n", name, cudaGetErrorString(e)); exit(1); }
    float ms; cudaEventElapsedTime(&ms, e0, e1); return ms; };
  std::vector<float> ts; a.trace = 0; float *dump = a.dump; a.dump = 0;
  a.tokens = 16; for (int i = 0; i < 7; i++) ts.push_back(run(a) / 16); std::sort(ts.begin(), ts.end());
  printf("%-26s %2d warps, %2d of %2d KB on their way: %7.1f us/token (min %.1f), %4.0f tokens/s, %d registers, %d bytes spilled\n", name, G * 4, FLIGHT, WS * 2 * TILE / 1024, ts[3] * 1e3, ts[0] * 1e3, 1e3 / ts[3], fa.numRegs, (int)fa.localSizeBytes); fflush(stdout);
  if ((HOW & 263) == 263 && trace) { a.trace = trace; a.tokens = 8; run(a); std::vector<long long> h(33 * KINDS * 4l * n); CK(cudaMemcpy(h.data(), trace, h.size() * 8, cudaMemcpyDeviceToHost));
    const char *names[] = {"qkv", "attention", "o", "gate-up", "down"}; // relative to the last block's end of the phase before
    for (int k = 0; k < 5; k++) { if (k == 1 && (HOW & 16)) continue; double s[3][3] = {}; int cnt = 0;
      for (int l = 2; l < 31; l++, cnt++) { int pk = k == 0 ? DOWN : (k == 2 && (HOW & 16)) ? QKV : k - 1, pl = k == 0 ? l - 1 : l; long long end = 0; for (int b = 0; b < n; b++) end = std::max(end, h[((pl * KINDS + pk) * 4l + 2) * n + b]);
        for (int what = 0; what < 3; what++) { std::vector<double> v; for (int b = 0; b < n; b++) { long long x = h[((l * KINDS + k) * 4l + what) * n + b]; if (x) v.push_back((x - end) * 1e-3); } std::sort(v.begin(), v.end()); s[what][0] += v[0]; s[what][1] += v[v.size() / 2]; s[what][2] += v.back(); } }
      double w = 0; for (int l = 2; l < 31; l++) { std::vector<long long> v; for (int b = 0; b < n; b++) v.push_back(h[((l * KINDS + k) * 4l + 3) * n + b]); std::sort(v.begin(), v.end()); w += v[n / 2] / 29.; }
      printf("    %-10s waits for weights %5.0f clocks; waits from %5.1f %5.1f %5.1f   has X %5.1f %5.1f %5.1f   ends %5.1f %5.1f %5.1f  (us after the last end before: first, median, last block)\n", names[k], w, s[0][0] / cnt, s[0][1] / cnt, s[0][2] / cnt, s[1][0] / cnt, s[1][1] / cnt, s[1][2] / cnt, s[2][0] / cnt, s[2][1] / cnt, s[2][2] / cnt); }
    a.trace = 0; }
  if ((HOW & 263) == 263 && dump) { // one layer against plain arithmetic on the host, with the rows of X that the kernel had
    a.dump = dump; a.tokens = 1; CK(cudaMemset(dump, 0, 98304 * 4)); run(a); std::vector<float> d(98304); CK(cudaMemcpy(d.data(), dump, d.size() * 4, cudaMemcpyDeviceToHost));
    struct { const char *name; long w; int rows, k, at, x; bool pair; } m[] = {{"qkv", W_LAYER, 6144, DIM, 0, 0, false}, {"o", W_LAYER + W_QKV, 4096, DIM, 6144, 8192, true}, {"gate-up", W_LAYER + W_QKV + W_O, 28672, DIM, 10240, 16384, true}, {"down", W_LAYER + W_QKV + W_O + W_GU, 4096, WIDE, 38912, 24576, true}};
    for (auto &p : m) { const int k = p.k, tiles = k / 256; const u8 *x = (const u8 *)&d[65536 + p.x]; double worst = 0, big = 0; std::vector<u8> w;
      double sq = 0; for (int i = 0; i < k / 32; i++) sq += ((const float *)(x + k + k / 4))[i]; const double inv = p.k == DIM && p.at != 6144 ? 1 / sqrt(sq / 4096. + 1e-5) : 1;
      for (int unit = 0; unit < p.rows / 32; unit += unit < 4 ? 1 : 41) { w.resize(2l * tiles * TILE); CK(cudaMemcpy(w.data(), a.w + p.w + (long)unit * 2 * tiles * TILE, w.size(), cudaMemcpyDeviceToHost));
        for (int row = 0; row < 32; row++) { double sum = 0;
          for (int t = 0; t < tiles; t++) { const int rb = row / 16, r = row % 16; const u8 *tl = p.pair ? &w[((t / WS) * 2 * WS + rb * WS + t % WS) * (long)TILE] : &w[(rb * tiles + t) * (long)TILE];
            for (int u = 0; u < 8; u++) { double dot = 0; int all = 0; for (int j = 0; j < 32; j++) { const int c = j % 16 / 4, half = j / 16; const signed char xc = x[t * 256 + u / 2 * 64 + c * 16 + u % 2 * 8 + half * 4 + j % 4];
                const u8 byte = tl[u / 2 * 512 + (r % 8 * 4 + c) * 16 + (r / 8 + 2 * half) * 4 + j % 4]; dot += (u % 2 ? byte >> 4 : byte & 15) * xc; all += xc; }
              float sc; int su; memcpy(&sc, x + k + (t * 8 + u) * 8, 4); memcpy(&su, x + k + (t * 8 + u) * 8 + 4, 4);
              const unsigned short hs = *(const unsigned short *)(tl + 2048 + (r % 8 * 4 + u / 2) * 8 + r / 8 * 4 + u % 2 * 2); __half_raw hr; hr.x = hs;
              dot += u % 2 ? -all / 16. - 127 / 16. * su : all - 9. * su; sum += dot * sc * (double)__half2float(__half(hr)); } }
          sum *= inv; worst = std::max(worst, fabs(sum - d[p.at + unit * 32 + row])); big = std::max(big, fabs(sum)); } }
      printf("    %-8s largest %.4f, largest error %.2e %s\n", p.name, big, worst, worst <= 1e-4 * big && big > 0 ? "right" : "WRONG"); }
    if (!(HOW & 16)) { std::vector<unsigned short> kv(KV_LAYER / 2); CK(cudaMemcpy(kv.data(), a.kv + KV_LAYER, KV_LAYER, cudaMemcpyDeviceToHost)); auto f = [&](long i) { __half_raw h; h.x = kv[i]; return (double)__half2float(__half(h)); };
      double worst = 0, big = 0; for (int head = 0; head < 32; head += 5) { std::vector<double> s(512), o(128); double m = -1e9, tot = 0; for (int key = 0; key < 512; key++) { s[key] = 0; for (int i = 0; i < 128; i++) s[key] += d[head * 128 + i] * f((head / 4 * 16 + key / 32) * 8192l + key % 32 * 128 + i); s[key] *= 0.08838834765; m = std::max(m, s[key]); }
        for (int key = 0; key < 512; key++) { double e = exp(s[key] - m); tot += e; for (int i = 0; i < 128; i++) o[i] += e * f((head / 4 * 16 + key / 32) * 8192l + 4096 + key % 32 * 128 + i); }
        const u8 *x = (const u8 *)&d[65536 + 8192]; for (int i = 0; i < 128; i++) { const int unit = head * 4 + i / 32, j = i % 32; float sc; memcpy(&sc, x + DIM + unit * 8, 4); double got = sc * (signed char)x[unit / 2 * 64 + j % 16 / 4 * 16 + unit % 2 * 8 + j / 16 * 4 + j % 4]; worst = std::max(worst, fabs(got - o[i] / tot)); big = std::max(big, fabs(o[i] / tot)); } }
      printf("    attention largest %.4f, largest error %.2e (rounding to 1/127)\n", big, worst); }
  }
  fflush(stdout);
}
int main(int argc, char **argv) {
  const int which = argc > 1 ? atoi(argv[1]) : 0; const long wb = LAYERS * W_LAYER + W_HEAD; Args a{}; u8 *w, *kv;
  CK(cudaMalloc(&w, wb)); CK(cudaMalloc(&kv, LAYERS * KV_LAYER)); fill<<<1024, 256>>>((u32 *)w, wb / 4, ~0u, 0); fix_scales<<<1024, 64>>>(w, wb / TILE); fill<<<256, 256>>>((u32 *)kv, LAYERS * KV_LAYER / 4, 0x87ff87ffu, 0x30003000u);
  float *norm; CK(cudaMalloc(&norm, 64 * DIM * 4)); fill<<<64, 256>>>((u32 *)norm, 64 * DIM, 0x007fffffu, 0x3f000000u);
  CK(cudaMalloc(&a.rows, ROWS_END * 4)); CK(cudaMalloc(&a.best, 4096)); CK(cudaMalloc(&a.hint, 4096)); long long *trace; CK(cudaMalloc(&trace, 33 * KINDS * 4 * 256 * 8)); CK(cudaMemset(trace, 0, 33 * KINDS * 4 * 256 * 8)); CK(cudaMalloc(&a.dump, 98304 * 4));
  a.w = w; a.kv = kv; a.norm = norm; CK(cudaDeviceSynchronize()); if (which == 0) printf("%.3f GB of weights\n", wb / 1e9);
#define V(I, NAME, G, WS, F, HOW) if (which == I) variant<G, WS, F, HOW>(NAME, a, trace);
V(0, "ahead, 3/4", 4, 2, 4, 111)
V(1, "ahead, 1/2", 4, 2, 4, 623)
V(2, "ahead, 7/8", 4, 2, 4, 1135)
V(3, "ahead, 15/16", 4, 2, 4, 1647)
V(4, "ahead, 7/8", 4, 2, 5, 1135)
V(5, "ahead, 3/4, traced", 4, 2, 4, 367)
}
