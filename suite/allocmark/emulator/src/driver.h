/* Types and the gate of the driver API's entry points. */
#ifndef DRIVER_H
#define DRIVER_H
#include "emu.h"

typedef int CUresult;
typedef uint64_t CUdeviceptr;
#define GATE                                              \
    static struct emu_site site_ = {.name = __func__};     \
    int refused_ = emu_enter(&site_);                      \
    if (refused_) return refused_
/* The real driver exports both names with one signature for those that matter here. */
#define ALSO(name, other) \
    extern __typeof__(name) other __attribute__((visibility("default"), alias(#name)))
#define UNUSED(x) (void)(x)

int emu_current_context(void); /* device of this thread's context, or -1 */
#endif
