/* Stream-ordered pools (cudaMallocAsync). The real pool lives in NVIDIA's driver; this is a model:
 *  - memory is reserved in steps of 32 MiB; a request takes the best fitting free run, and where
 *    none fits, a new step, into which steps that are wholly free go;
 *  - a block freed on a stream is reusable on it at once, on others when the free has completed,
 *    or sooner where the pool may add a dependency (its default);
 *  - whole free steps above the release threshold go back when something synchronises, or on trim. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)32 << 20)
#define BLOCK ((size_t)512)
enum attribute {
    REUSE_EVENT = 1, REUSE_OPPORTUNISTIC, REUSE_INTERNAL, RELEASE_THRESHOLD,
    RESERVED_CURRENT, RESERVED_HIGH, USED_CURRENT, USED_HIGH,
};

struct emu_pool {
    int dev;
    struct emu_regions regions;
    uint64_t threshold, reserved, reserved_high, used, used_high;
    int reuse[3]; /* event dependencies, opportunistic, internal dependencies */
    struct emu_pool *next;
};
static struct emu_pool defaults[EMU_MAX_DEVICES], *current[EMU_MAX_DEVICES], *created;

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
static struct emu_span *best_fit(struct emu_pool *pool, size_t size, void *stream, int allowed) {
    struct emu_span *best = NULL;
    for (struct emu_region *region = pool->regions.first; region; region = region->next) {
        if (region->size - region->used < size) continue;
        for (struct emu_span *span = region->first; span; span = span->next)
            if (!span->used && span->size >= size && (!best || span->size < best->size) &&
                obstacle(pool, span, stream) <= allowed)
                best = span;
    }
    return best;
}
static void give_back(struct emu_pool *pool, struct emu_region *region) {
    pool->reserved -= region->size;
    emu_uncharge(emu_card(pool->dev), region->size, 1);
    emu_arena_give(region->base);
    emu_region_drop(&pool->regions, region);
}
static int idle(const struct emu_region *region) {
    return !region->used && region->first->freed_at <= emu_now();
}
/* Free steps are too small for the request (it would have fitted): the driver maps their memory
 * anew, into the step that it adds. */
static void take_apart(struct emu_pool *pool, size_t wanted) {
    size_t got = 0;
    for (struct emu_region *region = pool->regions.first, *next; region && got < wanted; region = next) {
        next = region->next;
        if (!idle(region)) continue;
        got += region->size;
        give_back(pool, region);
    }
}
static struct emu_span *grow(struct emu_pool *pool, size_t size) {
    size_t step = emu_round_up(size, STEP);
    take_apart(pool, step);
    if (emu_charge(emu_card(pool->dev), step, 1)) return NULL;
    uintptr_t base = emu_arena_take(step, STEP);
    if (!base) {
        emu_uncharge(emu_card(pool->dev), step, 1);
        return NULL;
    }
    pool->reserved += step;
    if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
    return emu_region_new(&pool->regions, base, step, pool->dev)->first;
}
static void shrink(struct emu_pool *pool, uint64_t keep) {
    for (struct emu_region *region = pool->regions.first, *next; region; region = next) {
        next = region->next;
        if (idle(region) && pool->reserved - region->size >= keep) give_back(pool, region);
    }
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
    struct emu_span *span = best_fit(pool, size, stream, 0);
    if (!span) span = best_fit(pool, size, stream, 1);
    if (!span) span = grow(pool, size);
    if (!span) { /* as the driver does: give back what is free, then try once more */
        emu_wait_until(emu_now() + (uint64_t)emu_config.lag_calls);
        shrink(pool, 0);
        span = grow(pool, size);
    }
    if (span) {
        emu_span_take(span, size);
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
    for (struct emu_region *region = pool->regions.first; region; region = region->next)
        for (struct emu_span *span = region->first; span; span = span->next) {
            if (!span->used) continue;
            emu_range_remove(emu_range_at(span->base));
            span = emu_span_give(span);
            span->freed_at = 0;
        }
    for (struct emu_region *region = pool->regions.first; region; region = region->next)
        region->first->freed_at = 0;
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
