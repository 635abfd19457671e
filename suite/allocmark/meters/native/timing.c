/* The native timing loop: allocator calls through function pointers, timed by this file's clock.
 *
 * Everything a loop needs (sizes, counts, the order of frees, room for the readings) is decided
 * by the caller beforehand: between two readings of the clock there is nothing but the calls, the
 * test of their return code and the loop itself. What that costs is measured by the same loops
 * over the empty functions below, and is subtracted from nothing.
 *
 * Every function returns 0, or the first non-zero code that a call returned; blocks that were
 * allocated until then have been freed. Times are nanoseconds.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef int runtime_alloc(void **block, size_t bytes);
typedef int runtime_alloc_async(void **block, size_t bytes, void *stream);
typedef int runtime_free_async(void *block, void *stream);
typedef int aoti_alloc(uint64_t bytes, void **block);
typedef int plain_free(void *block);
typedef int sized_free(void *block, size_t bytes);
typedef int synchronize(void *stream);

enum shape { RUNTIME, RUNTIME_ASYNC, AOTI, SIZED };

typedef struct {
    int32_t shape;
    int32_t clock;
    void *alloc;
    void *free;
    void *synchronize; /* cudaStreamSynchronize; may be null where nothing is completed */
    void *stream;
} calls;

#define BAD_SHAPE (-1)
#define NO_MEMORY (-2)
#define NO_THREAD (-3)

/* The shape is tested outside the timed loop: each case expands to a loop of its own. */
#define WITH_SHAPE(c, BODY)                                                                       \
    switch ((c)->shape) {                                                                         \
    case RUNTIME: {                                                                               \
        runtime_alloc *const f = (runtime_alloc *)(c)->alloc;                                     \
        plain_free *const g = (plain_free *)(c)->free;                                            \
        (void)f, (void)g;                                                                         \
        BODY(f(&block, bytes), g(block))                                                          \
    } break;                                                                                      \
    case RUNTIME_ASYNC: {                                                                         \
        runtime_alloc_async *const f = (runtime_alloc_async *)(c)->alloc;                         \
        runtime_free_async *const g = (runtime_free_async *)(c)->free;                            \
        void *const stream = (c)->stream;                                                         \
        (void)f, (void)g;                                                                         \
        BODY(f(&block, bytes, stream), g(block, stream))                                          \
    } break;                                                                                      \
    case AOTI: {                                                                                  \
        aoti_alloc *const f = (aoti_alloc *)(c)->alloc;                                           \
        plain_free *const g = (plain_free *)(c)->free;                                            \
        (void)f, (void)g;                                                                         \
        BODY(f(bytes, &block), g(block))                                                          \
    } break;                                                                                      \
    case SIZED: {                                                                                 \
        runtime_alloc *const f = (runtime_alloc *)(c)->alloc;                                     \
        sized_free *const g = (sized_free *)(c)->free;                                            \
        (void)f, (void)g;                                                                         \
        BODY(f(&block, bytes), g(block, bytes))                                                   \
    } break;                                                                                      \
    default:                                                                                      \
        return BAD_SHAPE;                                                                         \
    }

int am_empty_runtime_alloc(void **block, size_t bytes) { (void)block; (void)bytes; return 0; }
int am_empty_runtime_alloc_async(void **block, size_t bytes, void *stream)
{ (void)block; (void)bytes; (void)stream; return 0; }
int am_empty_runtime_free_async(void *block, void *stream) { (void)block; (void)stream; return 0; }
int am_empty_aoti_alloc(uint64_t bytes, void **block) { (void)bytes; (void)block; return 0; }
int am_empty_free(void *block) { (void)block; return 0; }
int am_empty_sized_free(void *block, size_t bytes) { (void)block; (void)bytes; return 0; }

static inline int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Two readings of a clock with nothing in between, `count` times. */
void am_clock(int32_t clock, int64_t count, int64_t *differences)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t begin = now(clock);
        differences[i] = now(clock) - begin;
    }
}

