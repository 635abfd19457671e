/* Types and the gate of the runtime's entry points. CUDART_MAJOR is 12 or 13. */
#ifndef RUNTIME_H
#define RUNTIME_H
#include "emu.h"

typedef int cudaError_t;
typedef void *cudaStream_t;
typedef struct emu_event *cudaEvent_t;
typedef struct {
    unsigned x, y, z;
} dim3;

cudaError_t rt_fail(cudaError_t error); /* remember it as this thread's last error */
static inline cudaError_t rt_result(int error) { return error ? rt_fail(error) : 0; }
#define GATE                                          \
    static struct emu_site site_ = {.name = __func__}; \
    int refused_ = emu_enter(&site_);                  \
    if (refused_) return rt_fail(refused_)
/* Enter a call that works on the current device, which gives it a context. */
#define GATE_DEVICE(dev)                     \
    GATE;                                    \
    int dev = *emu_current_device();          \
    refused_ = emu_runtime_context(dev);      \
    if (refused_) return rt_fail(refused_)
#define UNUSED(x) (void)(x)
#endif
