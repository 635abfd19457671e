/* Streams and events. A piece of work is over `lag_calls` ticks after it entered its stream (and
 * not before what the stream already held), so that frees and events are pending for a while. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdlib.h>

#define DEFAULT_HANDLES 2 /* 1: legacy, 2: per thread; NULL is the legacy one too */

static struct emu_stream default_streams[EMU_MAX_DEVICES];
static uint64_t device_busy_until[EMU_MAX_DEVICES];

static void raise_to(uint64_t *value, uint64_t floor) {
    if (*value < floor) *value = floor;
}

struct emu_stream *emu_stream_of(void *handle) {
    if ((uintptr_t)handle > DEFAULT_HANDLES) return handle;
    int dev = *emu_current_device();
    default_streams[dev].dev = dev;
    return &default_streams[dev];
}

int emu_stream_create(unsigned flags, int priority, void **out) {
    int dev = *emu_current_device(), error = emu_context(dev);
    if (error) return error;
    struct emu_stream *stream = calloc(1, sizeof *stream);
    *stream = (struct emu_stream){.dev = dev, .priority = priority, .flags = flags};
    *out = stream;
    return EMU_OK;
}
int emu_stream_destroy(void *handle) {
    if ((uintptr_t)handle <= DEFAULT_HANDLES) return EMU_INVALID_HANDLE;
    free(handle);
    return EMU_OK;
}

int emu_stream_work(void *handle) {
    emu_contents_forget();
    return emu_stream_copy(handle);
}
int emu_stream_copy(void *handle) {
    struct emu_stream *stream = emu_stream_of(handle);
    if (stream->capture) {
        stream->capture->nodes++;
        return EMU_OK;
    }
    int error = emu_context(stream->dev);
    if (error) return error;
    raise_to(&stream->busy_until, emu_tick() + (uint64_t)emu_config.lag_calls);
    raise_to(&device_busy_until[stream->dev], stream->busy_until);
    return EMU_OK;
}
int emu_stream_query(void *handle) {
    return emu_tick() >= emu_stream_of(handle)->busy_until ? EMU_OK : EMU_NOT_READY;
}
int emu_stream_synchronize(void *handle) {
    struct emu_stream *stream = emu_stream_of(handle);
    if (stream->capture) return EMU_CAPTURE_UNSUPPORTED;
    emu_wait_until(stream->busy_until);
    emu_pools_release(stream->dev);
    return EMU_OK;
}
int emu_stream_wait_event(void *handle, struct emu_event *event) {
    struct emu_stream *stream = emu_stream_of(handle);
    emu_tick();
    raise_to(&stream->busy_until, event->done_at);
    raise_to(&device_busy_until[stream->dev], stream->busy_until);
    return EMU_OK;
}
int emu_device_synchronize(int dev) {
    int error = emu_context(dev);
    if (error) return error;
    emu_wait_until(device_busy_until[dev]);
    emu_pools_release(dev);
    return EMU_OK;
}

int emu_event_create(unsigned flags, struct emu_event **out) {
    int dev = *emu_current_device(), error = emu_context(dev);
    if (error) return error;
    *out = calloc(1, sizeof **out);
    **out = (struct emu_event){.dev = dev, .flags = flags};
    return EMU_OK;
}
int emu_event_record(struct emu_event *event, void *handle) {
    int error = emu_stream_copy(handle);
    if (error) return error;
    struct emu_stream *stream = emu_stream_of(handle);
    if (!stream->capture) event->done_at = stream->busy_until;
    event->recorded_ns = emu_wall_ns();
    return EMU_OK;
}
int emu_event_query(struct emu_event *event) {
    return emu_tick() >= event->done_at ? EMU_OK : EMU_NOT_READY;
}
int emu_event_synchronize(struct emu_event *event) {
    emu_wait_until(event->done_at);
    emu_pools_release(event->dev);
    return EMU_OK;
}
int emu_event_elapsed(float *milliseconds, struct emu_event *from, struct emu_event *to) {
    if (!from->recorded_ns || !to->recorded_ns) return EMU_INVALID_HANDLE;
    if (emu_now() < from->done_at || emu_now() < to->done_at) return EMU_NOT_READY;
    *milliseconds = (float)((double)(int64_t)(to->recorded_ns - from->recorded_ns) / 1e6);
    return EMU_OK;
}
