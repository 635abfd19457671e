/* Time on the emulated device: one tick for each driver call that adds or asks for work, so that
 * what is still pending at a given line of a program is the same in every run. */
#define _GNU_SOURCE
#include "emu.h"
#include <time.h>

static uint64_t ticks;

uint64_t emu_tick(void) { return __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED); }
uint64_t emu_now(void) { return __atomic_load_n(&ticks, __ATOMIC_RELAXED); }

/* Waiting is what makes time pass: the clock jumps to the moment waited for. */
void emu_wait_until(uint64_t time) {
    uint64_t now = emu_now();
    while (now < time &&
           !__atomic_compare_exchange_n(&ticks, &now, time, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

uint64_t emu_wall_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
