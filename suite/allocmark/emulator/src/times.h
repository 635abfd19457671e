#ifndef TIMES_H
#define TIMES_H
#include "emu.h"

/* times.c: what calls take, where the launcher was asked for it. */
enum emu_timed_call {
    EMU_TIME_MALLOC,
    EMU_TIME_FREE,
    EMU_TIME_MALLOC_ASYNC, /* that needs memory the pool does not have */
    EMU_TIME_CREATE,
    EMU_TIME_RELEASE,
    EMU_TIMED_CALLS,
};
void emu_times_set(const char *key, const char *value); /* other keys are left alone */
API void emu_spend(enum emu_timed_call call, size_t bytes);
API void emu_spend_free(const void *pointer); /* before the block is gone */
API int emu_pool_alloc_timed(struct emu_pool *pool, size_t size, void *stream, void **out);
#endif
