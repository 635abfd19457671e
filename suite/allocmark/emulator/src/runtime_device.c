/* Runtime API: errors, versions, devices, entry points. */
#define _GNU_SOURCE
#include "runtime.h"
#include "device_properties.h"
#include <stdio.h>
#include <string.h>

static __thread cudaError_t last_error;
cudaError_t rt_fail(cudaError_t error) { return last_error = error; }

/* Called by the generated stubs. */
cudaError_t rt_stub(const char *name, int *said);
cudaError_t rt_stub(const char *name, int *said) { return rt_fail(emu_stub(name, said)); }

API const char *cudaGetErrorString(cudaError_t error) { return emu_error_text(error); }
API const char *cudaGetErrorName(cudaError_t error) { return emu_error_name(error, 1); }
API cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = 0;
    return error;
}
API cudaError_t cudaPeekAtLastError(void) { return last_error; }

API cudaError_t cudaDriverGetVersion(int *version) {
    emu_initialise(); /* as the real one does; without a device it answers all the same */
    *version = (int)emu_config.cuda_version;
    return 0;
}
API cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_MAJOR == 12 ? 12080 : 13000;
    return 0;
}
/* The runtime initialises the driver before it answers anything about devices. */
static int valid(int dev) { return !emu_initialise() && dev >= 0 && dev < emu_device_count(); }

API cudaError_t cudaGetDeviceCount(int *count) {
    GATE;
    *count = emu_device_count();
    return rt_result(emu_initialise());
}
API cudaError_t cudaGetDevice(int *dev) {
    GATE;
    *dev = *emu_current_device();
    return rt_result(emu_initialise());
}
API cudaError_t cudaSetDevice(int dev) {
    GATE;
    if (!valid(dev)) return rt_fail(emu_device_count() ? EMU_INVALID_DEVICE : EMU_NO_DEVICE);
    *emu_current_device() = dev;
    return rt_result(emu_runtime_context(dev));
}
API cudaError_t cudaDeviceSynchronize(void) {
    GATE_DEVICE(dev);
    return rt_result(emu_device_synchronize(dev));
}
API cudaError_t cudaDeviceReset(void) {
    GATE;
    int dev = *emu_current_device();
    emu_context_destroy(dev);
    return 0;
}
API cudaError_t cudaSetDeviceFlags(unsigned flags) {
    GATE;
    UNUSED(flags);
    return 0;
}
API cudaError_t cudaDeviceGetPCIBusId(char *text, int room, int dev) {
    GATE;
    if (!valid(dev)) return rt_fail(EMU_INVALID_DEVICE);
    emu_bus_id(emu_card(dev), text, (size_t)room);
    return 0;
}
/* The driver answers for the current context, so the runtime needs one. PyTorch asks before its first
 * allocation, and so has a context under expandable segments too: virtual memory itself needs none. */
API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return 0;
}
API cudaError_t cudaDeviceCanAccessPeer(int *can, int a, int b) {
    GATE;
    if (!valid(a) || !valid(b)) return rt_fail(EMU_INVALID_DEVICE);
    *can = a != b;
    return 0;
}
/* Both devices get a context; what the mapping itself takes of a real device is not emulated. */
API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    GATE_DEVICE(dev);
    if (flags) return rt_fail(EMU_INVALID_VALUE);
    if (!valid(peer) || peer == dev) return rt_fail(EMU_INVALID_DEVICE);
    int error = emu_runtime_keep(peer);
    if (error) return rt_fail(error);
    return rt_result(emu_peer_enable(dev, peer));
}
API cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int dev) {
    GATE;
    return rt_result(emu_attribute(value, attribute, dev));
}

static cudaError_t properties(struct cudaDeviceProp *out, int dev) {
    if (!valid(dev)) return rt_fail(EMU_INVALID_DEVICE);
    *out = (struct cudaDeviceProp){
        .totalGlobalMem = (size_t)emu_config.memory_bytes,
        .sharedMemPerBlock = 49152,
        .regsPerBlock = 65536,
        .warpSize = 32,
        .memPitch = 2147483647,
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {2147483647, 65535, 65535},
        .totalConstMem = 65536,
        .major = (int)emu_config.compute_major,
        .minor = (int)emu_config.compute_minor,
        .textureAlignment = 512,
        .texturePitchAlignment = 32,
        .multiProcessorCount = (int)emu_config.multiprocessors,
        .canMapHostMemory = 1,
        .surfaceAlignment = 512,
        .concurrentKernels = 1,
        .ECCEnabled = 1,
        .pciBusID = emu_card(dev) + 1,
        .asyncEngineCount = 3,
        .unifiedAddressing = 1,
        .memoryBusWidth = 6144,
        .l2CacheSize = 62914560,
        .maxThreadsPerMultiProcessor = 2048,
        .streamPrioritiesSupported = 1,
        .globalL1CacheSupported = 1,
        .localL1CacheSupported = 1,
        .sharedMemPerMultiprocessor = 233472,
        .regsPerMultiprocessor = 65536,
        .managedMemory = 1,
        .cooperativeLaunch = 1,
        .sharedMemPerBlockOptin = 232448,
        .maxBlocksPerMultiProcessor = 32,
        .reservedSharedMemPerBlock = 1024,
    };
    snprintf(out->name, sizeof out->name, "%s", emu_config.name);
    emu_uuid(emu_card(dev), out->uuid);
    return 0;
}
#if CUDART_MAJOR < 13
API cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *out, int dev) {
#else
API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int dev) {
#endif
    GATE;
    return properties(out, dev);
}

API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                                 unsigned long long flags, int *status) {
    UNUSED(version), UNUSED(flags);
    *function = emu_symbol(name);
    if (status) *status = *function ? 0 : 1;
    if (!*function) emu_log("entry point %s is not known", name);
    return 0;
}
API cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                        int *status) {
    return cudaGetDriverEntryPointByVersion(name, function, 0, flags, status);
}
