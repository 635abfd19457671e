/* What device memory is known to hold: bytes copied to it, until any other work of the device.
 * A kernel may change every byte, so after one nothing is known any more. A program that sends
 * numbers through the device and back (torch's DDP: the sizes of its buckets) gets them. */
#define _GNU_SOURCE
#include "emu.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, MOST_BYTES = 1 << 20, MOST_BYTES_IN_ALL = 64 << 20 };
static struct known {
    uintptr_t at;
    size_t size;
    unsigned char *bytes;
} known[MOST]; /* the oldest first */
static int count;
static size_t bytes_in_all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void drop(int place) {
    free(known[place].bytes);
    bytes_in_all -= known[place].size;
    memmove(known + place, known + place + 1, (size_t)(--count - place) * sizeof *known);
}

/* Forget what overlaps with a range. Lock held. */
static void overwrite(uintptr_t at, size_t size) {
    for (int i = count - 1; i >= 0; i--)
        if (at < known[i].at + known[i].size && known[i].at < at + size) drop(i);
}

void emu_contents_forget(void) {
    if (!__atomic_load_n(&count, __ATOMIC_RELAXED)) return;
    pthread_mutex_lock(&lock);
    while (count) drop(count - 1);
    pthread_mutex_unlock(&lock);
}

void emu_contents_set(const void *to, const void *bytes, size_t size) {
    pthread_mutex_lock(&lock);
    overwrite((uintptr_t)to, size);
    unsigned char *kept = bytes && size <= MOST_BYTES ? malloc(size) : NULL;
    if (kept) {
        while (count == MOST || (count && bytes_in_all + size > MOST_BYTES_IN_ALL)) drop(0);
        memcpy(kept, bytes, size);
        bytes_in_all += size;
        known[count++] = (struct known){(uintptr_t)to, size, kept};
    }
    pthread_mutex_unlock(&lock);
}

void *emu_contents(const void *from, size_t size) {
    void *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count && !found; i++) {
        size_t offset = (uintptr_t)from - known[i].at;
        if ((uintptr_t)from < known[i].at || offset > known[i].size || size > known[i].size - offset)
            continue;
        if ((found = malloc(size))) memcpy(found, known[i].bytes + offset, size);
    }
    pthread_mutex_unlock(&lock);
    return found;
}
