// Kernels of the kinds that are generated for models, and of the instructions that
// compilers emit around them. tests/programs.rs knows what each computes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
extern "C" {

__global__ void __launch_bounds__(256) softmax(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float s[8];
  const float* row = x + (size_t)blockIdx.x * n;
  float* out = y + (size_t)blockIdx.x * n;
  float m = -1e30f;
  for (int i = threadIdx.x; i < n; i += 256) m = fmaxf(m, row[i]);
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = m;
  __syncthreads();
  for (int i = 0; i < 8; i++) m = fmaxf(m, s[i]);
  __syncthreads();
  float t = 0;
  for (int i = threadIdx.x; i < n; i += 256) t += expf(row[i] - m);
  for (int o = 16; o; o >>= 1) t += __shfl_xor_sync(0xffffffffu, t, o);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = t;
  __syncthreads();
  t = 0;
  for (int i = 0; i < 8; i++) t += s[i];
  for (int i = threadIdx.x; i < n; i += 256) out[i] = expf(row[i] - m) / t;
}

__global__ void functions(const float* x, float* y, double* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[i] = sinf(v);
  y[n + i] = cosf(v * 1e5f);
  y[2 * n + i] = tanhf(v);
  y[3 * n + i] = erff(v);
  y[4 * n + i] = powf(fabsf(v), 2.5f);
  y[5 * n + i] = logf(fabsf(v) + 0.25f);
  y[6 * n + i] = rsqrtf(fabsf(v) + 0.5f);
  y[7 * n + i] = fmodf(v, 0.7f);
  z[i] = sin((double)v * 1e6);
  z[n + i] = pow(fabs((double)v), 1.3);
  z[2 * n + i] = exp((double)v);
  z[3 * n + i] = log(fabs((double)v) + 0.25);
  z[4 * n + i] = 1.0 / (double)v;
  z[5 * n + i] = sqrt(fabs((double)v));
}

// Integers by every operation that has an instruction of its own.
__global__ void integers(const int* a, const int* b, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int p = a[i], q = b[i];
  unsigned u = p, w = q;
  long long l = (long long)p * 1000003 + q, k = (long long)q << 17 | 5;
  unsigned long long ul = l;
  int r[20] = {
    q ? p / q : 0, q ? p % q : 0, (int)(w ? u / w : 0), (int)(w ? u % w : 0),
    __mulhi(p, q), (int)__umulhi(u, w), __popc(u), __clz(p), (int)__brev(u), __ffs(p),
    (int)__byte_perm(u, w, 0x5140), (int)__funnelshift_l(u, w, p & 31), min(p, q), (int)max(u, w),
    (int)(l / (k | 1)), (int)(ul % (unsigned long long)(k | 1)), (int)(l >> 40), __popcll(ul),
    (int)__mul64hi(l, k), (short)p * (short)q + abs(p - q)};
  for (int j = 0; j < 20; j++) y[j * n + i] = r[j];
}

__global__ void halves(const __nv_bfloat16* x, const __half* h, __half* y, __nv_bfloat16* z, unsigned char* e, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float f = __bfloat162float(x[i]);
  y[i] = __float2half(f);
  y[n + i] = __hadd(h[i], y[i]);
  y[2 * n + i] = __hfma(h[i], y[i], h[i]);
  y[3 * n + i] = __hmul(h[i], h[i]);
  z[i] = __float2bfloat16(f * 1.001f);
  z[n + i] = __hfma(x[i], x[i], x[i]);
  z[2 * n + i] = __hadd(x[i], __float2bfloat16(__half2float(h[i])));
  e[i] = __nv_fp8_e4m3(f).__x;
  e[n + i] = __nv_fp8_e5m2(f).__x;
}

__device__ int seen[4] = {10, 20, 30, 40};
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
__device__ __noinline__ float helper(float a, int b) {
  if (b & 1) return a * 2;
  return a + table[b & 3];
}
// Calls, constants, module variables, a switch, dynamic shared memory.
extern __shared__ float dynamic[];
__global__ void calls(const float* x, float* y) {
  dynamic[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float v = helper(dynamic[blockDim.x - 1 - threadIdx.x], threadIdx.x);
  switch (threadIdx.x % 9) {
    case 0: v += 1; break;
    case 1: v *= 3; break;
    case 2: v -= seen[2]; break;
    case 3: v = -v; break;
    case 4: v = v * v; break;
    case 5: v += seen[threadIdx.x & 3]; break;
    case 6: v /= 3; break;
    default: v = 100;
  }
  y[threadIdx.x] = v;
  __syncthreads();
  if (threadIdx.x == 0) seen[1] += 7;
}

__global__ void collectives(const int* x, int* y) {
  int lane = threadIdx.x % 32, v = x[threadIdx.x];
  unsigned all = 0xffffffffu;
  int r[10] = {
    (int)__ballot_sync(all, v > 10), __any_sync(all, v == 3), __all_sync(all, v >= 0),
    (int)__match_any_sync(all, v % 5), (int)__reduce_add_sync(all, (unsigned)v),
    __reduce_max_sync(all, v), __shfl_up_sync(all, v, 3), __shfl_down_sync(all, v, 5, 8),
    __shfl_sync(all, v, 7, 16), 0};
  if (lane < 12) r[9] = __shfl_xor_sync(0xfff, v, 1, 4);
  for (int j = 0; j < 10; j++) y[j * blockDim.x + threadIdx.x] = r[j];
  int count = __syncthreads_count(v > 10);
  int any = __syncthreads_or(v == 3);
  if (threadIdx.x == 0) y[10 * blockDim.x] = count * 2 + (any != 0);
}

__global__ void atomics(int* c, float* f, double* d, __half2* h, __nv_bfloat162* b, unsigned long long* l) {
  __shared__ int s[4];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 4) s[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(c, 1);
  atomicMax(c + 1, i * 37 % 101);
  atomicMin(c + 2, -i);
  atomicAnd(c + 3, ~(1 << (i & 31)));
  atomicOr(c + 4, 1 << (i & 7));
  atomicXor(c + 5, i);
  atomicInc((unsigned*)c + 6, 10);
  atomicCAS(c + 7, 0, i + 5);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  atomicAdd(h, __floats2half2_rn(1.f, 2.f));
  atomicAdd(b, __floats2bfloat162_rn(1.f, 2.f));
  atomicAdd(l, 1ull << 33);
  atomicAdd(&s[i & 3], i);
  __syncthreads();
  if (threadIdx.x < 4) atomicAdd(c + 8 + threadIdx.x, s[threadIdx.x]);
}

// 64 x 64 of x * y by mma.m16n8k16: four warps, ldmatrix, cp.async.
__global__ void gemm(const __nv_bfloat16* x, const __nv_bfloat16* y, float* z, int k) {
  __shared__ __align__(16) __nv_bfloat16 a[64][40], b[32][72];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float acc[8][4] = {};
  for (int k0 = 0; k0 < k; k0 += 32) {
    for (int c = threadIdx.x; c < 256; c += 128) {
      unsigned to = (unsigned)__cvta_generic_to_shared(&a[c / 4][c % 4 * 8]);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + c / 4 * k + k0 + c % 4 * 8));
      to = (unsigned)__cvta_generic_to_shared(&b[c / 8][c % 8 * 8]);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(y + (k0 + c / 8) * 64 + c % 8 * 8));
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    for (int kk = 0; kk < 32; kk += 16) {
      unsigned f[4];
      unsigned from = (unsigned)__cvta_generic_to_shared(&a[warp * 16 + lane % 16][kk + lane / 16 * 8]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(from));
      for (int n = 0; n < 8; n++) {
        unsigned g[2];
        from = (unsigned)__cvta_generic_to_shared(&b[kk + lane % 16][n * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(g[0]), "=r"(g[1]) : "r"(from));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(acc[n][0]), "+f"(acc[n][1]), "+f"(acc[n][2]), "+f"(acc[n][3])
                     : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]), "r"(g[0]), "r"(g[1]));
      }
    }
    __syncthreads();
  }
  for (int n = 0; n < 8; n++)
    for (int e = 0; e < 4; e++)
      z[(warp * 16 + lane / 4 + e / 2 * 8) * 64 + n * 8 + lane % 4 * 2 + e % 2] = acc[n][e];
}

