/* libnvidia-ml.so.1: what a monitor sees. Devices are the cards, CUDA_VISIBLE_DEVICES or not. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, INVALID_ARGUMENT = 2, NOT_SUPPORTED, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };
#define MAX_LISTED 512
#define GATE                                                         \
    static struct emu_site site_ = {.name = __func__, .is_nvml = 1};  \
    int refused_ = emu_enter(&site_);                                 \
    if (refused_) return refused_
#define GATE_CARD(handle)                                            \
    GATE;                                                            \
    int card = (int)(intptr_t)(handle) - 1;                           \
    if (card < 0 || card >= emu_config.devices) return INVALID_ARGUMENT
#define UNUSED(x) (void)(x)

int nvml_stub(const char *name, int *said);
int nvml_stub(const char *name, int *said) {
    if (!*said) emu_log("%s is not emulated", name); /* tools try many: said only on request */
    *said = 1;
    return NOT_SUPPORTED;
}

API int nvmlInit_v2(void) {
    GATE;
    return SUCCESS;
}
API int nvmlInit(void) { return nvmlInit_v2(); }
API int nvmlInitWithFlags(unsigned flags) {
    UNUSED(flags);
    return nvmlInit_v2();
}
API int nvmlShutdown(void) { return SUCCESS; }
API const char *nvmlErrorString(int error) {
    switch (error) {
    case SUCCESS: return "Success";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}
static int text(char *out, unsigned room, const char *value) {
    return snprintf(out, room, "%s", value) < (int)room ? SUCCESS : INSUFFICIENT_SIZE;
}
API int nvmlSystemGetDriverVersion(char *out, unsigned room) {
    GATE;
    return text(out, room, emu_config.driver_version);
}
API int nvmlSystemGetNVMLVersion(char *out, unsigned room) {
    GATE;
    char version[80];
    snprintf(version, sizeof version, "13.%s", emu_config.driver_version);
    return text(out, room, version);
}
API int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    GATE;
    *version = (int)emu_config.cuda_version;
    return SUCCESS;
}
API int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

API int nvmlDeviceGetCount_v2(unsigned *count) {
    GATE;
    *count = (unsigned)emu_config.devices;
    return SUCCESS;
}
API int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }
static void *handle_of(int card) { return (void *)(intptr_t)(card + 1); }
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    GATE;
    if (index >= (unsigned)emu_config.devices) return INVALID_ARGUMENT;
    *handle = handle_of((int)index);
    return SUCCESS;
}
API int nvmlDeviceGetHandleByIndex(unsigned index, void **handle) {
    return nvmlDeviceGetHandleByIndex_v2(index, handle);
}
API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **handle) {
    GATE;
    unsigned domain, bus;
    if (sscanf(id, "%x:%x", &domain, &bus) != 2) return INVALID_ARGUMENT;
    if (!bus || bus > (unsigned)emu_config.devices) return NOT_FOUND;
    *handle = handle_of((int)bus - 1);
    return SUCCESS;
}
API int nvmlDeviceGetHandleByPciBusId(const char *id, void **handle) {
    return nvmlDeviceGetHandleByPciBusId_v2(id, handle);
}
API int nvmlDeviceGetUUID(void *handle, char *out, unsigned room) {
    GATE_CARD(handle);
    unsigned char uuid[16];
    emu_uuid(card, uuid);
    char full[64], *p = full + sprintf(full, "GPU-");
    for (int i = 0; i < 16; i++)
        p += sprintf(p, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
    return text(out, room, full);
}
API int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    GATE;
    for (int card = 0; card < emu_config.devices; card++) {
        char own[64];
        nvmlDeviceGetUUID(handle_of(card), own, sizeof own);
        if (strcmp(own, uuid)) continue;
        *handle = handle_of(card);
        return SUCCESS;
    }
    return NOT_FOUND;
}
API int nvmlDeviceGetIndex(void *handle, unsigned *index) {
    GATE_CARD(handle);
    *index = (unsigned)card;
    return SUCCESS;
}
API int nvmlDeviceGetMinorNumber(void *handle, unsigned *number) {
    return nvmlDeviceGetIndex(handle, number);
}
API int nvmlDeviceGetName(void *handle, char *out, unsigned room) {
    GATE_CARD(handle);
    return text(out, room, emu_config.name);
}
struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};
API int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *out) {
    GATE_CARD(handle);
    *out = (struct pci){.bus = (unsigned)card + 1};
    emu_bus_id(card, out->legacy, sizeof out->legacy);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", card + 1);
    return SUCCESS;
}
API int nvmlDeviceGetPciInfo_v2(void *handle, struct pci *out) { return nvmlDeviceGetPciInfo_v3(handle, out); }
API int nvmlDeviceGetPciInfo(void *handle, struct pci *out) { return nvmlDeviceGetPciInfo_v3(handle, out); }

