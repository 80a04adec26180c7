/* A network without a C library: no heap, no start-up code, an arena in static memory. What a
 * compiled program asks for are four functions on bytes, which are here. */
#include "conv_net.h"

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

static float images[2 * 14 * 14], kernel1[3 * 3 * 8], bias1[8], kernel2[3 * 3 * 8 * 12], dense[108 * 10];
static float scores[2 * 10];
static _Alignas(CONV_NET_ARENA_ALIGNMENT) unsigned char arena[CONV_NET_ARENA_BYTES];

static void fill(float *values, int count, int step, float scale) {
  for (int i = 0; i < count; i++) values[i] = (float)(i * step % 31 - 15) * scale;
}

static int run(void) {
  fill(images, 2 * 14 * 14, 7, 0.1f);
  fill(kernel1, 3 * 3 * 8, 5, 0.05f);
  fill(bias1, 8, 3, 0.02f);
  fill(kernel2, 3 * 3 * 8 * 12, 11, 0.02f);
  fill(dense, 108 * 10, 13, 0.03f);
  if (conv_net(images, kernel1, bias1, kernel2, dense, scores, arena) != 0) return 1;
  for (int i = 0; i < 20; i++)
    if (!(scores[i] > -1e3f && scores[i] < 1e3f)) return 2;
  return scores[0] == scores[1] ? 3 : 0;
}

/* Where Linux begins a program that has no start-up code: it ends by a system call. */
__attribute__((force_align_arg_pointer)) void _start(void) {
  __asm__ volatile("syscall" : : "a"(60L), "D"((long)run()) : "rcx", "r11", "memory");
  __builtin_unreachable();
}
