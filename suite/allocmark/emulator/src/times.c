/* What driver calls take, where the launcher was asked for it (--times): lines of the configuration
 * "time_FUNCTION=BYTES:NS BYTES:NS ...", sizes ascending, from the profile. Without them no call
 * takes time of its own. The calling thread spins, as in the real driver: a sleep is too coarse. */
#define _GNU_SOURCE
#include "times.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 32 };
static const char *const names[EMU_TIMED_CALLS] = {"cudaMalloc", "cudaFree", "cudaMallocAsync",
                                                   "cuMemCreate", "cuMemRelease"};
static struct table {
    size_t count;
    struct { double bytes, ns; } points[MOST_POINTS];
} tables[EMU_TIMED_CALLS];

void emu_times_set(const char *key, const char *value) {
    for (int call = 0; call < EMU_TIMED_CALLS; call++) {
        if (strncmp(key, "time_", 5) || strcmp(key + 5, names[call])) continue;
        struct table *table = &tables[call];
        char *rest = (char *)value;
        for (table->count = 0; table->count < MOST_POINTS && *rest; table->count++) {
            table->points[table->count].bytes = strtod(rest, &rest);
            if (*rest++ != ':') break;
            table->points[table->count].ns = strtod(rest, &rest);
        }
        return;
    }
}

/* Straight between two points on logarithmic axes; level below the first, and above the last in
 * proportion to the size. */
static double ns_of(const struct table *table, double bytes) {
    size_t above = 0;
    while (above < table->count && table->points[above].bytes < bytes) above++;
    if (!above) return table->points[0].ns;
    double low = table->points[above - 1].bytes, low_ns = table->points[above - 1].ns;
    if (above == table->count) return low_ns * bytes / low;
    double high = table->points[above].bytes, high_ns = table->points[above].ns;
    return low_ns * exp(log(high_ns / low_ns) * log(bytes / low) / log(high / low));
}

static int timed(enum emu_timed_call call) { return tables[call].count != 0; }

void emu_spend(enum emu_timed_call call, size_t bytes) {
    if (!timed(call) || !bytes) return;
    uint64_t until = emu_wall_ns() + (uint64_t)ns_of(&tables[call], (double)bytes);
    while (emu_wall_ns() < until) {
    }
}

void emu_spend_free(const void *pointer) {
    struct emu_range range;
    if (timed(EMU_TIME_FREE) && pointer && emu_find(pointer, &range))
        emu_spend(EMU_TIME_FREE, range.size);
}

enum { RESERVED_CURRENT = 5 };
static uint64_t reserved(struct emu_pool *pool) {
    uint64_t bytes = 0;
    emu_pool_get(pool, RESERVED_CURRENT, &bytes);
    return bytes;
}
int emu_pool_alloc_timed(struct emu_pool *pool, size_t size, void *stream, void **out) {
    if (!timed(EMU_TIME_MALLOC_ASYNC)) return emu_pool_alloc(pool, size, stream, out);
    uint64_t before = reserved(pool);
    int error = emu_pool_alloc(pool, size, stream, out);
    if (!error && reserved(pool) > before) emu_spend(EMU_TIME_MALLOC_ASYNC, size);
    return error;
}
