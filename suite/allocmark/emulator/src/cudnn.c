/* libcudnn: plans that take their turn in the stream and compute nothing. A plan needs no
 * workspace here, which on hardware depends on the algorithm that cuDNN picks. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
#define GATE                                           \
    static struct emu_site site_ = {.name = __func__}; \
    if (emu_enter(&site_)) return EXECUTION_FAILED
#define UNUSED(x) (void)(x)

struct handle {
    void *stream;
};

int dnn_stub(const char *name, int *said);
int dnn_stub(const char *name, int *said) {
    emu_stub(name, said);
    return NOT_SUPPORTED;
}

enum { MAJOR = 9, MINOR = 19, PATCH = 0 };
API size_t cudnnGetVersion(void) { return MAJOR * 10000 + MINOR * 100 + PATCH; }
API int cudnnGetProperty(int part, int *value) {
    const int parts[] = {MAJOR, MINOR, PATCH};
    if (part < 0 || part > 2) return BAD_PARAM;
    *value = parts[part];
    return SUCCESS;
}
API size_t cudnnGetCudartVersion(void) { return 13000; }
API const char *cudnnGetErrorString(int status) {
    return status ? "the emulated cuDNN does not support this" : "CUDNN_STATUS_SUCCESS";
}
API void cudnnGetLastErrorString(char *text, size_t room) {
    if (room) *text = 0;
}
API int cudnnCreate(struct handle **out) {
    GATE;
    int error = emu_runtime_context(*emu_current_device());
    if (error) return EXECUTION_FAILED;
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}
API int cudnnDestroy(struct handle *handle) {
    free(handle);
    return SUCCESS;
}
API int cudnnSetStream(struct handle *handle, void *stream) {
    handle->stream = stream;
    return SUCCESS;
}
API int cudnnGetStream(struct handle *handle, void **stream) {
    *stream = handle->stream;
    return SUCCESS;
}

/* A descriptor of the graph interface remembers what it is told. */
enum { TYPE_HANDLE, TYPE_BOOLEAN = 2, TYPE_INT64, TYPE_DOUBLE = 5, TYPE_VOID_PTR, TYPE_DESCRIPTOR = 15,
       TYPE_CHAR = 24, TYPE_FRACTION = 26 };
enum { HEURISTIC_RESULTS = 202, CONFIG_ENGINE = 300, CONFIG_WORKSPACE_SIZE = 303,
       CONFIG_SHARED_MEMORY = 304, PLAN_WORKSPACE_SIZE = 402, GRAPH_ENGINE_COUNT = 802,
       ENGINE_KNOBS = 1302, ENGINE_NUMERICAL_NOTES = 1303, ENGINE_BEHAVIOUR_NOTES = 1305 };
enum { EXECUTION_PLAN = 5 };
struct attribute {
    int name;
    int64_t count;
    size_t bytes;
    struct attribute *next;
    char data[];
};
struct descriptor {
    int type;
    struct attribute *attributes;
};

