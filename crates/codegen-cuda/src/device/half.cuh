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

// An unsigned number that is ordered as IEEE's total order orders the float.
__device__ unsigned int tegula_f16_order(unsigned short x) {
    unsigned int bits = (x & 0x7fff) > 0x7c00 ? x | 0x200 : x;
    return bits & 0x8000 ? ~bits & 0xffff : bits | 0x8000;
}
