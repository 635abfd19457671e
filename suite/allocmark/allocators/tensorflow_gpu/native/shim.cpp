// TensorFlow's own GPU allocators behind C entry points: the live one that tensors come from, and
// fresh ones of the same class, made as TensorFlow makes the live one. Built against the headers of
// one TensorFlow and good for that version only: `allocmark_tensorflow_shim` names it.
//
// The loop's entry points serve from the allocator chosen by `am_tf_use`. They never wait: without
// retry_on_failure set to false, a request that fails waits ten seconds for somebody's free.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/gpu/gpu_bfc_allocator.h"
#include "tensorflow/core/common_runtime/gpu/gpu_process_state.h"
#include "xla/stream_executor/integrations/device_mem_allocator.h"
#include "xla/stream_executor/platform_manager.h"
#include "xla/stream_executor/stream_executor.h"
#include "xla/tsl/framework/allocator.h"
#include "xla/tsl/framework/bfc_allocator.h"
#include "xla/tsl/protobuf/bfc_memory_map.pb.h"

namespace {

using tsl::Allocator;
using tsl::BFCAllocator;
using tsl::SubAllocator;

constexpr int kOutOfMemory = 2; // As cudaErrorMemoryAllocation.
constexpr int kBuses = 16;      // More NUMA nodes with GPUs than any host has.

struct Request {
    std::int64_t bytes; // Granted: positive; refused: zero; given back: negative.
    std::int64_t address;
};

// What an allocator asks of the driver and gives back, in order.
struct Border {
    std::vector<Request> log;
    std::map<std::uintptr_t, std::int64_t> regions; // Held now: bytes by address.
    bool sees_returns = false;

    std::vector<SubAllocator::Visitor> asked()
    {
        return {[this](void *memory, int, std::size_t bytes) {
            const auto size = memory ? static_cast<std::int64_t>(bytes) : 0;
            log.push_back({size, reinterpret_cast<std::int64_t>(memory)});
            if (memory) regions[reinterpret_cast<std::uintptr_t>(memory)] = size;
        }};
    }

    std::vector<SubAllocator::Visitor> returned()
    {
        return {[this](void *memory, int, std::size_t bytes) {
            log.push_back({-static_cast<std::int64_t>(bytes), reinterpret_cast<std::int64_t>(memory)});
            regions.erase(reinterpret_cast<std::uintptr_t>(memory));
        }};
    }
};

struct Fresh {
    std::unique_ptr<Border> border;
    std::unique_ptr<tensorflow::GPUBFCAllocator> allocator; // Gone first: it reports its returns.
};

Border live_border;
std::map<Allocator *, Fresh> fresh;
Allocator *current = nullptr;
stream_executor::StreamExecutor *executor_used = nullptr;

Border &border_of(Allocator *allocator)
{
    const auto found = fresh.find(allocator);
    return found == fresh.end() ? live_border : *found->second.border;
}

} // namespace

