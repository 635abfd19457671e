/* Allocations: the table of address ranges, and what each is charged on its card. Device memory
 * has no bytes behind it; host memory is real. */
#define _GNU_SOURCE
#include "emu.h"
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STEP ((size_t)512)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
void emu_lock(void) { pthread_mutex_lock(&mutex); }
void emu_unlock(void) { pthread_mutex_unlock(&mutex); }

/* libc's balanced tree; a key of one byte equals the range that it lies in. */
static void *ranges;
static int compare(const void *a, const void *b) {
    const struct emu_range *x = a, *y = b;
    if (x->base + x->size <= y->base) return -1;
    return y->base + y->size <= x->base;
}
void emu_range_add(struct emu_range range) {
    struct emu_range *copy = malloc(sizeof *copy);
    *copy = range;
    tsearch(copy, &ranges, compare);
}
struct emu_range *emu_range_at(uintptr_t address) {
    struct emu_range key = {.base = address, .size = 1};
    void *node = tfind(&key, &ranges, compare);
    return node ? *(struct emu_range **)node : NULL;
}
void emu_range_remove(struct emu_range *range) {
    tdelete(range, &ranges, compare);
    free(range);
}

static struct emu_span *take_small(int dev, size_t size) {
    struct emu_span *span = emu_place_small(dev, size);
    if (span || emu_charge(emu_card(dev), EMU_PAGE, 1)) return span;
    struct emu_span *home = emu_place_large(dev, EMU_PAGE);
    if (!home) {
        emu_uncharge(emu_card(dev), EMU_PAGE, 1);
        return NULL;
    }
    emu_add_page(dev, home);
    return emu_place_small(dev, size);
}

static struct emu_span *take_large(int dev, size_t charged) {
    if (emu_charge(emu_card(dev), charged, 1)) return NULL;
    struct emu_span *span = emu_place_large(dev, charged);
    if (!span) emu_uncharge(emu_card(dev), charged, 1);
    return span;
}

int emu_alloc(int dev, size_t size, void **out) {
    int error = emu_context(dev);
    if (error) return error;
    emu_tick();
    if (size > (size_t)1 << 46) return EMU_OUT_OF_MEMORY; /* rounding must not wrap */
    size = emu_round_up(size, STEP);
    size_t charged = size < EMU_PAGE ? 0 : emu_round_up(size, EMU_PAGE); /* 0: it shares a page */
    emu_lock();
    struct emu_span *span = charged ? take_large(dev, charged) : take_small(dev, size);
    if (span)
        emu_range_add((struct emu_range){span->base, size, charged, dev, EMU_KIND_DEVICE, span, NULL});
    emu_unlock();
    if (!span) return EMU_OUT_OF_MEMORY;
    *out = (void *)span->base;
    return EMU_OK;
}

int emu_alloc_host(size_t size, void **out) {
    size_t length = emu_round_up(size, 4096);
    void *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return EMU_OUT_OF_MEMORY;
    emu_lock();
    emu_range_add((struct emu_range){.base = (uintptr_t)base, .size = length, .kind = EMU_KIND_HOST});
    emu_unlock();
    *out = base;
    return EMU_OK;
}

static void release(struct emu_range *range) {
    int card = emu_card(range->dev);
    if (range->kind == EMU_KIND_HOST) munmap((void *)range->base, range->size);
    else if (range->kind == EMU_KIND_RESERVED) emu_unreserve(range->base);
    else if (range->charged) {
        emu_unplace_large(range->span);
        emu_uncharge(card, range->charged, 1);
    } else if (emu_unplace_small(range->span)) emu_uncharge(card, EMU_PAGE, 1);
    emu_range_remove(range);
}

int emu_free(void *pointer, enum emu_kind kind) {
    if (!pointer) return EMU_OK;
    emu_lock();
    struct emu_range *range = emu_range_at((uintptr_t)pointer);
    if (range && range->kind == EMU_KIND_POOL && kind == EMU_KIND_DEVICE) {
        emu_unlock();
        return emu_pool_free(pointer, NULL); /* cudaFree takes what cudaMallocAsync gave */
    }
    int ok = range && range->base == (uintptr_t)pointer && range->kind == kind;
    if (ok && kind == EMU_KIND_DEVICE) emu_tick();
    if (ok) release(range);
    emu_unlock();
    return ok ? EMU_OK : EMU_INVALID_VALUE;
}

int emu_find(const void *pointer, struct emu_range *out) {
    emu_lock();
    struct emu_range *range = emu_range_at((uintptr_t)pointer);
    if (range) *out = *range;
    emu_unlock();
    return range != NULL;
}

int emu_memory_info(int dev, size_t *free_bytes, size_t *total_bytes) {
    int error = emu_context(dev);
    if (error) return error;
    size_t total = (size_t)emu_config.memory_bytes, used = emu_card_used(emu_card(dev));
    *free_bytes = used < total ? total - used : 0;
    *total_bytes = total;
    return EMU_OK;
}

/* Everything that a device's context owned goes with it. */
static struct emu_range *found;
static int wanted_device;
static void find_owned(const void *node, VISIT visit, int depth) {
    (void)depth;
    struct emu_range *range = *(struct emu_range *const *)node;
    if ((visit == postorder || visit == leaf) && range->kind == EMU_KIND_DEVICE &&
        range->dev == wanted_device)
        found = range;
}
void emu_memory_reset(int dev) {
    emu_pools_reset(dev);
    emu_lock();
    wanted_device = dev;
    do {
        found = NULL;
        twalk(ranges, find_owned);
        if (found) release(found);
    } while (found);
    emu_unplace_context(dev);
    emu_unlock();
}

static int on_device(const void *pointer) {
    struct emu_range range;
    return emu_find(pointer, &range) && range.kind != EMU_KIND_HOST;
}
int emu_copy(void *to, const void *from, size_t size) {
    if (!size) return EMU_OK;
    void *held = on_device(from) ? emu_contents(from, size) : NULL;
    if (on_device(to)) emu_contents_set(to, on_device(from) ? held : from, size);
    else if (held) memcpy(to, held, size);
    else if (on_device(from)) {
        emu_warn_computed();
        memset(to, 0, size);
    } else memmove(to, from, size);
    free(held);
    return EMU_OK;
}
