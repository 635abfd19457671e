// RMM's memory resources behind C entry points, made as rmm.mr makes them in Python. Built against
// the headers of the installed librmm and good for that version only.
//
// Everything is on the default stream. A deallocation takes the block's size, as RMM's own does.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include <rmm/aligned.hpp>
#include <rmm/cuda_device.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>

namespace {

using Resource = cuda::mr::any_resource<cuda::mr::device_accessible>;

enum Kind { POOL, ARENA, ASYNC };

constexpr int kOutOfMemory = 2; // As cudaErrorMemoryAllocation.
constexpr int kFailed = -1;
constexpr int kInitialPercent = 50; // What rmm.mr takes for a pool where no size is named.
constexpr std::size_t kAlignment = rmm::CUDA_ALLOCATION_ALIGNMENT;

std::optional<rmm::mr::statistics_resource_adaptor> upstream;
std::optional<Resource> current;
std::string message;

cuda::stream_ref stream() { return cuda::stream_ref{cudaStream_t{}}; }

Resource made(int kind)
{
    if (kind == ASYNC) return Resource{rmm::mr::cuda_async_memory_resource{}};
    upstream.emplace(Resource{rmm::mr::cuda_memory_resource{}});
    if (kind == ARENA) return Resource{rmm::mr::arena_memory_resource{Resource{*upstream}}};
    const auto initial = rmm::percent_of_free_device_memory(kInitialPercent);
    return Resource{rmm::mr::pool_memory_resource{Resource{*upstream}, initial}};
}

template <typename Call> int guarded(Call call)
{
    try {
        call();
        return 0;
    } catch (const std::bad_alloc &error) { // RMM's own is one of these.
        message = error.what();
        return kOutOfMemory;
    } catch (const std::exception &error) {
        message = error.what();
        return kFailed;
    }
}

} // namespace

extern "C" {

// What the last call that failed said.
const char *am_rmm_message(void) { return message.c_str(); }

// Gives all memory back to the driver.
void am_rmm_drop(void)
{
    current.reset();
    upstream.reset();
}

// Makes the resource that the other calls use.
int am_rmm_make(int kind)
{
    am_rmm_drop();
    return guarded([kind] { current.emplace(made(kind)); });
}

int am_rmm_alloc(void **block, std::size_t bytes)
{
    return guarded([=] { *block = current->allocate(stream(), bytes, kAlignment); });
}

int am_rmm_free(void *block, std::size_t bytes)
{
    current->deallocate(stream(), block, bytes, kAlignment);
    return 0;
}

// Bytes and blocks that the upstream has now, its most bytes, and its allocations so far.
int am_rmm_counts(std::int64_t *out)
{
    if (!upstream) return kFailed;
    const auto bytes = upstream->get_bytes_counter();
    const auto blocks = upstream->get_allocations_counter();
    out[0] = bytes.value;
    out[1] = blocks.value;
    out[2] = bytes.peak;
    out[3] = blocks.total;
    return 0;
}

// A bare loop over the same resource, to hold the timing loop against: mean nanoseconds of a pair,
// below 0 where it failed.
double am_rmm_bare(std::uint64_t bytes, int pairs)
{
    const auto begin = std::chrono::steady_clock::now();
    const int code = guarded([=] {
        for (int left = pairs; left > 0; --left)
            current->deallocate(stream(), current->allocate(stream(), bytes, kAlignment), bytes,
                                kAlignment);
    });
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return code ? -1 : took.count() / pairs;
}

} // extern "C"
