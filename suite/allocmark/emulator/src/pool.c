/* Stream-ordered pools (cudaMallocAsync). The real pool lives in NVIDIA's driver; this is a model,
 * fitted to what an H200 held at every event of the seeded workloads, and to the peaks of the programs
 * that are named in allocmark/replays/driver_pool.py; the other programs test it:
 *  - a pool is one line of addresses, mapped in steps of 32 MiB; it grows at its end, by what the
 *    free run there lacks, and free steps elsewhere go into the growth before new memory does, from
 *    the largest free run first. To unmap a step is the host's work: it waits until the GPU is done
 *    with it, which is so `move_calls` calls after its free (2 where nothing runs on the GPU);
 *  - free runs lie in bins, one for each power of two: a request takes from the lowest bin in which
 *    every run holds it, the run that became free last (what is left of a run keeps its place); only
 *    where there is none it looks through the bin of its own size;
 *  - a block freed on a stream is reusable on it at once, on others when the free has completed,
 *    or sooner where the pool may add a dependency (its default);
 *  - free steps above the release threshold go back when something synchronises, or on trim. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)32 << 20)
#define BLOCK ((size_t)512)
#define LINE ((size_t)256 << 30) /* addresses of one line; a pool that fills it gets another */
enum attribute {
    REUSE_EVENT = 1, REUSE_OPPORTUNISTIC, REUSE_INTERNAL, RELEASE_THRESHOLD,
    RESERVED_CURRENT, RESERVED_HIGH, USED_CURRENT, USED_HIGH,
};

struct emu_pool {
    int dev;
    struct emu_regions regions; /* lines of addresses */
    struct emu_span *end;       /* the hole at the end of the newest line */
    uint64_t threshold, reserved, reserved_high, used, used_high;
    int reuse[3]; /* event dependencies, opportunistic, internal dependencies */
    struct emu_pool *next;
};
#define MOVE_CALLS 2
static struct emu_pool defaults[EMU_MAX_DEVICES], *current[EMU_MAX_DEVICES], *created;

static uint64_t move_calls(void) {
    static uint64_t calls;
    if (!calls) {
        const char *wish = getenv("ALLOCMARK_EMULATOR_POOL_MOVE_CALLS");
        calls = wish && atoi(wish) > 0 ? (uint64_t)atoi(wish) : MOVE_CALLS;
    }
    return calls;
}
static void prepare(struct emu_pool *pool, int dev) {
    pool->dev = dev;
    for (int i = 0; i < 3; i++) pool->reuse[i] = 1;
}
struct emu_pool *emu_default_pool(int dev) {
    if (!defaults[dev].reuse[0] && !defaults[dev].reserved_high) prepare(&defaults[dev], dev);
    return &defaults[dev];
}
struct emu_pool *emu_current_pool(int dev) { return current[dev] ? current[dev] : emu_default_pool(dev); }
void emu_set_current_pool(int dev, struct emu_pool *pool) { current[dev] = pool; }
struct emu_pool *emu_pool_new(int dev) {
    struct emu_pool *pool = calloc(1, sizeof *pool);
    prepare(pool, dev);
    emu_lock();
    pool->next = created;
    created = pool;
    emu_unlock();
    return pool;
}

/* 0: free to use; 1: only behind a dependency; 2: not now. */
static int obstacle(const struct emu_pool *pool, const struct emu_span *span, void *stream) {
    if (span->freed_on == stream || span->freed_at <= emu_now()) return 0;
    return pool->reuse[REUSE_INTERNAL - 1] ? 1 : 2;
}
static int bin(size_t size) { return 63 - __builtin_clzll(size); }
static struct emu_span *fit(struct emu_pool *pool, size_t size, void *stream, int allowed) {
    struct emu_span *best = NULL;
    int best_bin = 0;
    for (struct emu_region *line = pool->regions.first; line; line = line->next) {
        if (line->size - line->used < size) continue;
        for (struct emu_span *span = line->first; span; span = span->next) {
            if (span->used || span->size < size || obstacle(pool, span, stream) > allowed) continue;
            int own = bin(span->size) == bin(size) ? 64 : bin(span->size); /* its own bin comes last */
            if (best && (own > best_bin || (own == best_bin && span->free_since < best->free_since)))
                continue;
            best = span;
            best_bin = own;
        }
    }
    return best;
}

