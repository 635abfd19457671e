/* Runtime API: memory, copies, stream-ordered allocation. */
#define _GNU_SOURCE
#include "runtime.h"
#include "times.h"

API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    GATE_DEVICE(dev);
    return rt_result(emu_memory_info(dev, free_bytes, total_bytes));
}
API cudaError_t cudaMalloc(void **out, size_t size) {
    GATE_DEVICE(dev);
    *out = NULL;
    if (!size) return 0;
    int error = emu_alloc(dev, size, out);
    if (!error) emu_spend(EMU_TIME_MALLOC, size);
    return rt_result(error);
}
API cudaError_t cudaFree(void *pointer) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    emu_spend_free(pointer);
    return rt_result(emu_free(pointer, EMU_KIND_DEVICE));
}
API cudaError_t cudaHostAlloc(void **out, size_t size, unsigned flags) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(flags);
    return rt_result(emu_alloc_host(size, out));
}
API cudaError_t cudaMallocHost(void **out, size_t size) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    return rt_result(emu_alloc_host(size, out));
}
API cudaError_t cudaFreeHost(void *pointer) {
    GATE;
    return rt_result(emu_free(pointer, EMU_KIND_HOST));
}
API cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags) {
    GATE;
    UNUSED(pointer), UNUSED(size), UNUSED(flags);
    return 0;
}
API cudaError_t cudaHostUnregister(void *pointer) {
    GATE;
    UNUSED(pointer);
    return 0;
}
API cudaError_t cudaHostGetDevicePointer(void **out, void *pointer, unsigned flags) {
    GATE;
    UNUSED(flags);
    *out = pointer;
    return 0;
}

/* CUDA 13 appends reserved words, which callers leave alone. */
struct cudaPointerAttributes {
    int type, device;
    void *devicePointer, *hostPointer;
};
enum { UNREGISTERED, HOST, DEVICE };
API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer) {
    GATE;
    struct emu_range range;
    if (!emu_find(pointer, &range)) {
        *out = (struct cudaPointerAttributes){UNREGISTERED, -2, NULL, (void *)pointer};
        return 0;
    }
    int host = range.kind == EMU_KIND_HOST;
    *out = (struct cudaPointerAttributes){host ? HOST : DEVICE, range.dev, (void *)pointer,
                                          host ? (void *)pointer : NULL};
    return 0;
}

static cudaError_t copy(void *to, const void *from, size_t size, cudaStream_t stream) {
    int error = emu_stream_copy(stream);
    return rt_result(error ? error : emu_copy(to, from, size));
}
API cudaError_t cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(kind);
    return copy(to, from, size, NULL);
}
API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, cudaStream_t stream) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(kind);
    return copy(to, from, size, stream);
}
API cudaError_t cudaMemcpyPeerAsync(void *to, int to_dev, const void *from, int from_dev, size_t size,
                                    cudaStream_t stream) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(to_dev), UNUSED(from_dev);
    return copy(to, from, size, stream);
}
API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                  size_t width, size_t height, int kind, cudaStream_t stream) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(kind);
    int error = emu_stream_copy(stream);
    for (size_t row = 0; row < height && !error; row++)
        error = emu_copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    return rt_result(error);
}
API cudaError_t cudaMemset(void *to, int value, size_t size) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(to), UNUSED(value), UNUSED(size);
    return rt_result(emu_stream_work(NULL));
}
API cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(to), UNUSED(value), UNUSED(size);
    return rt_result(emu_stream_work(stream));
}
API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset,
                                   int kind) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(symbol), UNUSED(from), UNUSED(size), UNUSED(offset), UNUSED(kind);
    return rt_result(emu_stream_work(NULL));
}
API cudaError_t cudaGetSymbolAddress(void **out, const void *symbol) {
    GATE;
    *out = (void *)symbol;
    return 0;
}

API cudaError_t cudaDeviceGetDefaultMemPool(struct emu_pool **out, int dev) {
    GATE;
    if (dev < 0 || dev >= emu_device_count()) return rt_fail(EMU_INVALID_DEVICE);
    *out = emu_default_pool(dev);
    return 0;
}
API cudaError_t cudaDeviceGetMemPool(struct emu_pool **out, int dev) {
    GATE;
    if (dev < 0 || dev >= emu_device_count()) return rt_fail(EMU_INVALID_DEVICE);
    *out = emu_current_pool(dev);
    return 0;
}
API cudaError_t cudaDeviceSetMemPool(int dev, struct emu_pool *pool) {
    GATE;
    if (dev < 0 || dev >= emu_device_count()) return rt_fail(EMU_INVALID_DEVICE);
    emu_set_current_pool(dev, pool);
    return 0;
}
/* The head of cudaMemPoolProps: allocation type, handle types, location. */
struct pool_properties {
    int type, handle_types, location_type, location_id;
};
API cudaError_t cudaMemPoolCreate(struct emu_pool **out, const struct pool_properties *wish) {
    GATE;
    if (wish->location_type != 1) return rt_fail(EMU_NOT_SUPPORTED);
    if (wish->location_id < 0 || wish->location_id >= emu_device_count())
        return rt_fail(EMU_INVALID_DEVICE);
    *out = emu_pool_new(wish->location_id);
    return 0;
}
API cudaError_t cudaMemPoolDestroy(struct emu_pool *pool) {
    GATE;
    return rt_result(emu_pool_destroy(pool));
}
static cudaError_t take(struct emu_pool *pool, void **out, size_t size, cudaStream_t stream) {
    *out = NULL;
    return size ? rt_result(emu_pool_alloc_timed(pool, size, stream, out)) : 0;
}
API cudaError_t cudaMallocAsync(void **out, size_t size, cudaStream_t stream) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    return take(emu_current_pool(emu_stream_of(stream)->dev), out, size, stream);
}
API cudaError_t cudaMallocFromPoolAsync(void **out, size_t size, struct emu_pool *pool,
                                        cudaStream_t stream) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    return take(pool, out, size, stream);
}
API cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    return rt_result(emu_pool_free(pointer, stream));
}
API cudaError_t cudaMemPoolTrimTo(struct emu_pool *pool, size_t keep) {
    GATE;
    return rt_result(emu_pool_trim(pool, keep));
}
API cudaError_t cudaMemPoolSetAccess(struct emu_pool *pool, const void *access, size_t count) {
    GATE;
    UNUSED(pool), UNUSED(access), UNUSED(count);
    return 0;
}
API cudaError_t cudaMemPoolGetAttribute(struct emu_pool *pool, int attribute, void *value) {
    GATE;
    return rt_result(emu_pool_get(pool, attribute, value));
}
API cudaError_t cudaMemPoolSetAttribute(struct emu_pool *pool, int attribute, void *value) {
    GATE;
    return rt_result(emu_pool_set(pool, attribute, value));
}
API cudaError_t cudaDeviceGetGraphMemAttribute(int dev, int attribute, void *value) {
    GATE;
    UNUSED(dev), UNUSED(attribute);
    *(uint64_t *)value = 0;
    return 0;
}
API cudaError_t cudaDeviceSetGraphMemAttribute(int dev, int attribute, void *value) {
    GATE;
    UNUSED(dev), UNUSED(attribute), UNUSED(value);
    return 0;
}