static size_t size_of(int type) {
    switch (type) {
    case TYPE_BOOLEAN: case TYPE_CHAR: return 1;
    case TYPE_HANDLE: case TYPE_INT64: case TYPE_DOUBLE: case TYPE_VOID_PTR: case TYPE_DESCRIPTOR:
    case TYPE_FRACTION: return 8;
    default: return 4; /* enumerations, float, int32 */
    }
}
API int cudnnBackendCreateDescriptor(int type, struct descriptor **out) {
    *out = calloc(1, sizeof **out);
    (*out)->type = type;
    return SUCCESS;
}
API int cudnnBackendDestroyDescriptor(struct descriptor *d) {
    for (struct attribute *a = d ? d->attributes : NULL, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    free(d);
    return SUCCESS;
}
API int cudnnBackendInitialize(struct descriptor *d) {
    UNUSED(d);
    return SUCCESS;
}
API int cudnnBackendFinalize(struct descriptor *d) {
    UNUSED(d);
    return SUCCESS;
}
API int cudnnBackendSetAttribute(struct descriptor *d, int name, int type, int64_t count,
                                 const void *values) {
    if (count < 0 || (count && !values)) return BAD_PARAM;
    size_t bytes = size_of(type) * (size_t)count;
    struct attribute *a = malloc(sizeof *a + bytes);
    *a = (struct attribute){name, count, bytes, d->attributes};
    if (bytes) memcpy(a->data, values, bytes);
    d->attributes = a; /* the newest of a name is found first */
    return SUCCESS;
}
static struct attribute *find(struct descriptor *d, int name) {
    struct attribute *a = d->attributes;
    while (a && a->name != name) a = a->next;
    return a;
}
API int cudnnBackendGetAttribute(struct descriptor *d, int name, int type, int64_t room, int64_t *count,
                                 void *out) {
    int64_t found = 0;
    switch (name) {
    case HEURISTIC_RESULTS: case CONFIG_ENGINE: /* the caller's descriptor will do as it is */
        found = 1;
        break;
    case CONFIG_WORKSPACE_SIZE: case CONFIG_SHARED_MEMORY: case PLAN_WORKSPACE_SIZE:
        found = 1;
        if (room > 0 && out) memset(out, 0, size_of(type));
        break;
    case GRAPH_ENGINE_COUNT:
        found = 1;
        if (room > 0 && out) *(int64_t *)out = 1;
        break;
    case ENGINE_KNOBS: case ENGINE_NUMERICAL_NOTES: case ENGINE_BEHAVIOUR_NOTES: break;
    default: {
        struct attribute *a = find(d, name);
        if (!a) break;
        found = a->count;
        if (room >= a->count && out) memcpy(out, a->data, a->bytes);
    }
    }
    if (count) *count = found;
    return SUCCESS;
}
API int cudnnBackendExecute(struct handle *handle, struct descriptor *plan, struct descriptor *pack) {
    GATE;
    UNUSED(pack);
    if (plan->type != EXECUTION_PLAN) return BAD_PARAM;
    return emu_stream_work(handle->stream) ? EXECUTION_FAILED : SUCCESS;
}

/* The older interface, as far as normalisation and fixed descriptors go. */
#define DESCRIPTOR(kind)                                                                       \
    API int cudnnCreate##kind##Descriptor(void **out) { return !(*out = calloc(1, 64)); }       \
    API int cudnnDestroy##kind##Descriptor(void *d) {                                           \
        free(d);                                                                                \
        return SUCCESS;                                                                         \
    }
DESCRIPTOR(Tensor)
DESCRIPTOR(Filter)
DESCRIPTOR(Convolution)
DESCRIPTOR(Activation)
DESCRIPTOR(Pooling)
API int cudnnSetTensorNdDescriptor(void) { return SUCCESS; }
API int cudnnSetFilterNdDescriptor(void) { return SUCCESS; }
API int cudnnSetConvolutionNdDescriptor(void) { return SUCCESS; }
API int cudnnSetConvolutionGroupCount(void) { return SUCCESS; }
API int cudnnSetConvolutionMathType(void) { return SUCCESS; }
API int cudnnSetActivationDescriptor(void) { return SUCCESS; }
API int cudnnSetPooling2dDescriptor(void) { return SUCCESS; }

/* The size is the last argument of each; how many come before differs. */
API int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    void *handle, int mode, int ops, void *x, void *z, void *y, void *scale, void *activation,
    size_t *size) {
    UNUSED(handle), UNUSED(mode), UNUSED(ops), UNUSED(x), UNUSED(z), UNUSED(y), UNUSED(scale);
    UNUSED(activation);
    *size = 0;
    return SUCCESS;
}
API int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    void *handle, int mode, int ops, void *x, void *y, void *dy, void *dz, void *dx, void *scale,
    void *activation, size_t *size) {
    UNUSED(handle), UNUSED(mode), UNUSED(ops), UNUSED(x), UNUSED(y), UNUSED(dy), UNUSED(dz);
    UNUSED(dx), UNUSED(scale), UNUSED(activation);
    *size = 0;
    return SUCCESS;
}
API int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int ops,
                                                             void *activation, void *x, size_t *size) {
    UNUSED(handle), UNUSED(mode), UNUSED(ops), UNUSED(activation), UNUSED(x);
    *size = 0;
    return SUCCESS;
}
#define WORK(name)                                                           \
    API int name(struct handle *handle) {                                    \
        GATE;                                                                \
        return emu_stream_work(handle->stream) ? EXECUTION_FAILED : SUCCESS; \
    }
WORK(cudnnBatchNormalizationForwardTrainingEx)
WORK(cudnnBatchNormalizationForwardInference)
WORK(cudnnBatchNormalizationBackwardEx)
WORK(cudnnPoolingForward)
