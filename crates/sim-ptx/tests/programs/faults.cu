// Kernels with one fault each, and a twin without it.
#define N 256
extern "C" {

__global__ void missing_barrier(const float* x, float* y) {
  __shared__ float s[N];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[N - 1 - threadIdx.x];
}
__global__ void missing_barrier_twin(const float* x, float* y) {
  __shared__ float s[N];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[N - 1 - threadIdx.x];
}

// The second use of the array overwrites what slower warps still read.
__global__ void missing_second_barrier(const float* x, float* y) {
  __shared__ float s[N];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float a = s[(threadIdx.x + 32) % N];
  s[threadIdx.x] = 2 * a;
  __syncthreads();
  y[threadIdx.x] = s[(threadIdx.x + 64) % N];
}
__global__ void missing_second_barrier_twin(const float* x, float* y) {
  __shared__ float s[N];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float a = s[(threadIdx.x + 32) % N];
  __syncthreads();
  s[threadIdx.x] = 2 * a;
  __syncthreads();
  y[threadIdx.x] = s[(threadIdx.x + 64) % N];
}

// Warp-synchronous code needs __syncwarp().
__global__ void missing_syncwarp(const float* x, float* y) {
  __shared__ float s[32];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}
__global__ void missing_syncwarp_twin(const float* x, float* y) {
  __shared__ float s[32];
  s[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}

__global__ void shuffle_mask(const float* x, float* y) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 16) {
    for (int o = 8; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    y[threadIdx.x] = v;
  }
}
__global__ void shuffle_mask_twin(const float* x, float* y) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 16) {
    for (int o = 8; o; o >>= 1) v += __shfl_xor_sync(0xffffu, v, o);
    y[threadIdx.x] = v;
  }
}

__global__ void off_by_one(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = 2 * x[i];
}
__global__ void off_by_one_twin(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

__global__ void transpose(const float* x, float* y) {
  __shared__ float s[32][32];
  for (int i = threadIdx.y; i < 32; i += 8) s[i][threadIdx.x] = x[i * 32 + threadIdx.x];
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8) y[i * 32 + threadIdx.x] = s[threadIdx.x][i];
}
__global__ void transpose_twin(const float* x, float* y) {
  __shared__ float s[32][33];
  for (int i = threadIdx.y; i < 32; i += 8) s[i][threadIdx.x] = x[i * 32 + threadIdx.x];
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8) y[i * 32 + threadIdx.x] = s[threadIdx.x][i];
}

__global__ void half_sectors(const float* x, float* y) {
  y[threadIdx.x] = x[2 * threadIdx.x];
}
__global__ void half_sectors_twin(const float2* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x].x + x[threadIdx.x].y;
}

__global__ void uninitialised_shared(const float* x, float* y) {
  __shared__ float s[N];
  if (threadIdx.x != 77) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[(threadIdx.x + 1) % N];
}
__global__ void uninitialised_shared_twin(const float* x, float* y) {
  __shared__ float s[N];
  s[threadIdx.x] = threadIdx.x != 77 ? x[threadIdx.x] : 0;
  __syncthreads();
  y[threadIdx.x] = s[(threadIdx.x + 1) % N];
}

__global__ void divergent_barrier(float* y) {
  __shared__ float s[N];
  if (threadIdx.x % 2) {
    s[threadIdx.x] = 1;
    __syncthreads();
  } else {
    s[threadIdx.x] = 2;
  }
  y[threadIdx.x] = s[threadIdx.x];
}
__global__ void divergent_barrier_twin(float* y) {
  __shared__ float s[N];
  if (threadIdx.x % 2) {
    s[threadIdx.x] = 1;
  } else {
    s[threadIdx.x] = 2;
  }
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}

__global__ void exited_warps(const float* x, float* y, int n) {
  __shared__ float s[N];
  if (threadIdx.x >= n) return;
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[n - 1 - threadIdx.x];
}
__global__ void exited_warps_twin(const float* x, float* y, int n) {
  __shared__ float s[N];
  if (threadIdx.x < n) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) y[threadIdx.x] = s[n - 1 - threadIdx.x];
}

// Half of the block waits at barrier 1 for all threads, the other half at barrier 2.
__global__ void deadlock(float* y) {
  if (threadIdx.x < 128) asm volatile("barrier.sync 1, 256;");
  else asm volatile("barrier.sync 2, 256;");
  y[threadIdx.x] = 1;
}
__global__ void deadlock_twin(float* y) {
  if (threadIdx.x < 128) asm volatile("barrier.sync 1, 128;");
  else asm volatile("barrier.sync 2, 128;");
  y[threadIdx.x] = 1;
}