/* Whole steps of a free run. */
static size_t whole_steps(const struct emu_span *span, uintptr_t *from) {
    if (span->used) return 0;
    *from = emu_round_up(span->base, STEP);
    uintptr_t to = (span->base + span->size) / STEP * STEP;
    return to > *from ? to - *from : 0;
}
/* ... that nothing on the device uses any more: they can go back to the driver, */
static size_t unused_steps(const struct emu_span *span, uintptr_t *from) {
    return span->freed_at > emu_now() ? 0 : whole_steps(span, from);
}
/* ... or that can go elsewhere in the line for this stream. */
static size_t movable_steps(const struct emu_span *span, const void *stream, uintptr_t *from) {
    if (span->freed_on != stream && span->freed_at > emu_now()) return 0;
    return span->freed_call + move_calls() > emu_now() ? 0 : whole_steps(span, from);
}
/* As emu_span_cut; what is cut off keeps the place of the whole in its bin. */
static struct emu_span *cut(struct emu_span *span, size_t size) {
    uint64_t since = span->free_since;
    struct emu_span *rest = emu_span_cut(span, size);
    if (rest && rest != span && !rest->used) rest->free_since = since;
    return rest;
}
static struct emu_span *take(struct emu_span *span, size_t size) {
    cut(span, size);
    return emu_span_take(span, size);
}
/* Returns the hole. */
static struct emu_span *unmap(struct emu_pool *pool, struct emu_span *span, uintptr_t from, size_t size) {
    if (from > span->base) span = cut(span, from - span->base);
    take(span, size)->hole = 1;
    pool->reserved -= size;
    emu_uncharge(emu_card(pool->dev), size, 1);
    if (span->next && span->next->hole) {
        if (span->next == pool->end) pool->end = span;
        emu_span_absorb_next(span);
    }
    if (span->previous && span->previous->hole) {
        if (span == pool->end) pool->end = span->previous;
        span = span->previous;
        emu_span_absorb_next(span);
    }
    return span;
}
static struct emu_span *largest_whole(struct emu_pool *pool, const void *stream,
                                      const struct emu_span *but) {
    struct emu_span *found = NULL;
    size_t most = 0;
    uintptr_t from;
    for (struct emu_region *line = pool->regions.first; line; line = line->next)
        for (struct emu_span *span = line->first; span; span = span->next) {
            size_t size = span == but ? 0 : movable_steps(span, stream, &from);
            if (size <= most) continue;
            most = size;
            found = span;
        }
    return found;
}
/* Free steps are too scattered for the request (it would have fitted): their memory is mapped anew
 * at the end of the line. */
static void take_apart(struct emu_pool *pool, size_t wanted, const void *stream,
                       const struct emu_span *but) {
    struct emu_span *span;
    while (wanted && (span = largest_whole(pool, stream, but))) {
        uintptr_t from = 0;
        size_t size = movable_steps(span, stream, &from);
        if (size > wanted) size = wanted;
        unmap(pool, span, from, size);
        wanted -= size;
    }
}
/* The hole at the end of a line with room for the request. */
static struct emu_span *end_of_line(struct emu_pool *pool, size_t size) {
    if (pool->end && pool->end->size >= size) return pool->end;
    size_t line = size > LINE ? size : LINE;
    uintptr_t base = emu_arena_take(line, STEP);
    if (!base && line > size) base = emu_arena_take(line = size, STEP); /* little address space */
    if (!base) return NULL;
    struct emu_region *region = emu_region_new(&pool->regions, base, line, pool->dev);
    pool->end = emu_span_take(region->first, line);
    pool->end->hole = 1;
    return pool->end;
}
static struct emu_span *grow(struct emu_pool *pool, size_t size, void *stream) {
    struct emu_span *end = end_of_line(pool, emu_round_up(size, STEP));
    if (!end) return NULL;
    struct emu_span *before = end->previous;
    if (before && (before->used || obstacle(pool, before, stream) > 1)) before = NULL;
    size_t need = emu_round_up(size - (before ? before->size : 0), STEP);
    take_apart(pool, need, stream, before);
    if (emu_charge(emu_card(pool->dev), need, 1)) return NULL;
    pool->reserved += need;
    if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
    pool->end = emu_span_cut(end, need);
    end->hole = 0;
    end->freed_at = end->freed_call = 0;
    return emu_span_give(end);
}
static void shrink(struct emu_pool *pool, uint64_t keep) {
    for (struct emu_region *line = pool->regions.first; line; line = line->next)
        for (struct emu_span *span = line->first; span; span = span->next) {
            if (pool->reserved <= keep) return;
            uintptr_t from;
            size_t size = unused_steps(span, &from), most = (pool->reserved - keep) / STEP * STEP;
            if (size > most) size = most;
            if (size) span = unmap(pool, span, from, size);
        }
    if (pool->reserved) return;
    for (struct emu_region *line; (line = pool->regions.first);) {
        emu_arena_give(line->base);
        emu_region_drop(&pool->regions, line);
    }
    pool->end = NULL;
}

