// A small convolutional network inside a C++ program, with memory that is reserved before it starts.
#include "conv_net.h"
#include <algorithm>
#include <array>
#include <cstdio>
#include <thread>

template <int N> std::array<float, N> numbers(int step, float scale) {
  std::array<float, N> values{};
  for (int i = 0; i < N; i++)
    values[i] = static_cast<float>(i * step % 31 - 15) * scale;
  return values;
}

static const auto images = numbers<2 * 14 * 14>(7, 0.1f);
static const auto kernel1 = numbers<3 * 3 * 8>(5, 0.05f);
static const auto bias1 = numbers<8>(3, 0.02f);
static const auto kernel2 = numbers<3 * 3 * 8 * 12>(11, 0.02f);
static const auto dense = numbers<108 * 10>(13, 0.03f);

struct Worker {
  alignas(CONV_NET_ARENA_ALIGNMENT) std::array<unsigned char, CONV_NET_ARENA_BYTES> arena;
  std::array<float, 2 * 10> scores;

  void operator()() {
    int32_t status = conv_net(images.data(), kernel1.data(), bias1.data(), kernel2.data(),
                              dense.data(), scores.data(), arena.data());
    if (status != 0)
      std::fprintf(stderr, "%s\n", conv_net_message(status));
  }
};

int main() {
  // Calls with arenas of their own may run at once.
  static Worker workers[2];
  std::thread other([] { workers[1](); });
  workers[0]();
  other.join();
  for (int image = 0; image < 2; image++) {
    auto first = workers[0].scores.begin() + 10 * image;
    auto best = std::max_element(first, first + 10);
    std::printf("image %d: class %d, score %.4f\n", image, static_cast<int>(best - first), *best);
  }
  return workers[0].scores == workers[1].scores ? 0 : 1;
}
