/* The state that all processes of one emulation share: a file in /dev/shm, one slot a process.
 * A slot names its owner by pid and start time; whoever looks drops the slots of the dead, which
 * is how a process that was killed gives its memory back. */
#define _GNU_SOURCE
#include "emu.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC 0x616d656du
#define MAX_PROCESSES 512

struct slot {
    uint32_t pid;
    uint32_t initialised;                /* a bit for each card: its driver was initialised */
    uint64_t start_time;                 /* clock ticks since boot: pids are reused */
    uint64_t listed[EMU_MAX_DEVICES];    /* bytes NVML lists for the process */
    uint64_t unlisted[EMU_MAX_DEVICES];  /* bytes missing on the card, listed for nobody */
};
struct shared {
    uint32_t magic, slots_used;
    pthread_mutex_t lock;
    struct slot slots[MAX_PROCESSES];
};
_Static_assert(sizeof(struct shared) <= 256 << 10, "the launcher takes that much of /dev/shm");
static struct shared *shared;
static struct slot *own;

/* Returns 0 for a process that is gone or a zombie (its memory is already back). */
static uint64_t start_time_of(uint32_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0) return 0;
    text[got] = 0;
    char *after = strrchr(text, ')'); /* the command may hold spaces and parentheses */
    if (!after || after[2] == 'Z' || after[2] == 'X') return 0;
    char *field = after + 2;
    for (int i = 3; i < 22 && field; i++) field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

int emu_shared_open(const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return 0;
    flock(file, LOCK_EX);
    int ok = ftruncate(file, sizeof *shared) == 0;
    if (ok) {
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ok = shared != MAP_FAILED;
        if (!ok) shared = NULL;
    }
    if (ok && shared->magic != MAGIC) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&shared->lock, &attributes);
        shared->magic = MAGIC;
    }
    flock(file, LOCK_UN); /* closing is not enough: the mapping keeps the file open */
    close(file);
    return ok;
}

void emu_shared_after_fork(void) { own = NULL; }

static void lock(void) {
    if (pthread_mutex_lock(&shared->lock) == EOWNERDEAD) pthread_mutex_consistent(&shared->lock);
}
static void unlock(void) { pthread_mutex_unlock(&shared->lock); }

static void drop_dead(void) {
    for (uint32_t i = 0; i < shared->slots_used; i++) {
        struct slot *slot = &shared->slots[i];
        if (slot->pid && slot != own && start_time_of(slot->pid) != slot->start_time)
            memset(slot, 0, sizeof *slot);
    }
}

static struct slot *own_slot(void) {
    if (own) return own;
    drop_dead();
    for (uint32_t i = 0; i < MAX_PROCESSES; i++) {
        if (shared->slots[i].pid) continue;
        own = &shared->slots[i];
        own->pid = (uint32_t)getpid();
        own->start_time = start_time_of(own->pid);
        if (i >= shared->slots_used) shared->slots_used = i + 1;
        return own;
    }
    return NULL;
}

static size_t used(int card) {
    size_t sum = 0;
    uint32_t initialised = 0;
    for (uint32_t i = 0; i < shared->slots_used; i++) {
        sum += shared->slots[i].listed[card] + shared->slots[i].unlisted[card];
        initialised |= shared->slots[i].initialised;
    }
    /* Once a card, however many processes: the last one to end gives it back. */
    return sum + (initialised >> card & 1 ? (size_t)emu_config.driver_init_bytes : 0);
}
static size_t available(int card) {
    size_t capacity = (size_t)emu_config.memory_bytes, taken = used(card);
    return taken < capacity ? capacity - taken : 0;
}

/* The driver keeps the card's last page, which it reports as free: an H200 refused 2 MiB where 3.56
 * were free (pressure). With this 131 of 133 runs of torch's capacity searches end at the event at
 * which they end there, 120 of 129 without. */
static int has_room(int card, size_t bytes) { return bytes + EMU_PAGE <= available(card); }

int emu_charge(int card, size_t bytes, int listed) {
    lock();
    struct slot *slot = own_slot();
    if (slot && !has_room(card, bytes)) drop_dead();
    int ok = slot && has_room(card, bytes);
    if (ok) (listed ? slot->listed : slot->unlisted)[card] += bytes;
    unlock();
    return ok ? EMU_OK : EMU_OUT_OF_MEMORY;
}

int emu_charge_init(const int *cards, int count) {
    lock();
    struct slot *slot = own_slot();
    for (int i = 0; slot && i < count; i++) slot->initialised |= 1u << cards[i];
    unlock();
    return slot ? EMU_OK : EMU_OUT_OF_MEMORY;
}

void emu_uncharge(int card, size_t bytes, int listed) {
    lock();
    struct slot *slot = own_slot();
    if (slot) (listed ? slot->listed : slot->unlisted)[card] -= bytes;
    unlock();
}

void emu_steal(int card, size_t bytes) {
    lock();
    struct slot *slot = own_slot();
    size_t room = available(card);
    if (slot) slot->unlisted[card] += bytes < room ? bytes : room;
    unlock();
}

size_t emu_card_used(int card) {
    if (!shared) return 0;
    lock();
    drop_dead();
    size_t sum = used(card);
    unlock();
    return sum;
}

int emu_card_processes(int card, struct emu_process_use *out, int room) {
    int count = 0;
    if (!shared) return 0;
    lock();
    drop_dead();
    for (uint32_t i = 0; i < shared->slots_used; i++) {
        struct slot *slot = &shared->slots[i];
        if (!slot->pid || !slot->listed[card]) continue;
        if (count < room) out[count] = (struct emu_process_use){slot->pid, slot->listed[card]};
        count++;
    }
    unlock();
    return count;
}