/* One batch of `count` alloc-and-free pairs; `total` is the time of the whole batch. */
int am_pairs(const calls *c, size_t bytes, int64_t count, int64_t *total)
{
    void *block = NULL;
    int code = 0;
    const clockid_t clock = c->clock;
    int64_t begin = 0;
#define BODY(ALLOC, FREE)                                                                         \
    begin = now(clock);                                                                           \
    for (int64_t i = 0; i < count; i++) {                                                         \
        if (__builtin_expect(code = ALLOC, 0)) return code;                                       \
        if (__builtin_expect(code = FREE, 0)) return code;                                        \
    }                                                                                             \
    *total = now(clock) - begin;
    WITH_SHAPE(c, BODY)
#undef BODY
    return 0;
}

/* One batch of `count` allocations, then one of as many frees in the given order. */
int am_many(const calls *c, size_t bytes, int64_t count, const int64_t *order, void **blocks,
            int64_t *alloc_total, int64_t *free_total)
{
    int code = 0;
    const clockid_t clock = c->clock;
    int64_t begin = 0, made = 0;
    void *block = NULL;
#define BODY(ALLOC, FREE)                                                                         \
    begin = now(clock);                                                                           \
    for (made = 0; made < count; made++) {                                                        \
        if (__builtin_expect(code = ALLOC, 0)) break;                                             \
        blocks[made] = block;                                                                     \
    }                                                                                             \
    *alloc_total = now(clock) - begin;                                                            \
    if (code) {                                                                                   \
        while (made--) { block = blocks[made]; FREE; }                                            \
        return code;                                                                              \
    }                                                                                             \
    begin = now(clock);                                                                           \
    for (int64_t i = 0; i < count; i++) {                                                         \
        block = blocks[order[i]];                                                                 \
        if (__builtin_expect(code = FREE, 0)) return code;                                        \
    }                                                                                             \
    *free_total = now(clock) - begin;
    WITH_SHAPE(c, BODY)
#undef BODY
    return 0;
}

/* `count` pairs timed one by one; then as many with a reading between alloc and free. */
int am_singles(const calls *c, size_t bytes, int64_t count, int64_t *pair, int64_t *alloc,
               int64_t *release)
{
    void *block = NULL;
    int code = 0;
    const clockid_t clock = c->clock;
#define BODY(ALLOC, FREE)                                                                         \
    for (int64_t i = 0; i < count; i++) {                                                         \
        int64_t begin = now(clock);                                                               \
        if (__builtin_expect(code = ALLOC, 0)) return code;                                       \
        if (__builtin_expect(code = FREE, 0)) return code;                                        \
        pair[i] = now(clock) - begin;                                                             \
    }                                                                                             \
    for (int64_t i = 0; i < count; i++) {                                                         \
        int64_t begin = now(clock);                                                               \
        if (__builtin_expect(code = ALLOC, 0)) return code;                                       \
        int64_t middle = now(clock);                                                              \
        if (__builtin_expect(code = FREE, 0)) return code;                                        \
        int64_t end = now(clock);                                                                 \
        alloc[i] = middle - begin;                                                                \
        release[i] = end - middle;                                                                \
    }
    WITH_SHAPE(c, BODY)
#undef BODY
    return 0;
}

/* One allocation: until the call returns, and until the stream is synchronized after it. */
int am_alloc(const calls *c, size_t bytes, void **made, int64_t *host, int64_t *complete)
{
    void *block = NULL;
    int code = 0;
    const clockid_t clock = c->clock;
    int64_t begin = 0, end = 0;
#define BODY(ALLOC, FREE)                                                                         \
    begin = now(clock);                                                                           \
    code = ALLOC;                                                                                 \
    end = now(clock);
    WITH_SHAPE(c, BODY)
#undef BODY
    if (code) return code;
    if (c->synchronize) code = ((synchronize *)c->synchronize)(c->stream);
    *complete = now(clock) - begin;
    *host = end - begin;
    *made = block;
    return code;
}

