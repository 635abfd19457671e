/* Two fixed pieces of work that no allocator of a GPU has a part in: how is this core just now?
 *
 * The chain of dependent multiplications takes as long as the core's frequency says, whoever shares
 * the core: a neighbour on the hyper-thread slowed it by 2 %, the core's own frequency steps by 15 %.
 * The errand does what a caching allocator does at a hit (a lock, a search in a sorted table, a small
 * block of host memory): a neighbour slows it as it slows a hit, by 70 %. So the chain tells how fast
 * the core runs, and errand over chain whether it is ours alone, at any frequency.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define MULTIPLICATIONS 480
#define ROUNDS 48
#define ENTRIES 256
#define STEP 977u
#define LIVE 8

static int64_t since(const struct timespec *begin, const struct timespec *end)
{
    return (int64_t)(end->tv_sec - begin->tv_sec) * 1000000000 + (end->tv_nsec - begin->tv_nsec);
}

static int64_t chain(int32_t clock)
{
    uint64_t product = 3;
    struct timespec begin, end;
    clock_gettime(clock, &begin);
    for (int i = 0; i < MULTIPLICATIONS; i++) {
        product *= product;
        __asm__ volatile("" : "+r"(product)); /* So that the compiler takes every step. */
    }
    clock_gettime(clock, &end);
    return since(&begin, &end);
}

static int64_t errand(int32_t clock)
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
    return since(&begin, &end);
}

/* Writes the nanoseconds of the chain and of the errand. */
void am_reference(int32_t clock, int64_t *chain_ns, int64_t *errand_ns)
{
    *chain_ns = chain(clock);
    *errand_ns = errand(clock);
}
