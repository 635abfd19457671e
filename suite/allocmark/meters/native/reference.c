/* A fixed piece of work that no allocator has a part in: how fast is this core just now?
 *
 * Four chains of arithmetic and table look-ups keep the execution units about as busy as an
 * allocator's own code does, so that whoever shares the core (a hyper-thread, another virtual
 * machine) slows both alike.
 */
#include <stdint.h>
#include <time.h>

#define ROUNDS 512
#define ENTRIES 512

int64_t am_reference(int32_t clock)
{
    static uint64_t table[ENTRIES];
    static volatile uint64_t sink; /* So that the compiler keeps the work. */
    struct timespec begin, end;
    uint64_t a = 1, b = 2, c = 3, d = 4;
    clock_gettime(clock, &begin);
    for (int i = 0; i < ROUNDS; i++) {
        a = a * 6364136223846793005u + table[b % ENTRIES];
        b = (b ^ (b << 13)) + table[c % ENTRIES];
        c = c * 2862933555777941757u + table[d % ENTRIES];
        d = (d ^ (d >> 7)) + a;
        table[(a >> 32) % ENTRIES] = d | 1;
    }
    clock_gettime(clock, &end);
    sink = a + b + c + d;
    return (int64_t)(end.tv_sec - begin.tv_sec) * 1000000000 + (end.tv_nsec - begin.tv_nsec);
}