extern "C" {

// Read from the file before it is loaded: one for another TensorFlow or suite must not be.
extern const char allocmark_tensorflow_shim[];
const char allocmark_tensorflow_shim[] = "allocmark-tensorflow-shim:" AM_TF_VERSION ":" AM_SOURCE ";";

// Notes what the live allocator asks of the driver; to be called before the device is made.
void am_tf_watch(void)
{
    for (int bus = 0; bus < kBuses; bus++)
        for (const auto &visitor : live_border.asked())
            tensorflow::GPUProcessState::singleton()->AddGPUAllocVisitor(bus, visitor);
}

// The allocator of a device that TensorFlow has made on that GPU; null where there is none.
void *am_tf_live(int tf_device, int gpu)
{
    auto *const state = tensorflow::GPUProcessState::singleton();
    if (state->NumGPUAllocators() <= tf_device) return nullptr;
    const auto platform = stream_executor::PlatformManager::PlatformWithName("CUDA");
    if (!platform.ok()) return nullptr;
    const auto executor = (*platform)->ExecutorForDevice(gpu);
    if (!executor.ok()) return nullptr;
    executor_used = *executor;
    return state->GetGPUAllocator(tsl::TfDeviceId(tf_device));
}

// A BFC allocator of its own over the same driver, as TensorFlow makes the live one.
void *am_tf_fresh(int gpu, std::size_t total_bytes, int growth)
{
    namespace se = stream_executor;
    Fresh one;
    one.border = std::make_unique<Border>();
    one.border->sees_returns = true;
    tensorflow::GPUBFCAllocator::Options options;
    options.allow_growth = growth != 0;
    options.allow_retry_on_failure = false;
    one.allocator = std::make_unique<tensorflow::GPUBFCAllocator>(
        std::make_unique<se::DeviceMemAllocator>(executor_used, tsl::PlatformDeviceId(gpu),
                                                 one.border->asked(), one.border->returned()),
        total_bytes, "GPU_" + std::to_string(gpu) + "_bfc", options);
    Allocator *const address = one.allocator.get();
    fresh[address] = std::move(one);
    return address;
}

// Gives a fresh allocator's regions back to the driver.
void am_tf_drop(void *allocator) { fresh.erase(static_cast<Allocator *>(allocator)); }

void am_tf_use(void *allocator) { current = static_cast<Allocator *>(allocator); }

int am_tf_alloc(void **block, std::size_t bytes)
{
    tsl::AllocationAttributes attributes;
    attributes.retry_on_failure = false;
    *block = current->AllocateRaw(Allocator::kAllocatorAlignment, bytes, attributes);
    return *block || bytes == 0 ? 0 : kOutOfMemory;
}

int am_tf_free(void *block)
{
    current->DeallocateRaw(block);
    return 0;
}

// A bare loop over the same allocator, to hold the timing loop against: mean nanoseconds of a pair,
// below 0 where it failed.
double am_tf_bare(std::uint64_t bytes, int pairs)
{
    tsl::AllocationAttributes attributes;
    attributes.retry_on_failure = false;
    const auto begin = std::chrono::steady_clock::now();
    for (int left = pairs; left > 0; --left) {
        void *const block = current->AllocateRaw(Allocator::kAllocatorAlignment, bytes, attributes);
        if (!block) return -1;
        current->DeallocateRaw(block);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return took.count() / pairs;
}

// The bytes that a live block takes, after rounding.
std::int64_t am_tf_size(void *block)
{
    return static_cast<std::int64_t>(current->AllocatedSize(block));
}

void am_tf_name(char *out, std::size_t room)
{
    const std::string name = current->Name();
    out[name.copy(out, room - 1)] = 0;
}

// AllocatorStats and what the border saw, as STATS in shim.py names them; -1: not kept.
int am_tf_stats(std::int64_t *out)
{
    const auto told = current->GetStats();
    if (!told) return -1;
    const Border &border = border_of(current);
    std::int64_t asks = 0, refused = 0, returns = 0, collections = 0;
    bool returning = false;
    for (const Request &request : border.log) {
        asks += request.bytes > 0;
        refused += request.bytes == 0;
        returns += request.bytes < 0;
        collections += request.bytes < 0 && !returning;
        returning = request.bytes < 0;
    }
    // The live allocator's returns are not told: there were none if it still holds all it got.
    std::int64_t held = 0;
    for (const auto &region : border.regions) held += region.second;
    const bool whole = border.sees_returns || held == told->pool_bytes.value_or(-1);
    const std::int64_t values[] = {
        told->num_allocs,
        told->bytes_in_use,
        told->peak_bytes_in_use,
        told->largest_alloc_size,
        told->bytes_limit.value_or(-1),
        told->pool_bytes.value_or(-1),
        told->peak_pool_bytes.value_or(-1),
        told->largest_free_block_bytes,
        asks,
        refused,
        whole ? returns : -1,
        whole ? collections : -1,
        whole ? static_cast<std::int64_t>(border.regions.size()) : -1,
    };
    std::copy(std::begin(values), std::end(values), out);
    return 0;
}

// Waits for all that the GPU was asked; the argument stands where the loop passes a stream.
int am_tf_wait(void *)
{
    return executor_used && executor_used->SynchronizeAllActivity() ? 0 : -1;
}

void am_tf_clear(void) { current->ClearStats(); }

// The border's log: two numbers a request (bytes, address); returns how many requests there are,
// of which `room` are written.
std::int64_t am_tf_border(std::int64_t *out, std::int64_t room)
{
    const auto &log = border_of(current).log;
    const auto count = static_cast<std::int64_t>(log.size());
    for (std::int64_t i = 0; i < std::min(count, room); i++) {
        out[2 * i] = log[i].bytes;
        out[2 * i + 1] = log[i].address;
    }
    return count;
}

// The regions held now by address: pairs of address and bytes; returns how many.
std::int64_t am_tf_regions(std::int64_t *out, std::int64_t room)
{
    const auto &regions = border_of(current).regions;
    std::int64_t written = 0;
    for (const auto &[address, bytes] : regions) {
        if (written == room) break;
        out[2 * written] = static_cast<std::int64_t>(address);
        out[2 * written++ + 1] = bytes;
    }
    return static_cast<std::int64_t>(regions.size());
}

// The chunk map: four numbers a chunk (address, bytes, bytes requested, 1 if in use), by address.
// Returns how many chunks there are, -1 where the allocator is no BFC allocator.
std::int64_t am_tf_chunks(std::int64_t *out, std::int64_t room)
{
    auto *const bfc = dynamic_cast<BFCAllocator *>(current);
    if (!bfc) return -1;
    const tensorflow::MemoryDump map = bfc->RecordMemoryMap();
    std::int64_t written = 0;
    for (const auto &chunk : map.chunk()) {
        if (written == room) break;
        std::int64_t *const row = out + 4 * written++;
        row[0] = static_cast<std::int64_t>(chunk.address());
        row[1] = chunk.size();
        row[2] = chunk.requested_size();
        row[3] = chunk.in_use();
    }
    return map.chunk_size();
}

} // extern "C"
