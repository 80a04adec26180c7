/* An attention block without a C library: no heap, no start-up code, an arena in static memory. What a
 * compiled program asks for are four functions on bytes, which are here. */
#include "attention.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
  if (to <= from) return memcpy(to, from, bytes);
  for (size_t i = bytes; i-- > 0;) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}

void *memset(void *to, int byte, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = (char)byte;
  return to;
}

int memcmp(const void *a, const void *b, size_t bytes) {
  const unsigned char *x = a, *y = b;
  for (size_t i = 0; i < bytes; i++)
    if (x[i] != y[i]) return x[i] - y[i];
  return 0;
}

#define WORDS (32 * 2 * 16)
static float q[WORDS], k[WORDS], v[WORDS], out[WORDS];
static _Alignas(ATTENTION_ARENA_ALIGNMENT) unsigned char arena[ATTENTION_ARENA_BYTES];

static int run(void) {
  for (int i = 0; i < WORDS; i++) {
    q[i] = (float)(i % 13) / 8 - 0.5f;
    k[i] = (float)(i % 17) / 8 - 1.0f;
    v[i] = 0.25f;
  }
  if (attention(q, k, v, out, arena) != 0) return 1;
  /* Weights of an attention sum to 1. */
  for (int i = 0; i < WORDS; i++)
    if (out[i] < 0.2499f || out[i] > 0.2501f) return 2;
  return 0;
}

/* Where Linux begins a program that has no start-up code: it ends by a system call. */
__attribute__((force_align_arg_pointer)) void _start(void) {
  __asm__ volatile("syscall" : : "a"(60L), "D"((long)run()) : "rcx", "r11", "memory");
  __builtin_unreachable();
}
