/* Driver API: initialisation, devices, contexts, entry points. */
#define _GNU_SOURCE
#include "driver.h"
#include <stdio.h>
#include <string.h>

enum { STACK = 32 };
static char handles[EMU_MAX_DEVICES]; /* their addresses are the context handles */
static int references[EMU_MAX_DEVICES];
static __thread int stack[STACK], depth; /* device + 1; 0: none */

static void *handle_of(int dev) { return &handles[dev]; }
static int device_of(void *context) {
    ptrdiff_t dev = (char *)context - handles;
    return dev >= 0 && dev < EMU_MAX_DEVICES ? (int)dev : -1;
}
int emu_current_context(void) { return stack[depth] - 1; }
static int valid(int dev) { return dev >= 0 && dev < emu_device_count(); }
static void make_current(int dev) {
    stack[depth] = dev + 1;
    if (dev >= 0) *emu_current_device() = dev;
}

/* The runtime keeps a reference of its own to each primary context ... */
int emu_runtime_keep(int dev) {
    static int kept[EMU_MAX_DEVICES];
    int error = emu_context(dev);
    if (!error && !__atomic_exchange_n(&kept[dev], 1, __ATOMIC_RELAXED))
        __atomic_add_fetch(&references[dev], 1, __ATOMIC_RELAXED);
    return error;
}
/* ... and makes that of its device current. */
int emu_runtime_context(int dev) {
    if (stack[depth] == dev + 1 && emu_context_active(dev)) return EMU_OK;
    int error = emu_runtime_keep(dev);
    if (!error) make_current(dev);
    return error;
}

API CUresult cuInit(unsigned flags) {
    GATE;
    if (flags) return EMU_INVALID_VALUE;
    return emu_initialise();
}
API CUresult cuDriverGetVersion(int *version) {
    emu_setup();
    *version = (int)emu_config.cuda_version;
    return EMU_OK;
}
API CUresult cuGetErrorName(CUresult error, const char **text) {
    *text = emu_error_name(error, 0);
    return EMU_OK;
}
API CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = emu_error_text(error);
    return EMU_OK;
}
API CUresult cuDeviceGetCount(int *count) {
    GATE;
    *count = emu_device_count();
    return EMU_OK;
}
API CUresult cuDeviceGet(int *dev, int ordinal) {
    GATE;
    if (!valid(ordinal)) return EMU_INVALID_DEVICE;
    *dev = ordinal;
    return EMU_OK;
}
API CUresult cuDeviceGetName(char *text, int room, int dev) {
    GATE;
    if (!valid(dev)) return EMU_INVALID_DEVICE;
    snprintf(text, (size_t)room, "%s", emu_config.name);
    return EMU_OK;
}
API CUresult cuDeviceGetUuid_v2(unsigned char uuid[16], int dev) {
    GATE;
    if (!valid(dev)) return EMU_INVALID_DEVICE;
    emu_uuid(emu_card(dev), uuid);
    return EMU_OK;
}
ALSO(cuDeviceGetUuid_v2, cuDeviceGetUuid);
API CUresult cuDeviceTotalMem_v2(size_t *bytes, int dev) {
    GATE;
    if (!valid(dev)) return EMU_INVALID_DEVICE;
    *bytes = (size_t)emu_config.memory_bytes;
    return EMU_OK;
}
API CUresult cuDeviceGetAttribute(int *value, int attribute, int dev) {
    GATE;
    return emu_attribute(value, attribute, dev);
}
API CUresult cuDeviceComputeCapability(int *major, int *minor, int dev) {
    GATE;
    int error = emu_attribute(major, 75, dev);
    return error ? error : emu_attribute(minor, 76, dev);
}
API CUresult cuDeviceGetPCIBusId(char *text, int room, int dev) {
    GATE;
    if (!valid(dev)) return EMU_INVALID_DEVICE;
    emu_bus_id(emu_card(dev), text, (size_t)room);
    return EMU_OK;
}
API CUresult cuDeviceCanAccessPeer(int *can, int a, int b) {
    GATE;
    if (!valid(a) || !valid(b)) return EMU_INVALID_DEVICE;
    *can = a != b;
    return EMU_OK;
}
API CUresult cuDeviceGetP2PAttribute(int *value, int attribute, int a, int b) {
    GATE;
    UNUSED(attribute);
    if (!valid(a) || !valid(b)) return EMU_INVALID_DEVICE;
    *value = 0;
    return EMU_OK;
}

