/* Driver API: streams, events, modules and launches (which do nothing but take their turn). */
#define _GNU_SOURCE
#include "driver.h"
#include <stdlib.h>

#define CURRENT                                                \
    if (emu_current_context() < 0) return EMU_INVALID_CONTEXT; \
    *emu_current_device() = emu_current_context()

API CUresult cuStreamCreateWithPriority(void **out, unsigned flags, int priority) {
    GATE;
    CURRENT;
    return emu_stream_create(flags, priority, out);
}
API CUresult cuStreamCreate(void **out, unsigned flags) {
    GATE;
    CURRENT;
    return emu_stream_create(flags, 0, out);
}
API CUresult cuStreamDestroy_v2(void *stream) {
    GATE;
    return emu_stream_destroy(stream);
}
ALSO(cuStreamDestroy_v2, cuStreamDestroy);
API CUresult cuStreamQuery(void *stream) {
    GATE;
    return emu_stream_query(stream);
}
API CUresult cuStreamSynchronize(void *stream) {
    GATE;
    return emu_stream_synchronize(stream);
}
API CUresult cuStreamWaitEvent(void *stream, struct emu_event *event, unsigned flags) {
    GATE;
    UNUSED(flags);
    return emu_stream_wait_event(stream, event);
}
API CUresult cuStreamGetPriority(void *stream, int *priority) {
    GATE;
    *priority = emu_stream_of(stream)->priority;
    return EMU_OK;
}
API CUresult cuStreamGetFlags(void *stream, unsigned *flags) {
    GATE;
    *flags = emu_stream_of(stream)->flags;
    return EMU_OK;
}
API CUresult cuStreamIsCapturing(void *stream, int *status) {
    GATE;
    *status = emu_stream_of(stream)->capture != NULL;
    return EMU_OK;
}
API CUresult cuLaunchHostFunc(void *stream, void (*function)(void *), void *argument) {
    GATE;
    int error = emu_stream_work(stream);
    if (!error) function(argument);
    return error;
}
API CUresult cuStreamAddCallback(void *stream, void (*function)(void *, int, void *), void *argument,
                                 unsigned flags) {
    GATE;
    UNUSED(flags);
    int error = emu_stream_work(stream);
    if (!error) function(stream, 0, argument);
    return error;
}
API CUresult cuStreamWriteValue32_v2(void *stream, CUdeviceptr p, unsigned value, unsigned flags) {
    GATE;
    UNUSED(p), UNUSED(value), UNUSED(flags);
    return emu_stream_work(stream);
}
ALSO(cuStreamWriteValue32_v2, cuStreamWriteValue32);

API CUresult cuEventCreate(struct emu_event **out, unsigned flags) {
    GATE;
    CURRENT;
    return emu_event_create(flags, out);
}
API CUresult cuEventDestroy_v2(struct emu_event *event) {
    GATE;
    free(event);
    return EMU_OK;
}
ALSO(cuEventDestroy_v2, cuEventDestroy);
API CUresult cuEventRecord(struct emu_event *event, void *stream) {
    GATE;
    return emu_event_record(event, stream);
}
API CUresult cuEventQuery(struct emu_event *event) {
    GATE;
    return emu_event_query(event);
}
API CUresult cuEventSynchronize(struct emu_event *event) {
    GATE;
    return emu_event_synchronize(event);
}
API CUresult cuEventElapsedTime_v2(float *ms, struct emu_event *from, struct emu_event *to) {
    GATE;
    return emu_event_elapsed(ms, from, to);
}
ALSO(cuEventElapsedTime_v2, cuEventElapsedTime);

/* Modules: a handle is all that a program gets of one. */
static char module, function;
static CUresult load_module(void **out) {
    CURRENT;
    *out = &module;
    return EMU_OK;
}
API CUresult cuModuleLoad(void **out, const char *file) {
    GATE;
    UNUSED(file);
    return load_module(out);
}
API CUresult cuModuleLoadData(void **out, const void *image) {
    GATE;
    UNUSED(image);
    return load_module(out);
}
API CUresult cuModuleLoadDataEx(void **out, const void *image, unsigned n, void *keys, void **values) {
    GATE;
    UNUSED(image), UNUSED(n), UNUSED(keys), UNUSED(values);
    return load_module(out);
}
API CUresult cuModuleLoadFatBinary(void **out, const void *image) {
    GATE;
    UNUSED(image);
    return load_module(out);
}
API CUresult cuModuleUnload(void *handle) {
    GATE;
    UNUSED(handle);
    return EMU_OK;
}
API CUresult cuModuleGetFunction(void **out, void *handle, const char *name) {
    GATE;
    UNUSED(handle), UNUSED(name);
    *out = &function;
    return EMU_OK;
}
API CUresult cuFuncGetAttribute(int *value, int attribute, void *handle) {
    GATE;
    UNUSED(handle);
    enum { MAX_THREADS = 0, REGISTERS = 4 };
    *value = attribute == MAX_THREADS ? 1024 : attribute == REGISTERS ? 32 : 0;
    return EMU_OK;
}
API CUresult cuFuncSetAttribute(void *handle, int attribute, int value) {
    GATE;
    UNUSED(handle), UNUSED(attribute), UNUSED(value);
    return EMU_OK;
}
API CUresult cuFuncSetCacheConfig(void *handle, int config) {
    GATE;
    UNUSED(handle), UNUSED(config);
    return EMU_OK;
}
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *handle, int threads,
                                                         size_t shared) {
    GATE;
    UNUSED(handle), UNUSED(shared);
    *blocks = threads > 0 ? 2048 / threads : 1;
    return EMU_OK;
}
API CUresult cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, void *stream, void **p, void **e) {
    GATE;
    UNUSED(handle), UNUSED(gx), UNUSED(gy), UNUSED(gz), UNUSED(bx), UNUSED(by), UNUSED(bz);
    UNUSED(shared), UNUSED(p), UNUSED(e);
    return emu_stream_work(stream); /* a module of its own: it costs next to nothing to load */
}
/* The head of CUlaunchConfig. */
struct launch_configuration {
    unsigned grid[3], block[3], shared;
    void *stream;
};
API CUresult cuLaunchKernelEx(const struct launch_configuration *configuration, void *handle, void **p,
                              void **e) {
    GATE;
    UNUSED(handle), UNUSED(p), UNUSED(e);
    return emu_stream_work(configuration->stream);
}
