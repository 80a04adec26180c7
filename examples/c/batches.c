/* An attention block with an open batch, as one object for every batch size. */
#include "symbolic_attention.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (6 * 8) /* of one sequence */
#define MOST 7

static float q[MOST * WORDS], k[MOST * WORDS], v[MOST * WORDS];
static float together[MOST * WORDS], alone[WORDS];

/* Runs a batch with an arena of its own. */
static void run(int64_t batch, int64_t first, float *out) {
  size_t bytes = (size_t)symbolic_attention_arena_bytes(&batch);
  size_t alignment = SYMBOLIC_ATTENTION_ARENA_ALIGNMENT;
  void *arena = aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  int32_t status = symbolic_attention(batch, q + first * WORDS, k + first * WORDS,
                                      v + first * WORDS, out, arena);
  free(arena);
  if (status != 0) {
    fprintf(stderr, "%s\n", symbolic_attention_message(status));
    exit(1);
  }
}

int main(void) {
  for (int i = 0; i < MOST * WORDS; i++) {
    q[i] = (float)(i % 13) / 8 - 0.5f;
    k[i] = (float)(i % 17) / 8 - 1.0f;
    v[i] = (float)(i % 29);
  }
  for (int64_t batch = 1; batch <= MOST; batch += 3) {
    run(batch, 0, together);
    for (int64_t i = 0; i < batch; i++) {
      run(1, i, alone);
      for (int j = 0; j < WORDS; j++) {
        float difference = alone[j] - together[i * WORDS + j];
        if (difference > 1e-4f || difference < -1e-4f) {
          fprintf(stderr, "batch %d, sequence %d differs\n", (int)batch, (int)i);
          return 1;
        }
      }
    }
    printf("attention, batch %d: the same as one by one, first %.4f\n", (int)batch, together[0]);
  }
  run(0, 0, together);
  /* A size that cannot be is a status, not a crash. */
  int32_t status = symbolic_attention(-1, q, k, v, together, NULL);
  printf("batch -1: %s\n", symbolic_attention_message(status));
  return strlen(symbolic_attention_message(status)) == 0;
}
