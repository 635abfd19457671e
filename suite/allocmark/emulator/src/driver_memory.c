/* Driver API: plain memory, host memory, copies, pools. */
#define _GNU_SOURCE
#include "driver.h"
#include "times.h"
#include <string.h>

#define CURRENT(dev)                     \
    int dev = emu_current_context();     \
    if (dev < 0) return EMU_INVALID_CONTEXT

API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    GATE;
    CURRENT(dev);
    return emu_memory_info(dev, free_bytes, total_bytes);
}
ALSO(cuMemGetInfo_v2, cuMemGetInfo);
API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size) {
    GATE;
    CURRENT(dev);
    if (!size) return EMU_INVALID_VALUE;
    void *pointer;
    int error = emu_alloc(dev, size, &pointer);
    if (error) return error;
    emu_spend(EMU_TIME_MALLOC, size);
    *out = (CUdeviceptr)pointer;
    return EMU_OK;
}
ALSO(cuMemAlloc_v2, cuMemAlloc);
API CUresult cuMemFree_v2(CUdeviceptr pointer) {
    GATE;
    emu_spend_free((void *)pointer);
    return emu_free((void *)pointer, EMU_KIND_DEVICE);
}
ALSO(cuMemFree_v2, cuMemFree);
API CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags) {
    GATE;
    UNUSED(flags);
    return emu_alloc_host(size, out);
}
API CUresult cuMemAllocHost_v2(void **out, size_t size) {
    GATE;
    return emu_alloc_host(size, out);
}
ALSO(cuMemAllocHost_v2, cuMemAllocHost);
API CUresult cuMemFreeHost(void *pointer) {
    GATE;
    return emu_free(pointer, EMU_KIND_HOST);
}
API CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags) {
    GATE;
    UNUSED(pointer), UNUSED(size), UNUSED(flags);
    return EMU_OK;
}
ALSO(cuMemHostRegister_v2, cuMemHostRegister);
API CUresult cuMemHostUnregister(void *pointer) {
    GATE;
    UNUSED(pointer);
    return EMU_OK;
}
API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *pointer, unsigned flags) {
    GATE;
    UNUSED(flags);
    *out = (CUdeviceptr)pointer;
    return EMU_OK;
}
ALSO(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer);
API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer) {
    GATE;
    struct emu_range range;
    if (!emu_find((void *)pointer, &range)) return EMU_NOT_FOUND;
    if (base) *base = range.base;
    if (size) *size = range.size;
    return EMU_OK;
}
ALSO(cuMemGetAddressRange_v2, cuMemGetAddressRange);
API CUresult cuPointerGetAttribute(void *out, int attribute, CUdeviceptr pointer) {
    GATE;
    enum { CONTEXT = 1, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER, IS_MANAGED = 8, ORDINAL };
    struct emu_range range;
    if (!emu_find((void *)pointer, &range)) return EMU_INVALID_VALUE;
    int host = range.kind == EMU_KIND_HOST;
    switch (attribute) {
    case CONTEXT: *(void **)out = NULL; return EMU_OK;
    case MEMORY_TYPE: *(int *)out = host ? 1 : 2; return EMU_OK;
    case DEVICE_POINTER: *(CUdeviceptr *)out = pointer; return EMU_OK;
    case HOST_POINTER:
        *(CUdeviceptr *)out = host ? pointer : 0;
        return host ? EMU_OK : EMU_INVALID_VALUE;
    case IS_MANAGED: *(unsigned *)out = 0; return EMU_OK;
    case ORDINAL: *(int *)out = range.dev; return EMU_OK;
    default: return EMU_NOT_SUPPORTED;
    }
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t size, void *stream) {
    int error = emu_stream_copy(stream);
    return error ? error : emu_copy((void *)to, (void *)from, size);
}
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
    GATE;
    return copy(to, from, size, NULL);
}
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, void *stream) {
    GATE;
    return copy(to, from, size, stream);
}
API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
    GATE;
    return copy(to, (CUdeviceptr)from, size, NULL);
}
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, void *stream) {
    GATE;
    return copy(to, (CUdeviceptr)from, size, stream);
}
API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
    GATE;
    return copy((CUdeviceptr)to, from, size, NULL);
}
API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, void *stream) {
    GATE;
    return copy((CUdeviceptr)to, from, size, stream);
}
API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) {
    GATE;
    return copy(to, from, size, NULL);
}
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, void *stream) {
    GATE;
    return copy(to, from, size, stream);
}
API CUresult cuMemcpyPeer(CUdeviceptr to, void *to_context, CUdeviceptr from, void *from_context,
                          size_t size) {
    GATE;
    UNUSED(to_context), UNUSED(from_context);
    return copy(to, from, size, NULL);
}
#define MEMSET(name, type)                                                        \
    API CUresult name##_v2(CUdeviceptr to, type value, size_t count) {            \
        GATE;                                                                    \
        UNUSED(to), UNUSED(value), UNUSED(count);                                 \
        return emu_stream_work(NULL);                                             \
    }                                                                             \
    API CUresult name##Async(CUdeviceptr to, type value, size_t count, void *s) { \
        GATE;                                                                    \
        UNUSED(to), UNUSED(value), UNUSED(count);                                 \
        return emu_stream_work(s);                                                \
    }