API CUresult cuDevicePrimaryCtxRetain(void **context, int dev) {
    GATE;
    if (!valid(dev)) return EMU_INVALID_DEVICE;
    int error = emu_context(dev);
    if (error) return error;
    __atomic_add_fetch(&references[dev], 1, __ATOMIC_RELAXED);
    *context = handle_of(dev);
    return EMU_OK;
}
API CUresult cuDevicePrimaryCtxRelease_v2(int dev) {
    GATE;
    if (!valid(dev) || !references[dev]) return EMU_INVALID_CONTEXT;
    if (!__atomic_sub_fetch(&references[dev], 1, __ATOMIC_RELAXED)) emu_context_destroy(dev);
    return EMU_OK;
}
ALSO(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease);
API CUresult cuDevicePrimaryCtxReset_v2(int dev) {
    GATE;
    if (!valid(dev)) return EMU_INVALID_DEVICE;
    emu_context_destroy(dev);
    return EMU_OK;
}
ALSO(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset);
API CUresult cuDevicePrimaryCtxGetState(int dev, unsigned *flags, int *active) {
    GATE;
    if (!valid(dev)) return EMU_INVALID_DEVICE;
    if (flags) *flags = 0;
    *active = emu_context_active(dev);
    return EMU_OK;
}
API CUresult cuDevicePrimaryCtxSetFlags_v2(int dev, unsigned flags) {
    GATE;
    UNUSED(flags);
    return valid(dev) ? EMU_OK : EMU_INVALID_DEVICE;
}
ALSO(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags);

API CUresult cuCtxGetCurrent(void **context) {
    GATE;
    int dev = emu_current_context();
    *context = dev < 0 ? NULL : handle_of(dev);
    return EMU_OK;
}
API CUresult cuCtxSetCurrent(void *context) {
    GATE;
    if (context && device_of(context) < 0) return EMU_INVALID_CONTEXT;
    make_current(context ? device_of(context) : -1);
    return EMU_OK;
}
API CUresult cuCtxPushCurrent_v2(void *context) {
    GATE;
    if (device_of(context) < 0 || depth == STACK - 1) return EMU_INVALID_CONTEXT;
    depth++;
    make_current(device_of(context));
    return EMU_OK;
}
ALSO(cuCtxPushCurrent_v2, cuCtxPushCurrent);
API CUresult cuCtxPopCurrent_v2(void **context) {
    GATE;
    if (emu_current_context() < 0) return EMU_INVALID_CONTEXT;
    if (context) *context = handle_of(emu_current_context());
    stack[depth] = 0;
    if (depth) depth--;
    if (stack[depth]) *emu_current_device() = stack[depth] - 1;
    return EMU_OK;
}
ALSO(cuCtxPopCurrent_v2, cuCtxPopCurrent);
API CUresult cuCtxGetDevice(int *dev) {
    GATE;
    *dev = emu_current_context();
    return *dev < 0 ? EMU_INVALID_CONTEXT : EMU_OK;
}
API CUresult cuCtxGetApiVersion(void *context, unsigned *version) {
    GATE;
    UNUSED(context);
    *version = 3020;
    return EMU_OK;
}
API CUresult cuCtxGetFlags(unsigned *flags) {
    GATE;
    *flags = 0;
    return EMU_OK;
}
API CUresult cuCtxGetId(void *context, unsigned long long *id) {
    GATE;
    int dev = context ? device_of(context) : emu_current_context();
    if (dev < 0) return EMU_INVALID_CONTEXT;
    *id = (unsigned long long)dev + 1;
    return EMU_OK;
}
API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    GATE;
    if (emu_current_context() < 0) return EMU_INVALID_CONTEXT;
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return EMU_OK;
}
API CUresult cuCtxEnablePeerAccess(void *context, unsigned flags) {
    GATE;
    int dev = emu_current_context(), peer = device_of(context);
    if (flags) return EMU_INVALID_VALUE;
    if (dev < 0 || peer < 0) return EMU_INVALID_CONTEXT;
    return dev == peer ? EMU_INVALID_DEVICE : emu_peer_enable(dev, peer);
}
API CUresult cuCtxSynchronize(void) {
    GATE;
    int dev = emu_current_context();
    return dev < 0 ? EMU_INVALID_CONTEXT : emu_device_synchronize(dev);
}

API CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                 int *status) {
    UNUSED(version);
    UNUSED(flags);
    *function = emu_symbol(name);
    if (status) *status = *function ? 0 : 1;
    if (!*function) emu_log("%s is not known", name);
    return *function ? EMU_OK : EMU_NOT_FOUND;
}
API CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
/* Private tables that only NVIDIA's own runtime asks for. */
API CUresult cuGetExportTable(const void **table, const unsigned char *id) {
    UNUSED(id);
    *table = NULL;
    return emu_foreign_runtime(__builtin_return_address(0));
}

/* Nothing is written to the driver's log here, so nobody is called back. */
API CUresult cuLogsRegisterCallback(void *callback, void *data, void **handle) {
    static char registered;
    GATE;
    UNUSED(data);
    if (!callback) return EMU_INVALID_VALUE;
    if (handle) *handle = &registered;
    return EMU_OK;
}
API CUresult cuLogsUnregisterCallback(void *handle) {
    GATE;
    return handle ? EMU_OK : EMU_INVALID_VALUE;
}