int emu_pool_alloc(struct emu_pool *pool, size_t size, void *handle, void **out) {
    int error = emu_context(pool->dev);
    if (error) return error;
    if (size > (size_t)1 << 46) return EMU_OUT_OF_MEMORY;
    void *stream = emu_stream_of(handle);
    size_t asked = size;
    size = emu_round_up(size, BLOCK);
    emu_tick();
    emu_lock();
    struct emu_span *span = fit(pool, size, stream, 0);
    if (!span) span = fit(pool, size, stream, 1);
    if (!span) span = grow(pool, size, stream);
    if (!span) { /* as the driver does: give back what is free, then try once more */
        emu_wait_until(emu_now() + (uint64_t)emu_config.lag_calls);
        shrink(pool, 0);
        span = fit(pool, size, stream, 1);
        if (!span) span = grow(pool, size, stream);
    }
    if (span) {
        take(span, size);
        pool->used += asked; /* a real pool counts it unrounded */
        if (pool->used > pool->used_high) pool->used_high = pool->used;
        emu_range_add((struct emu_range){span->base, size, asked, pool->dev, EMU_KIND_POOL, span, pool});
        *out = (void *)span->base;
    }
    emu_unlock();
    return span ? EMU_OK : EMU_OUT_OF_MEMORY;
}

int emu_pool_free(void *pointer, void *handle) {
    if (!pointer) return EMU_OK;
    int error = EMU_INVALID_VALUE;
    struct emu_stream *stream = emu_stream_of(handle);
    emu_lock();
    struct emu_range *range = emu_range_at((uintptr_t)pointer);
    int ok = range && range->kind == EMU_KIND_POOL && range->base == (uintptr_t)pointer;
    if (ok && !(error = emu_stream_work(handle))) {
        range->pool->used -= range->charged;
        range->span->freed_on = stream;
        range->span->freed_at = stream->busy_until;
        range->span->freed_call = emu_now();
        emu_span_give(range->span);
        emu_range_remove(range);
    }
    emu_unlock();
    return error;
}

int emu_pool_trim(struct emu_pool *pool, size_t keep) {
    emu_lock();
    shrink(pool, keep);
    emu_unlock();
    return EMU_OK;
}
static void release_idle(struct emu_pool *pool) {
    if (pool->reserved > pool->threshold) shrink(pool, pool->threshold);
}
void emu_pools_release(int dev) {
    if (!defaults[dev].reserved && !created) return;
    emu_lock();
    release_idle(&defaults[dev]);
    for (struct emu_pool *pool = created; pool; pool = pool->next)
        if (pool->dev == dev) release_idle(pool);
    emu_unlock();
}

static void empty(struct emu_pool *pool) {
    for (struct emu_region *line = pool->regions.first; line; line = line->next)
        for (struct emu_span *span = line->first; span; span = span->next) {
            if (!span->used) span->freed_at = 0;
            if (!span->used || span->hole) continue;
            emu_range_remove(emu_range_at(span->base));
            span->freed_at = 0;
            span = emu_span_give(span);
            span->freed_at = 0;
        }
    pool->used = 0;
    shrink(pool, 0);
}
void emu_pools_reset(int dev) {
    emu_lock();
    empty(&defaults[dev]);
    for (struct emu_pool *pool = created; pool; pool = pool->next)
        if (pool->dev == dev) empty(pool);
    emu_unlock();
}
int emu_pool_destroy(struct emu_pool *pool) {
    emu_lock();
    struct emu_pool **at = &created;
    while (*at && *at != pool) at = &(*at)->next;
    int ok = *at != NULL;
    if (ok) {
        empty(pool);
        *at = pool->next;
        if (current[pool->dev] == pool) current[pool->dev] = NULL;
        free(pool);
    }
    emu_unlock();
    return ok ? EMU_OK : EMU_INVALID_VALUE;
}

int emu_pool_get(struct emu_pool *pool, int attribute, void *value) {
    const uint64_t figures[] = {pool->threshold, pool->reserved, pool->reserved_high, pool->used,
                                pool->used_high};
    if (attribute < REUSE_EVENT || attribute > USED_HIGH) return EMU_INVALID_VALUE;
    if (attribute < RELEASE_THRESHOLD) *(int *)value = pool->reuse[attribute - 1];
    else *(uint64_t *)value = figures[attribute - RELEASE_THRESHOLD];
    return EMU_OK;
}
int emu_pool_set(struct emu_pool *pool, int attribute, void *value) {
    switch (attribute) {
    case REUSE_EVENT: case REUSE_OPPORTUNISTIC: case REUSE_INTERNAL:
        pool->reuse[attribute - 1] = *(int *)value;
        return EMU_OK;
    case RELEASE_THRESHOLD: pool->threshold = *(uint64_t *)value; return EMU_OK;
    case RESERVED_HIGH: pool->reserved_high = pool->reserved; return EMU_OK;
    case USED_HIGH: pool->used_high = pool->used; return EMU_OK;
    default: return EMU_INVALID_VALUE;
    }
}
