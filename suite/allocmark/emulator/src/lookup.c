/* Names to functions, over the table that the build generates from names/cuda.txt. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *key, const void *entry) {
    return strcmp(key, ((const struct emu_name *)entry)->name);
}
static const struct emu_name *find(const char *name) {
    return bsearch(name, emu_names, emu_name_count, sizeof *emu_names, compare);
}

/* Callers give the bare name and the driver picks the newest version of it. Ours are written to
 * the signature of the newest that is implemented; a stub is better than nothing, because a
 * framework that misses one name stops. */
void *emu_symbol(const char *name) {
    const struct emu_name *stub = NULL;
    for (int version = 3; version >= 1; version--) {
        char full[128];
        snprintf(full, sizeof full, version > 1 ? "%s_v%d" : "%s", name, version);
        const struct emu_name *entry = find(full);
        if (entry && entry->function != entry->stub) return entry->function;
        if (entry) stub = entry;
    }
    return stub ? stub->function : NULL;
}
