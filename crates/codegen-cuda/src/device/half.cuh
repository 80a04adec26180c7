__device__ float tegula_f16_to_f32(unsigned short x) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x));
    return result;
}

__device__ unsigned short tegula_f32_to_f16(float x) {
    unsigned short result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
    return result;
}

__device__ unsigned short tegula_f32_to_bf16(float x) {
    unsigned short result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(x));
    return result;
}
