// A second opinion on the timing loop: the same calls, timed by a program part that shares no code
// with timing.c. It has a clock and a loop of its own, and is compared with the loop in the same
// process, batch by batch.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace {

template <typename Pair> double mean_ns(int pairs, Pair pair)
{
    bool failed = false;
    const auto begin = std::chrono::steady_clock::now();
    for (int left = pairs; left > 0 && !failed; --left) failed = pair() != 0;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return failed ? -1 : took.count() / pairs;
}

} // namespace

// Mean nanoseconds of an alloc-and-free pair over `pairs` of them; negative where a call failed.
// The shapes are those of NativeCalls whose entry points are the library's own.
extern "C" {

double allocmark_pairs_runtime(void *alloc, void *release, std::uint64_t bytes, int pairs)
{
    const auto make = reinterpret_cast<int (*)(void **, std::size_t)>(alloc);
    const auto drop = reinterpret_cast<int (*)(void *)>(release);
    void *memory;
    return mean_ns(pairs, [&] { return make(&memory, bytes) || drop(memory); });
}

double allocmark_pairs_runtime_async(void *alloc, void *release, std::uint64_t bytes, int pairs)
{
    const auto make = reinterpret_cast<int (*)(void **, std::size_t, void *)>(alloc);
    const auto drop = reinterpret_cast<int (*)(void *, void *)>(release);
    void *memory;
    return mean_ns(pairs, [&] { return make(&memory, bytes, nullptr) || drop(memory, nullptr); });
}

double allocmark_pairs_aoti(void *alloc, void *release, std::uint64_t bytes, int pairs)
{
    const auto make = reinterpret_cast<int (*)(std::uint64_t, void **)>(alloc);
    const auto drop = reinterpret_cast<int (*)(void *)>(release);
    void *memory;
    return mean_ns(pairs, [&] { return make(bytes, &memory) || drop(memory); });
}
}