/* One free of a block of that size, likewise. */
int am_free(const calls *c, void *block, size_t bytes, int64_t *host, int64_t *complete)
{
    int code = 0;
    const clockid_t clock = c->clock;
    int64_t begin = 0, end = 0;
    (void)bytes;
#define BODY(ALLOC, FREE)                                                                         \
    begin = now(clock);                                                                           \
    code = FREE;                                                                                  \
    end = now(clock);
    WITH_SHAPE(c, BODY)
#undef BODY
    if (code) return code;
    if (c->synchronize) code = ((synchronize *)c->synchronize)(c->stream);
    *complete = now(clock) - begin;
    *host = end - begin;
    return code;
}

/* One pair, likewise: synchronized once, after both. */
int am_pair(const calls *c, size_t bytes, int64_t *host, int64_t *complete)
{
    void *block = NULL;
    int code = 0;
    const clockid_t clock = c->clock;
    int64_t begin = 0, end = 0;
#define BODY(ALLOC, FREE)                                                                         \
    begin = now(clock);                                                                           \
    if ((code = ALLOC)) return code;                                                              \
    code = FREE;                                                                                  \
    end = now(clock);
    WITH_SHAPE(c, BODY)
#undef BODY
    if (code) return code;
    if (c->synchronize) code = ((synchronize *)c->synchronize)(c->stream);
    *complete = now(clock) - begin;
    *host = end - begin;
    return code;
}

/* What a thread calls first, so that its allocations belong to its device and stream. */
typedef struct {
    int (*set_device)(int device);                                    /* cudaSetDevice */
    int (*create_guard)(void *stream, int32_t device, void **guard);  /* null outside torch */
    int (*delete_guard)(void *guard);
    int32_t device;
} entry;

typedef struct {
    calls c;
    const entry *e;
    size_t bytes;
    int64_t count, begin, end;
    atomic_int *waiting;
    atomic_int *aborted;
    int code;
} worker;

static int warm(worker *w)
{
    int64_t ignored;
    return am_pairs(&w->c, w->bytes, 2, &ignored);
}

static void *work(void *argument)
{
    worker *const w = argument;
    void *guard = NULL;
    int64_t ignored;
    if (w->e->set_device) w->code = w->e->set_device(w->e->device);
    if (!w->code && w->e->create_guard)
        w->code = w->e->create_guard(w->c.stream, w->e->device, &guard);
    if (!w->code) w->code = warm(w);
    /* All spin until the last is ready; yielding, since there may be fewer cores than threads. */
    atomic_fetch_sub(w->waiting, 1);
    while (atomic_load(w->waiting) > 0 && !atomic_load(w->aborted)) sched_yield();
    w->begin = now(w->c.clock);
    if (!w->code && !atomic_load(w->aborted)) w->code = am_pairs(&w->c, w->bytes, w->count, &ignored);
    w->end = now(w->c.clock);
    if (guard) w->e->delete_guard(guard);
    return NULL;
}

/* `threads` threads, each on its stream, `count` pairs each; `total` from the first one's start
 * to the last one's end. */
int am_threads(const calls *c, const entry *e, void *const *streams, int32_t threads, size_t bytes,
               int64_t count, int64_t *total)
{
    worker *workers = calloc((size_t)threads, sizeof *workers);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    atomic_int waiting = threads, aborted = 0;
    int code = 0, started = 0;
    if (!workers || !ids) {
        code = NO_MEMORY;
        goto out;
    }
    for (; started < threads; started++) {
        worker *w = &workers[started];
        *w = (worker){.c = *c, .e = e, .bytes = bytes, .count = count, .waiting = &waiting,
                      .aborted = &aborted};
        w->c.stream = streams[started];
        if (pthread_create(&ids[started], NULL, work, w)) {
            code = NO_THREAD;
            atomic_store(&aborted, 1);
            break;
        }
    }
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (int i = 0; i < started; i++) {
        pthread_join(ids[i], NULL);
        if (workers[i].begin < first) first = workers[i].begin;
        if (workers[i].end > last) last = workers[i].end;
        if (!code) code = workers[i].code;
    }
    *total = last - first;
out:
    free(ids);
    free(workers);
    return code;
}