// One warp: an s8 product m16n8k32 and a tf32 product m16n8k8, fragments loaded by hand.
__global__ void products(const signed char* a, const signed char* b, int* c, const float* p, const float* q, float* r) {
  int g = threadIdx.x / 4, t = threadIdx.x % 4;
  unsigned x[4], y[2];
  for (int j = 0; j < 4; j++) x[j] = *(const unsigned*)(a + (g + 8 * (j % 2)) * 32 + j / 2 * 16 + t * 4);
  for (int j = 0; j < 2; j++) y[j] = *(const unsigned*)(b + g * 32 + j * 16 + t * 4);
  int s[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int e = 0; e < 4; e++) c[(g + e / 2 * 8) * 8 + t * 2 + e % 2] = s[e];
  for (int j = 0; j < 4; j++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[j]) : "f"(p[(g + 8 * (j % 2)) * 8 + j / 2 * 4 + t]));
  for (int j = 0; j < 2; j++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y[j]) : "f"(q[g * 8 + j * 4 + t]));
  float f[4] = {1, 1, 1, 1};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int e = 0; e < 4; e++) r[(g + e / 2 * 8) * 8 + t * 2 + e % 2] = f[e];
}

// Nested loops and branches whose lanes leave at different times.
__global__ void divergence(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = x[i], steps = 0;
  while (v != 1) {
    if (v % 2) {
      for (int j = 0; j < v % 3; j++) steps += j;
      v = 3 * v + 1;
    } else {
      v /= 2;
      if (v == 8) { steps += 1000; break; }
    }
    steps++;
    if (steps > n) return;
  }
  y[i] = steps;
}

// A lock that lanes of one warp take in turns.
__global__ void lock(int* l, int* y) {
  for (bool done = false; !done;) {
    if (atomicCAS(l, 0, 1) == 0) {
      int v = *(volatile int*)y;
      *(volatile int*)y = v * 2 + 1;
      __threadfence();
      atomicExch(l, 0);
      done = true;
    }
  }
}
}
