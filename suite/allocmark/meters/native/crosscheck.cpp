// A second opinion on the timing loop: the same question, asked by a program part that shares no
// code with timing.c. It finds torch's entry points by itself, has a clock and a loop of its own,
// and is compared with the loop in the same process, batch by batch.

#include <chrono>
#include <cstdint>
#include <dlfcn.h>

namespace {

using Allocate = std::int32_t (*)(std::uint64_t, void **);
using Release = std::int32_t (*)(void *);

Allocate allocate = nullptr;
Release release = nullptr;

template <typename Function> Function find(void *library, const char *name)
{
    return reinterpret_cast<Function>(dlsym(library, name));
}

} // namespace

// Finds the entry points in a library that is already loaded; false where there are none.
extern "C" bool allocmark_crosscheck_open(const char *library_path)
{
    void *library = dlopen(library_path, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return false;
    allocate = find<Allocate>(library, "aoti_torch_cuda_caching_allocator_raw_alloc");
    release = find<Release>(library, "aoti_torch_cuda_caching_allocator_raw_delete");
    return allocate != nullptr && release != nullptr;
}

// Mean nanoseconds of an alloc-and-free pair over `pairs` of them; negative where a call failed.
extern "C" double allocmark_crosscheck(std::uint64_t bytes, int pairs)
{
    bool failed = false;
    const auto begin = std::chrono::steady_clock::now();
    for (int left = pairs; left > 0 && !failed; --left) {
        void *memory;
        failed = allocate(bytes, &memory) != 0 || release(memory) != 0;
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return failed ? -1 : took.count() / pairs;
}
