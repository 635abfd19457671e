/* Driver API: virtual memory management. A handle's bytes are charged from cuMemCreate until it
 * is released and no longer mapped, as on a real device. */
#define _GNU_SOURCE
#include "driver.h"
#include "times.h"
#include <search.h>
#include <stdlib.h>

/* The head of CUmemAllocationProp. */
struct properties {
    int type, handle_types, location_type, location_id;
    void *metadata;
    uint64_t flags[1];
};
struct handle {
    int dev, references;
    size_t size;
    struct properties properties;
};
struct mapping {
    uintptr_t base;
    size_t size;
    struct handle *handle;
};
static void *mappings; /* by base */

static int compare(const void *a, const void *b) {
    const struct mapping *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}
static struct mapping *mapping_at(uintptr_t base) {
    struct mapping key = {.base = base};
    void *node = tfind(&key, &mappings, compare);
    return node ? *(struct mapping **)node : NULL;
}
static void drop_reference(struct handle *handle) {
    if (--handle->references) return;
    emu_uncharge(emu_card(handle->dev), handle->size, 1);
    free(handle);
}

API CUresult cuMemGetAllocationGranularity(size_t *bytes, const struct properties *p, int option) {
    GATE;
    UNUSED(p), UNUSED(option);
    *bytes = EMU_PAGE;
    return EMU_OK;
}
API CUresult cuMemCreate(uint64_t *out, size_t size, const struct properties *properties,
                         unsigned long long flags) {
    GATE;
    UNUSED(flags);
    if (properties->location_type != 1) return EMU_NOT_SUPPORTED; /* host memory */
    int dev = properties->location_id;
    if (dev < 0 || dev >= emu_device_count()) return EMU_INVALID_DEVICE;
    if (!size || size % EMU_PAGE) return EMU_INVALID_VALUE;
    emu_tick();
    if (emu_charge(emu_card(dev), size, 1)) return EMU_OUT_OF_MEMORY;
    emu_spend(EMU_TIME_CREATE, size);
    struct handle *handle = malloc(sizeof *handle);
    *handle = (struct handle){dev, 1, size, *properties};
    *out = (uintptr_t)handle;
    return EMU_OK;
}
API CUresult cuMemRelease(uint64_t handle) {
    GATE;
    if (!handle) return EMU_INVALID_VALUE;
    emu_spend(EMU_TIME_RELEASE, ((struct handle *)handle)->size);
    emu_lock();
    drop_reference((struct handle *)handle);
    emu_unlock();
    return EMU_OK;
}
API CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                                 unsigned long long flags) {
    GATE;
    UNUSED(hint), UNUSED(flags);
    if (!size || size % EMU_PAGE || (alignment & (alignment - 1))) return EMU_INVALID_VALUE;
    int dev = emu_current_context();
    emu_lock();
    uintptr_t base = emu_reserve(size, alignment > EMU_PAGE ? alignment : EMU_PAGE);
    if (base)
        emu_range_add((struct emu_range){.base = base, .size = size, .dev = dev < 0 ? 0 : dev,
                                         .kind = EMU_KIND_RESERVED});
    emu_unlock();
    *out = base;
    return base ? EMU_OK : EMU_OUT_OF_MEMORY;
}
API CUresult cuMemAddressFree(CUdeviceptr base, size_t size) {
    GATE;
    UNUSED(size);
    return emu_free((void *)base, EMU_KIND_RESERVED);
}
API CUresult cuMemMap(CUdeviceptr base, size_t size, size_t offset, uint64_t handle,
                      unsigned long long flags) {
    GATE;
    UNUSED(flags);
    struct handle *physical = (struct handle *)handle;
    if (!physical || offset || size != physical->size) return EMU_INVALID_VALUE;
    emu_lock();
    struct emu_range *range = emu_range_at(base);
    int ok = range && range->kind == EMU_KIND_RESERVED && !mapping_at(base) &&
             base + size <= range->base + range->size;
    if (ok) {
        struct mapping *mapping = malloc(sizeof *mapping);
        *mapping = (struct mapping){base, size, physical};
        tsearch(mapping, &mappings, compare);
        physical->references++;
    }
    emu_unlock();
    return ok ? EMU_OK : EMU_INVALID_VALUE;
}
API CUresult cuMemUnmap(CUdeviceptr base, size_t size) {
    GATE;
    size_t done = 0;
    emu_lock();
    for (struct mapping *mapping; done < size && (mapping = mapping_at(base + done));) {
        tdelete(mapping, &mappings, compare);
        done += mapping->size;
        drop_reference(mapping->handle);
        free(mapping);
    }
    emu_unlock();
    return done == size ? EMU_OK : EMU_INVALID_VALUE;
}
API CUresult cuMemSetAccess(CUdeviceptr base, size_t size, const void *access, size_t count) {
    GATE;
    UNUSED(size), UNUSED(access), UNUSED(count);
    emu_lock();
    int ok = mapping_at(base) != NULL;
    emu_unlock();
    return ok ? EMU_OK : EMU_INVALID_VALUE;
}
API CUresult cuMemGetAllocationPropertiesFromHandle(struct properties *out, uint64_t handle) {
    GATE;
    *out = ((struct handle *)handle)->properties;
    return EMU_OK;
}
API CUresult cuMemRetainAllocationHandle(uint64_t *out, void *address) {
    GATE;
    emu_lock();
    struct mapping *mapping = mapping_at((uintptr_t)address);
    if (mapping) {
        mapping->handle->references++;
        *out = (uintptr_t)mapping->handle;
    }
    emu_unlock();
    return mapping ? EMU_OK : EMU_INVALID_VALUE;
}
