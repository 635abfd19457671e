/* The configuration: "key=value" lines that the launcher puts into the environment. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include "times.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct emu_config emu_config;
static int cards[EMU_MAX_DEVICES], visible;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define TEXT(key) {#key, offsetof(struct emu_config, key), sizeof emu_config.key}
#define NUMBER(key) {#key, offsetof(struct emu_config, key), 0}
static const struct {
    const char *key;
    size_t offset, room;
} keys[] = {
    TEXT(name), TEXT(driver_version), TEXT(state), NUMBER(cuda_version), NUMBER(compute_major),
    NUMBER(compute_minor), NUMBER(multiprocessors), NUMBER(devices), NUMBER(memory_bytes),
    NUMBER(nvml_reserved_bytes),
    NUMBER(lag_calls), NUMBER(driver_init_bytes), NUMBER(context_bytes), NUMBER(context_unlisted_bytes),
    NUMBER(context_eager_bytes), NUMBER(first_kernel_bytes), NUMBER(first_blas_bytes),
    NUMBER(first_blas_eager_bytes),
};

static void set(const char *key, const char *value) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i].key, key)) continue;
        char *field = (char *)&emu_config + keys[i].offset;
        if (keys[i].room) snprintf(field, keys[i].room, "%s", value);
        else *(int64_t *)field = strtoll(value, NULL, 10);
        return;
    }
    emu_times_set(key, value);
}

static void parse(const char *text) {
    char *copy = strdup(text), *rest = copy, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *value = strchr(line, '=');
        if (!value) continue;
        *value++ = 0;
        set(line, value);
    }
    free(copy);
}

/* An entry is an index or the beginning of a UUID; the first bad one ends the list (as NVIDIA's). */
static int card_named(const char *entry) {
    char *end;
    long index = strtol(entry, &end, 10);
    if (end != entry && !*end) return index >= 0 && index < emu_config.devices ? (int)index : -1;
    for (int card = 0; card < emu_config.devices && *entry; card++) {
        unsigned char uuid[16];
        char text[64];
        emu_uuid(card, uuid);
        char *p = text + sprintf(text, "GPU-");
        for (int i = 0; i < 16; i++)
            p += sprintf(p, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
        if (!strncmp(text, entry, strlen(entry))) return card;
    }
    return -1;
}

static void choose_visible(void) {
    const char *wish = getenv("CUDA_VISIBLE_DEVICES");
    if (!wish) {
        for (; visible < emu_config.devices; visible++) cards[visible] = visible;
        return;
    }
    char *copy = strdup(wish), *rest = copy, *entry;
    while ((entry = strsep(&rest, ",")) && visible < EMU_MAX_DEVICES) {
        int card = card_named(entry + strspn(entry, " "));
        if (card < 0) break;
        cards[visible++] = card;
    }
    free(copy);
}

void emu_config_load(void) {
    const char *text = getenv("ALLOCMARK_EMULATOR_CONFIG");
    if (!text) return; /* no launcher: no devices */
    parse(text);
    if (emu_config.devices > EMU_MAX_DEVICES) emu_config.devices = EMU_MAX_DEVICES;
    if (!emu_shared_open(emu_config.state)) {
        fprintf(stderr, "allocmark emulator: cannot open its state %s: start the program through "
                        "the emulator's launcher\n", emu_config.state);
        emu_config.devices = 0;
    }
    choose_visible();
}
void emu_setup(void) { pthread_once(&once, emu_config_load); }
int emu_device_count(void) {
    emu_setup();
    return visible;
}
int emu_card(int dev) { return cards[dev]; }

void emu_log(const char *format, ...) {
    static int wanted = -1;
    if (wanted < 0) wanted = getenv("ALLOCMARK_EMULATOR_LOG") != NULL;
    if (!wanted) return;
    va_list arguments;
    va_start(arguments, format);
    flockfile(stderr);
    fputs("allocmark emulator: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(arguments);
}

static const char *lacking; /* the latest function that was called and is not emulated */
int emu_stub(const char *name, int *said) {
    __atomic_store_n(&lacking, name, __ATOMIC_RELAXED);
    if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
        fprintf(stderr, "allocmark emulator: %s is not emulated and fails as not supported: what "
                        "needs it needs a GPU (docs/emulator.md)\n", name);
    return EMU_NOT_SUPPORTED;
}

static int computed_copied;
void emu_warn_computed(void) {
    if (__atomic_exchange_n(&computed_copied, 1, __ATOMIC_RELAXED)) return;
    fputs("allocmark emulator: device memory was copied to the host and reads as zeros: "
          "computed values are not emulated\n", stderr);
}

/* The suite asks the loaded library whether it is real. */
API int allocmark_emulator_version(void);
int allocmark_emulator_version(void) { return 1; }

/* ... what it refused this process: a runtime that is not ours, functions that it lacks, ... */
static int foreign;
static const struct {
    const char *file, *name, *instead;
} not_emulated[] = {
    {"libnccl", "NCCL", "run one rank of the job alone (allocmark emulate --world-size N --rank R -- "
                        "COMMAND), or all on GPUs"},
    {"libcufft", "cuFFT", "leave the transform out, or run it on a GPU"},
    {"libcusolver", "cuSOLVER", "solve on the CPU, or run it on a GPU"},
    {"libcusparse", "cuSPARSE", "use dense tensors, or run it on a GPU"},
    {"libcurand", "cuRAND", "draw on the CPU, or run it on a GPU"},
    {"libnvshmem", "NVSHMEM", "run it on GPUs"},
    {"libcupti", "CUPTI", "profile on a GPU"},
};
int emu_foreign_runtime(void *caller) {
    if (__atomic_exchange_n(&foreign, 1, __ATOMIC_RELAXED)) return EMU_NOT_SUPPORTED;
    Dl_info of = {0};
    const char *path = dladdr(caller, &of) && of.dli_fname ? of.dli_fname : "";
    const char *file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (size_t i = 0; i < sizeof not_emulated / sizeof *not_emulated; i++)
        if (!strncmp(file, not_emulated[i].file, strlen(not_emulated[i].file))) {
            fprintf(stderr, "allocmark emulator: %s (%s) is not emulated: %s\n", not_emulated[i].name,
                    file, not_emulated[i].instead);
            return EMU_NOT_SUPPORTED;
        }
    fprintf(stderr, "allocmark emulator: %s brings a CUDA runtime of its own, or one of another version, "
                    "which does not run on the emulated driver: use a build for CUDA 12 or 13 that loads "
                    "libcudart.so.12 or .13\n", *file ? file : "a library");
    return EMU_NOT_SUPPORTED;
}
API int allocmark_emulator_foreign_runtime(void);
int allocmark_emulator_foreign_runtime(void) { return __atomic_load_n(&foreign, __ATOMIC_RELAXED); }
API const char *allocmark_emulator_lacking(void);
const char *allocmark_emulator_lacking(void) { return __atomic_load_n(&lacking, __ATOMIC_RELAXED); }

/* ... and whether this process has copied computed values, which read as zeros, to the host. */
API int allocmark_emulator_computed_copied(void);
int allocmark_emulator_computed_copied(void) {
    return __atomic_load_n(&computed_copied, __ATOMIC_RELAXED);
}