struct memory {
    unsigned long long total, free, used;
};
struct memory2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
static struct memory memory_of(int card) {
    /* What the driver keeps for itself is in the total and counts as used, as on hardware. */
    unsigned long long reserved = (unsigned long long)emu_config.nvml_reserved_bytes;
    unsigned long long total = (unsigned long long)emu_config.memory_bytes + reserved;
    unsigned long long used = emu_card_used(card) + reserved;
    return (struct memory){total, used < total ? total - used : 0, used};
}
API int nvmlDeviceGetMemoryInfo(void *handle, struct memory *out) {
    GATE_CARD(handle);
    *out = memory_of(card);
    return SUCCESS;
}
API int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory2 *out) {
    GATE_CARD(handle);
    struct memory m = memory_of(card);
    unsigned long long reserved = (unsigned long long)emu_config.nvml_reserved_bytes;
    *out = (struct memory2){out->version, m.total, reserved, m.free, m.used - reserved};
    return SUCCESS;
}
struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
struct process1 {
    unsigned pid;
    unsigned long long used;
};
static int list(int card, unsigned *count, struct process *out, struct process1 *out1) {
    struct emu_process_use uses[MAX_LISTED];
    int found = emu_card_processes(card, uses, MAX_LISTED), room = (int)*count;
    *count = (unsigned)found;
    if (found > room || (found && !out && !out1)) return INSUFFICIENT_SIZE;
    for (int i = 0; i < found; i++) {
        if (out) out[i] = (struct process){uses[i].pid, uses[i].bytes, ~0u, ~0u};
        else out1[i] = (struct process1){uses[i].pid, uses[i].bytes};
    }
    return SUCCESS;
}
API int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *out) {
    GATE_CARD(handle);
    return list(card, count, out, NULL);
}
API int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, struct process *out) {
    return nvmlDeviceGetComputeRunningProcesses_v3(handle, count, out);
}
API int nvmlDeviceGetComputeRunningProcesses(void *handle, unsigned *count, struct process1 *out) {
    GATE_CARD(handle);
    return list(card, count, NULL, out);
}
API int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, void *out) {
    GATE_CARD(handle);
    UNUSED(out);
    *count = 0;
    return SUCCESS;
}
API int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    GATE_CARD(handle);
    *major = (int)emu_config.compute_major;
    *minor = (int)emu_config.compute_minor;
    return SUCCESS;
}
API int nvmlDeviceGetUtilizationRates(void *handle, unsigned rates[2]) {
    GATE_CARD(handle);
    rates[0] = rates[1] = 0;
    return SUCCESS;
}
static int pcie(void *handle, unsigned *out, unsigned value) {
    GATE_CARD(handle);
    *out = value;
    return SUCCESS;
}
API int nvmlDeviceGetCurrPcieLinkGeneration(void *handle, unsigned *out) { return pcie(handle, out, 5); }
API int nvmlDeviceGetCurrPcieLinkWidth(void *handle, unsigned *out) { return pcie(handle, out, 16); }
API int nvmlDeviceGetNumGpuCores(void *handle, unsigned *cores) {
    GATE_CARD(handle);
    *cores = (unsigned)emu_config.multiprocessors * 128;
    return SUCCESS;
}