MEMSET(cuMemsetD8, unsigned char)
MEMSET(cuMemsetD16, unsigned short)
MEMSET(cuMemsetD32, unsigned)

API CUresult cuDeviceGetDefaultMemPool(struct emu_pool **out, int dev) {
    GATE;
    if (dev < 0 || dev >= emu_device_count()) return EMU_INVALID_DEVICE;
    *out = emu_default_pool(dev);
    return EMU_OK;
}
API CUresult cuDeviceGetMemPool(struct emu_pool **out, int dev) {
    GATE;
    if (dev < 0 || dev >= emu_device_count()) return EMU_INVALID_DEVICE;
    *out = emu_current_pool(dev);
    return EMU_OK;
}
API CUresult cuDeviceSetMemPool(int dev, struct emu_pool *pool) {
    GATE;
    if (dev < 0 || dev >= emu_device_count()) return EMU_INVALID_DEVICE;
    emu_set_current_pool(dev, pool);
    return EMU_OK;
}
/* The head of CUmemPoolProps: allocation type, handle types, location. */
struct pool_properties {
    int type, handle_types, location_type, location_id;
};
API CUresult cuMemPoolCreate(struct emu_pool **out, const struct pool_properties *properties) {
    GATE;
    if (properties->location_type != 1) return EMU_NOT_SUPPORTED;
    if (properties->location_id < 0 || properties->location_id >= emu_device_count())
        return EMU_INVALID_DEVICE;
    *out = emu_pool_new(properties->location_id);
    return EMU_OK;
}
API CUresult cuMemPoolDestroy(struct emu_pool *pool) {
    GATE;
    return emu_pool_destroy(pool);
}
API CUresult cuMemPoolTrimTo(struct emu_pool *pool, size_t keep) {
    GATE;
    return emu_pool_trim(pool, keep);
}
API CUresult cuMemPoolGetAttribute(struct emu_pool *pool, int attribute, void *value) {
    GATE;
    return emu_pool_get(pool, attribute, value);
}
API CUresult cuMemPoolSetAttribute(struct emu_pool *pool, int attribute, void *value) {
    GATE;
    return emu_pool_set(pool, attribute, value);
}
API CUresult cuMemPoolSetAccess(struct emu_pool *pool, const void *access, size_t count) {
    GATE;
    UNUSED(pool), UNUSED(access), UNUSED(count);
    return EMU_OK;
}
static CUresult from_pool(CUdeviceptr *out, size_t size, struct emu_pool *pool, void *stream) {
    void *pointer;
    if (!size) return EMU_INVALID_VALUE;
    int error = emu_pool_alloc_timed(pool, size, stream, &pointer);
    if (!error) *out = (CUdeviceptr)pointer;
    return error;
}
API CUresult cuMemAllocAsync(CUdeviceptr *out, size_t size, void *stream) {
    GATE;
    return from_pool(out, size, emu_current_pool(emu_stream_of(stream)->dev), stream);
}
API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, struct emu_pool *pool,
                                     void *stream) {
    GATE;
    return from_pool(out, size, pool, stream);
}
API CUresult cuMemFreeAsync(CUdeviceptr pointer, void *stream) {
    GATE;
    return emu_pool_free((void *)pointer, stream);
}
