// A place in shared memory as instructions of that memory name it.
__device__ __forceinline__ unsigned int tegula_shared(const void *place) {
    unsigned long long address;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(place));
    return (unsigned int)address;
}

// Copies 16 bytes to shared memory, or zeros if `bytes` is 0, without waiting for them.
__device__ __forceinline__ void tegula_copy_ahead(void *to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(tegula_shared(to)), "l"(from), "r"(bytes) : "memory");
}

// Waits for what the thread has copied ahead.
__device__ __forceinline__ void tegula_copies_done() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Four matrices of 8 x 8 elements of 16 bits; each lane names a row of one.
__device__ __forceinline__ void tegula_matrices(unsigned int (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(tegula_shared(row)) : "memory");
}

// The same, each of them transposed.
__device__ __forceinline__ void tegula_matrices_transposed(unsigned int (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(tegula_shared(row)) : "memory");
}

// Adds the product of matrices of 16 x 16 and 16 x 8 elements to one of 16 x 8.
__device__ __forceinline__ void tegula_multiply_bf16(float (&sum)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same for elements of the other 16-bit type.
__device__ __forceinline__ void tegula_multiply_f16(float (&sum)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two floats rounded to 16 bits each, the first in the lower half.
__device__ __forceinline__ unsigned int tegula_pair_bf16(float low, float high) {
    unsigned int result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

__device__ __forceinline__ unsigned int tegula_pair_f16(float low, float high) {
    unsigned int result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

// A power of two, up to 2 units in the last place off (PTX, "ex2"); 0 for what is subnormal.
__device__ __forceinline__ float tegula_power_of_two(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// Two products side by side leave a lane two pairs of neighbours of 16 bits; this gives
// each lane of a quarter of a warp four neighbours.
__device__ __forceinline__ tegula_vector<unsigned int, 2> tegula_neighbours(unsigned int first, unsigned int second) {
    const int lane = threadIdx.x % 32, from = lane / 4 * 4 + lane % 2 * 2;
    tegula_vector<unsigned int, 2> four;
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
        const unsigned int left = __shfl_sync(0xffffffffu, first, from + e);
        const unsigned int right = __shfl_sync(0xffffffffu, second, from + e);
        four.at[e] = lane % 4 < 2 ? left : right;
    }
    return four;
}
