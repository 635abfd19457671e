/* Runtime API: streams, events, and graphs, whose nodes are only counted. */
#define _GNU_SOURCE
#include "runtime.h"
#include <stdlib.h>

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    return rt_result(emu_stream_create(flags, priority, out));
}
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    return rt_result(emu_stream_create(flags, 0, out));
}
API cudaError_t cudaStreamCreate(cudaStream_t *out) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    return rt_result(emu_stream_create(0, 0, out));
}
API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    GATE;
    return rt_result(emu_stream_destroy(stream));
}
API cudaError_t cudaStreamQuery(cudaStream_t stream) {
    GATE;
    return rt_result(emu_stream_query(stream));
}
API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    GATE;
    return rt_result(emu_stream_synchronize(stream));
}
API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    GATE;
    UNUSED(flags);
    return rt_result(emu_stream_wait_event(stream, event));
}
API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    GATE;
    *priority = emu_stream_of(stream)->priority;
    return 0;
}
API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags) {
    GATE;
    *flags = emu_stream_of(stream)->flags;
    return 0;
}
API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *dev) {
    GATE;
    *dev = emu_stream_of(stream)->dev;
    return 0;
}
API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *argument) {
    GATE;
    int error = emu_stream_work(stream);
    if (!error) function(argument);
    return rt_result(error);
}
API cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                      void (*function)(cudaStream_t, cudaError_t, void *),
                                      void *argument, unsigned flags) {
    GATE;
    UNUSED(flags);
    int error = emu_stream_work(stream);
    if (!error) function(stream, 0, argument);
    return rt_result(error);
}

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    return rt_result(emu_event_create(flags, out));
}
API cudaError_t cudaEventCreate(cudaEvent_t *out) {
    GATE_DEVICE(dev);
    UNUSED(dev);
    return rt_result(emu_event_create(0, out));
}
API cudaError_t cudaEventDestroy(cudaEvent_t event) {
    GATE;
    free(event);
    return 0;
}
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    GATE;
    return rt_result(emu_event_record(event, stream));
}
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    GATE;
    UNUSED(flags);
    return rt_result(emu_event_record(event, stream));
}
API cudaError_t cudaEventQuery(cudaEvent_t event) {
    GATE;
    return rt_result(emu_event_query(event));
}
API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    GATE;
    return rt_result(emu_event_synchronize(event));
}
API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    GATE;
    return rt_result(emu_event_elapsed(ms, from, to));
}
#if CUDART_MAJOR < 13
API cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t from, cudaEvent_t to) {
    GATE;
    return rt_result(emu_event_elapsed(ms, from, to));
}
#endif

API cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode) {
    GATE;
    static __thread int current;
    int previous = current;
    current = *mode;
    *mode = previous;
    return 0;
}
API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status) {
    GATE;
    *status = emu_stream_of(stream)->capture != NULL;
    return 0;
}
API cudaError_t cudaStreamBeginCapture(cudaStream_t handle, int mode) {
    GATE;
    UNUSED(mode);
    static unsigned long long ids;
    struct emu_stream *stream = emu_stream_of(handle);
    if (stream != handle || stream->capture) return rt_fail(EMU_CAPTURE_UNSUPPORTED);
    stream->capture = calloc(1, sizeof *stream->capture);
    stream->capture_id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
    return 0;
}
API cudaError_t cudaStreamEndCapture(cudaStream_t handle, struct emu_graph **out) {
    GATE;
    struct emu_stream *stream = emu_stream_of(handle);
    if (!stream->capture) return rt_fail(EMU_INVALID_VALUE);
    *out = stream->capture;
    stream->capture = NULL;
    return 0;
}
static cudaError_t capture_info(cudaStream_t handle, int *status, unsigned long long *id,
                                struct emu_graph **graph, void ***nodes, size_t *count) {
    struct emu_stream *stream = emu_stream_of(handle);
    *status = stream->capture != NULL;
    if (id) *id = stream->capture ? stream->capture_id : 0;
    if (graph) *graph = stream->capture;
    if (nodes) *nodes = NULL;
    if (count) *count = 0;
    return 0;
}
#if CUDART_MAJOR < 13
API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, int *status, unsigned long long *id,
                                            struct emu_graph **graph, void ***nodes, size_t *count) {
    GATE;
    return capture_info(stream, status, id, graph, nodes, count);
}
API cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, int *status, unsigned long long *id,
                                            struct emu_graph **graph, void ***nodes, void **edges,
                                            size_t *count) {
#else
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, int *status, unsigned long long *id,
                                         struct emu_graph **graph, void ***nodes, void **edges,
                                         size_t *count) {
#endif
    GATE;
    if (edges) *edges = NULL;
    return capture_info(stream, status, id, graph, nodes, count);
}
API cudaError_t cudaGraphGetNodes(struct emu_graph *graph, void **nodes, size_t *count) {
    GATE;
    if (!nodes) *count = graph->nodes;
    return 0;
}
API cudaError_t cudaGraphInstantiateWithFlags(void **out, struct emu_graph *graph,
                                              unsigned long long flags) {
    GATE;
    UNUSED(graph), UNUSED(flags);
    *out = malloc(1);
    return 0;
}
API cudaError_t cudaGraphInstantiate(void **out, struct emu_graph *graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(out, graph, flags);
}
API cudaError_t cudaGraphLaunch(void *graph, cudaStream_t stream) {
    GATE;
    UNUSED(graph);
    return rt_result(emu_stream_work(stream));
}
API cudaError_t cudaGraphExecDestroy(void *graph) {
    GATE;
    free(graph);
    return 0;
}
API cudaError_t cudaGraphDestroy(struct emu_graph *graph) {
    GATE;
    free(graph);
    return 0;
}
API cudaError_t cudaUserObjectCreate(void **out, void *object, void (*destroy)(void *), unsigned count,
                                     unsigned flags) {
    GATE;
    UNUSED(destroy), UNUSED(count), UNUSED(flags);
    *out = object;
    return 0;
}
API cudaError_t cudaUserObjectRelease(void *object, unsigned count) {
    GATE;
    UNUSED(object), UNUSED(count);
    return 0;
}
API cudaError_t cudaGraphRetainUserObject(struct emu_graph *graph, void *object, unsigned count,
                                          unsigned flags) {
    GATE;
    UNUSED(graph), UNUSED(object), UNUSED(count), UNUSED(flags);
    return 0;
}
