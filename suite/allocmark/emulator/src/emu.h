/* What the emulated libraries share. libcuda.so.1 holds all state; the runtime, NVML and
 * cuBLAS stand-ins are thin layers over the emu_* functions that it exports.
 * Devices are counted as the process sees them (CUDA_VISIBLE_DEVICES) unless a parameter is
 * called `card`: that is the number of the card itself, as NVML counts.
 * Error numbers are the driver's; the runtime's have the same values. */
#ifndef EMU_H
#define EMU_H
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

enum {
    EMU_OK = 0,
    EMU_INVALID_VALUE = 1,
    EMU_OUT_OF_MEMORY = 2,
    EMU_NOT_INITIALIZED = 3,
    EMU_NO_DEVICE = 100,
    EMU_INVALID_DEVICE = 101,
    EMU_INVALID_CONTEXT = 201,
    EMU_INVALID_HANDLE = 400,
    EMU_NOT_FOUND = 500,
    EMU_NOT_READY = 600,
    EMU_PEER_ENABLED = 704,
    EMU_LAUNCH_FAILED = 719,
    EMU_NOT_SUPPORTED = 801,
    EMU_CAPTURE_UNSUPPORTED = 900,
};

#define EMU_MAX_DEVICES 16
#define EMU_PAGE ((size_t)2 << 20) /* physical page of a real GPU */

static inline size_t emu_round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

/* config.c: what the launcher wrote into ALLOCMARK_EMULATOR_CONFIG, sizes in bytes. */
struct emu_config {
    char name[256], driver_version[64], state[256];
    int64_t cuda_version, compute_major, compute_minor, multiprocessors;
    int64_t devices, memory_bytes, nvml_reserved_bytes, lag_calls;
    int64_t driver_init_bytes;      /* missing on a card while any process has initialised the driver */
    int64_t context_bytes;          /* listed for the process in NVML */
    int64_t context_unlisted_bytes; /* missing on the card, listed for nobody */
    int64_t context_eager_bytes;    /* more with CUDA_MODULE_LOADING=EAGER and modules */
    int64_t first_kernel_bytes, first_blas_bytes, first_blas_eager_bytes;
};
API extern struct emu_config emu_config;
API void emu_setup(void);      /* read the configuration once */
API int emu_device_count(void);
API int emu_card(int dev);     /* visible device -> card */
void emu_config_load(void);
API void emu_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
API int emu_stub(const char *name, int *said); /* not emulated: say so once, return 801 */
API int emu_foreign_runtime(void *caller); /* says who, and what to do; the error */
void emu_warn_computed(void);       /* once a process: computed values are not emulated */

/* fault.c: the gate that every entry point passes. */
struct emu_site {
    const char *name;
    int is_nvml;
    uint64_t calls;
};
API int emu_enter(struct emu_site *site);

/* clock.c: time is counted in driver calls that touch the device's work queue. */
API uint64_t emu_tick(void);
API uint64_t emu_now(void);
API void emu_wait_until(uint64_t time);
API uint64_t emu_wall_ns(void);

/* shared.c: bytes in use on each card, seen by every process of one emulation. */
struct emu_process_use {
    unsigned pid;
    size_t bytes;
};
int emu_shared_open(const char *path);
void emu_shared_after_fork(void);
int emu_charge(int card, size_t bytes, int listed);
int emu_charge_init(const int *cards, int count); /* this process has initialised the driver */
void emu_uncharge(int card, size_t bytes, int listed);
void emu_steal(int card, size_t bytes); /* a neighbour takes what it can get of `bytes` */
API size_t emu_card_used(int card);
API int emu_card_processes(int card, struct emu_process_use *out, int room); /* returns the count */

/* context.c */
API int *emu_current_device(void); /* this thread's device */
API int emu_initialise(void);      /* cuInit, or a call that implies it */
int emu_initialised(void);
API int emu_context(int dev);      /* make sure that the primary context exists */
API int emu_runtime_keep(int dev); /* the same, for the runtime */
API int emu_runtime_context(int dev); /* the same, and current on this thread */
API int emu_context_active(int dev);
API int emu_peer_enable(int dev, int peer); /* of two that have a context */
API void emu_context_destroy(int dev);
API void emu_module_registered(void);
API int emu_first_kernel(int dev);
API int emu_first_blas(int dev);

/* memory.c: every address range the program may hold. */
enum emu_kind { EMU_KIND_NONE, EMU_KIND_DEVICE, EMU_KIND_HOST, EMU_KIND_RESERVED, EMU_KIND_POOL };
struct emu_region;
struct emu_span;
struct emu_pool;
struct emu_range {
    uintptr_t base;
    size_t size;    /* as handed out */
    size_t charged; /* physical bytes of its own; of a pool's block: bytes asked for */
    int dev;
    enum emu_kind kind;
    struct emu_span *span;
    struct emu_pool *pool;
};
void emu_lock(void), emu_unlock(void);
void emu_range_add(struct emu_range range);               /* lock held */
struct emu_range *emu_range_at(uintptr_t address);        /* lock held; interior too */
void emu_range_remove(struct emu_range *range);           /* lock held */
void emu_memory_reset(int dev);
API int emu_alloc(int dev, size_t size, void **out);
API int emu_alloc_host(size_t size, void **out);
API int emu_free(void *pointer, enum emu_kind kind);
API int emu_find(const void *pointer, struct emu_range *out);
API int emu_memory_info(int dev, size_t *free_bytes, size_t *total_bytes);
API int emu_copy(void *to, const void *from, size_t size);

