/* A fixed piece of work that no allocator of a GPU has a part in: how fast is this core just now?
 *
 * It does what a caching allocator does at a hit (a lock, a search in a sorted table, a small
 * block of host memory), since only like work is slowed alike by whoever shares the core. A chain
 * of arithmetic was tried: a neighbour on the hyper-thread slowed it by 15 % and a hit by 80 %, so
 * it could not tell a shared core from an own one.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 48
#define ENTRIES 256
#define STEP 977u
#define LIVE 8

int64_t am_reference(int32_t clock)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static volatile uint64_t sink; /* So that the compiler keeps the work. */
    static uint64_t table[ENTRIES];
    uint64_t *live[LIVE] = {0};
    uint64_t sum = 0;
    struct timespec begin, end;
    for (uint64_t i = 0; i < ENTRIES; i++)
        table[i] = i * STEP;
    clock_gettime(clock, &begin);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        uint64_t wanted = i * 2654435761u % (ENTRIES * STEP);
        int low = 0, high = ENTRIES;
        while (low < high) {
            int middle = (low + high) / 2;
            if (table[middle] < wanted)
                low = middle + 1;
            else
                high = middle;
        }
        sum += (uint64_t)low;
        free(live[i % LIVE]);
        live[i % LIVE] = malloc(48 + i % 5 * 32);
        if (live[i % LIVE])
            *live[i % LIVE] = sum;
        pthread_mutex_unlock(&lock);
    }
    for (int i = 0; i < LIVE; i++)
        free(live[i]);
    clock_gettime(clock, &end);
    sink = sum;
    return (int64_t)(end.tv_sec - begin.tv_sec) * 1000000000 + (end.tv_nsec - begin.tv_nsec);
}