__global__ void misaligned(const float* x, float* y) {
  const float4* p = (const float4*)(x + 1);
  float4 v = p[threadIdx.x];
  y[threadIdx.x] = v.x + v.y + v.z + v.w;
}
__global__ void misaligned_twin(const float* x, float* y) {
  const float4* p = (const float4*)(x + 4);
  float4 v = p[threadIdx.x];
  y[threadIdx.x] = v.x + v.y + v.z + v.w;
}

// All blocks add to one place.
__global__ void block_race(const float* x, float* y) {
  if (threadIdx.x == 0) y[0] += x[blockIdx.x];
}
__global__ void block_race_twin(const float* x, float* y) {
  if (threadIdx.x == 0) atomicAdd(y, x[blockIdx.x]);
}

// The last block adds up what the others left, after a fence and a count.
__global__ void last_block(const float* x, float* part, float* y, unsigned* count) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = 2 * x[blockIdx.x];
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += ((volatile float*)part)[i];
    *y = sum;
  }
}
__global__ void last_block_twin(const float* x, float* part, float* y, unsigned* count) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = 2 * x[blockIdx.x];
    __threadfence();
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += ((volatile float*)part)[i];
    *y = sum;
  }
}

// A histogram in shared memory that is read before all atomics are done.
__global__ void histogram(const int* x, int* y) {
  __shared__ int s[32];
  if (threadIdx.x < 32) s[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&s[x[threadIdx.x] & 31], 1);
  if (threadIdx.x < 32) y[threadIdx.x] = s[threadIdx.x];
}
__global__ void histogram_twin(const int* x, int* y) {
  __shared__ int s[32];
  if (threadIdx.x < 32) s[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&s[x[threadIdx.x] & 31], 1);
  __syncthreads();
  if (threadIdx.x < 32) y[threadIdx.x] = s[threadIdx.x];
}

// cp.async without waiting for it.
__global__ void pending_copy(const float* x, float* y) {
  __shared__ float s[N];
  unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + threadIdx.x) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  __syncthreads();
  y[threadIdx.x] = s[N - 1 - threadIdx.x];
}
__global__ void pending_copy_twin(const float* x, float* y) {
  __shared__ float s[N];
  unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + threadIdx.x) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  y[threadIdx.x] = s[N - 1 - threadIdx.x];
}

__global__ void assertion(const float* x, float* y, int n) {
  if (n > 3) __trap();
  y[threadIdx.x] = x[threadIdx.x];
}
__global__ void assertion_twin(const float* x, float* y, int n) {
  if (n < 3) __trap();
  y[threadIdx.x] = x[threadIdx.x];
}
}

extern "C" {
// Elements of two bytes: words are shared by neighbours.
__global__ void narrow(const short* x, short* y) {
  __shared__ short s[N];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[N - 1 - threadIdx.x];
}
__global__ void narrow_twin(const short* x, short* y) {
  __shared__ short s[N];
  s[threadIdx.x] = x[threadIdx.x];
  s[threadIdx.x] += 1;
  __syncthreads();
  short v = s[N - 1 - threadIdx.x];
  __syncthreads();
  s[threadIdx.x] = v;
  y[threadIdx.x] = s[threadIdx.x];
}
// The lower halves of the words only.
__global__ void lower_halves(const short* x, short* y) {
  __shared__ short s[2 * N];
  s[2 * threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[2 * (N - 1 - threadIdx.x)];
}
__global__ void lower_halves_twin(const short* x, short* y) {
  __shared__ short s[2 * N];
  s[2 * threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[2 * (N - 1 - threadIdx.x)];
}
// A pipeline of two halves of the block, by barriers that one half arrives at.
__global__ void pipeline(const float* x, float* y) {
  __shared__ float s[128];
  if (threadIdx.x < 128) {
    s[threadIdx.x] = x[threadIdx.x];
    asm volatile("barrier.arrive 1, 256;" ::: "memory");
  } else {
    asm volatile("barrier.sync 2, 128;" ::: "memory");
    y[threadIdx.x] = s[threadIdx.x - 128];
    asm volatile("barrier.sync 1, 256;" ::: "memory");
  }
}
__global__ void pipeline_twin(const float* x, float* y) {
  __shared__ float s[128];
  if (threadIdx.x < 128) {
    s[threadIdx.x] = x[threadIdx.x];
    asm volatile("barrier.arrive 1, 256;" ::: "memory");
  } else {
    asm volatile("barrier.sync 1, 256;" ::: "memory");
    y[threadIdx.x] = s[threadIdx.x - 128];
  }
}
// Reads memory that the host never wrote.
__global__ void unwritten(const float* x, float* y) {
  float* scratch = y + N;
  y[threadIdx.x] = x[threadIdx.x] + scratch[threadIdx.x + N];
}
__global__ void unwritten_twin(const float* x, float* y) {
  float* scratch = y + N;
  y[threadIdx.x] = x[threadIdx.x] + scratch[threadIdx.x];
}
}