/* contents.c: bytes that device memory is known to hold. */
void emu_contents_forget(void);
void emu_contents_set(const void *to, const void *bytes, size_t size); /* bytes NULL: not known */
void *emu_contents(const void *from, size_t size); /* a copy for the caller to free; NULL: not known */

/* regions.c and placement.c: where an allocation gets its address. Lock held. */
struct emu_span {
    uintptr_t base;
    size_t size;
    int used;
    int hole; /* of a pool: nothing is mapped here; counts as used */
    uint64_t free_since; /* which free span came to be first: a count, not a time */
    void *freed_on; /* stream of the last free, for pools */
    uint64_t freed_at;   /* when the work before that free is over */
    uint64_t freed_call; /* when that free was called */
    struct emu_region *region;
    struct emu_span *previous, *next;
};
struct emu_region {
    uintptr_t base;
    size_t size, used;
    int dev;
    struct emu_span *first, *home; /* home: the span of the outer region that this one lives in */
    struct emu_region *previous, *next;
};
struct emu_regions {
    struct emu_region *first, *last;
};
struct emu_region *emu_region_new(struct emu_regions *list, uintptr_t base, size_t size, int dev);
void emu_region_drop(struct emu_regions *list, struct emu_region *region);
struct emu_span *emu_span_cut(struct emu_span *span, size_t size);  /* in two; returns the second */
struct emu_span *emu_span_take(struct emu_span *span, size_t size); /* split a free span */
void emu_span_absorb_next(struct emu_span *span);
struct emu_span *emu_span_give(struct emu_span *span);              /* merge with free neighbours */
uintptr_t emu_arena_take(size_t size, size_t alignment);            /* 0: no address space */
void emu_arena_give(uintptr_t base);
uintptr_t emu_reserve(size_t size, size_t alignment);               /* for cuMemMap; 0: none left */
void emu_unreserve(uintptr_t base);
void emu_place_context(int dev); /* what a new context takes of the address space */
void emu_unplace_context(int dev); /* all of it, when everything in it is free */
struct emu_span *emu_place_large(int dev, size_t size);
void emu_unplace_large(struct emu_span *span);
struct emu_span *emu_place_small(int dev, size_t size); /* NULL: a page must be added */
int emu_unplace_small(struct emu_span *span); /* 1: its page became empty and is gone */
void emu_add_page(int dev, struct emu_span *home);

/* stream.c */
struct emu_graph {
    size_t nodes;
};
struct emu_stream {
    int dev, priority;
    unsigned flags;
    uint64_t busy_until;
    struct emu_graph *capture;
    unsigned long long capture_id;
};
struct emu_event {
    int dev;
    unsigned flags;
    uint64_t done_at, recorded_ns;
};
API struct emu_stream *emu_stream_of(void *handle); /* resolves the default streams too */
API int emu_stream_create(unsigned flags, int priority, void **out);
API int emu_stream_destroy(void *handle);
API int emu_stream_work(void *handle); /* one piece of work enters the stream */
API int emu_stream_copy(void *handle); /* the same, and it changes no memory but its target */
API int emu_stream_query(void *handle);
API int emu_stream_synchronize(void *handle);
API int emu_stream_wait_event(void *handle, struct emu_event *event);
API int emu_device_synchronize(int dev);
API int emu_event_create(unsigned flags, struct emu_event **out);
API int emu_event_record(struct emu_event *event, void *stream);
API int emu_event_query(struct emu_event *event);
API int emu_event_synchronize(struct emu_event *event);
API int emu_event_elapsed(float *milliseconds, struct emu_event *from, struct emu_event *to);

/* pool.c: stream-ordered allocation. */
API struct emu_pool *emu_default_pool(int dev);
API struct emu_pool *emu_current_pool(int dev);
API void emu_set_current_pool(int dev, struct emu_pool *pool);
API struct emu_pool *emu_pool_new(int dev);
API int emu_pool_destroy(struct emu_pool *pool);
API int emu_pool_alloc(struct emu_pool *pool, size_t size, void *stream, void **out);
API int emu_pool_free(void *pointer, void *stream);
API int emu_pool_trim(struct emu_pool *pool, size_t keep);
API int emu_pool_get(struct emu_pool *pool, int attribute, void *value);
API int emu_pool_set(struct emu_pool *pool, int attribute, void *value);
void emu_pools_release(int dev);
void emu_pools_reset(int dev);

/* identity.c, errors.c, lookup.c */
API void emu_uuid(int card, unsigned char uuid[16]);
API void emu_bus_id(int card, char *text, size_t room);
API int emu_attribute(int *value, int attribute, int dev);
API const char *emu_error_name(int error, int of_runtime);
API const char *emu_error_text(int error);
API void *emu_symbol(const char *name);

/* One exported driver name; `function` is `stub` where nothing implements it. */
struct emu_name {
    const char *name;
    void *function, *stub;
};
extern const struct emu_name emu_names[];
extern const size_t emu_name_count;
#endif
