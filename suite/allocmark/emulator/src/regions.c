/* Regions of address space cut into spans: the bookkeeping under placement.c and pool.c.
 * Spans lie in address order and cover their region; two free ones never lie side by side. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdlib.h>

static uint64_t changes;

struct emu_region *emu_region_new(struct emu_regions *list, uintptr_t base, size_t size, int dev) {
    struct emu_region *region = calloc(1, sizeof *region);
    struct emu_span *span = calloc(1, sizeof *span);
    *region = (struct emu_region){.base = base, .size = size, .dev = dev, .first = span,
                                  .previous = list->last};
    *span = (struct emu_span){.base = base, .size = size, .region = region, .free_since = ++changes};
    if (list->last) list->last->next = region;
    else list->first = region;
    return list->last = region;
}

void emu_region_drop(struct emu_regions *list, struct emu_region *region) {
    if (region->previous) region->previous->next = region->next;
    else list->first = region->next;
    if (region->next) region->next->previous = region->previous;
    else list->last = region->previous;
    for (struct emu_span *span = region->first, *next; span; span = next) {
        next = span->next;
        free(span);
    }
    free(region);
}

struct emu_span *emu_span_cut(struct emu_span *span, size_t size) {
    if (span->size == size) return span->next;
    struct emu_span *rest = malloc(sizeof *rest);
    *rest = *span;
    rest->base += size;
    rest->size -= size;
    rest->previous = span;
    rest->free_since = ++changes;
    if (span->next) span->next->previous = rest;
    span->next = rest;
    span->size = size;
    return rest;
}

struct emu_span *emu_span_take(struct emu_span *span, size_t size) {
    emu_span_cut(span, size);
    span->used = 1;
    span->region->used += size;
    return span;
}

void emu_span_absorb_next(struct emu_span *span) {
    struct emu_span *gone = span->next;
    span->size += gone->size;
    if (gone->freed_at > span->freed_at) {
        span->freed_at = gone->freed_at;
        span->freed_on = gone->freed_on;
    }
    if (gone->freed_call > span->freed_call) span->freed_call = gone->freed_call;
    span->next = gone->next;
    if (gone->next) gone->next->previous = span;
    free(gone);
}

struct emu_span *emu_span_give(struct emu_span *span) {
    span->used = 0;
    span->region->used -= span->size;
    if (span->next && !span->next->used) emu_span_absorb_next(span);
    if (span->previous && !span->previous->used) {
        span = span->previous;
        emu_span_absorb_next(span);
    }
    span->free_since = ++changes;
    return span;
}
