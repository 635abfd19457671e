/* Primary contexts, one a device, and the memory that they, the first kernel and cuBLAS cost. */
#define _GNU_SOURCE
#include "emu.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int active, kernels, blas;
    size_t listed;
} contexts[EMU_MAX_DEVICES];
static pthread_mutex_t creation = PTHREAD_MUTEX_INITIALIZER;
static int modules;

int *emu_current_device(void) {
    static __thread int device;
    return &device;
}
int emu_context_active(int dev) { return contexts[dev].active; }

static char peers[EMU_MAX_DEVICES][EMU_MAX_DEVICES]; /* who may access whom */
int emu_peer_enable(int dev, int peer) {
    return __atomic_exchange_n(&peers[dev][peer], 1, __ATOMIC_RELAXED) ? EMU_PEER_ENABLED : EMU_OK;
}
void emu_module_registered(void) { modules++; }

static int eager(void) {
    const char *wish = getenv("CUDA_MODULE_LOADING");
    return modules && wish && !strcmp(wish, "EAGER");
}

static int create(int dev) {
    int card = emu_card(dev);
    size_t bytes = (size_t)emu_config.context_bytes;
    if (eager()) bytes += (size_t)emu_config.context_eager_bytes;
    if (emu_charge(card, bytes, 1)) return EMU_OUT_OF_MEMORY;
    if (emu_charge(card, (size_t)emu_config.context_unlisted_bytes, 0)) {
        emu_uncharge(card, bytes, 1);
        return EMU_OUT_OF_MEMORY;
    }
    emu_lock();
    emu_place_context(dev);
    emu_unlock();
    contexts[dev].listed = bytes;
    contexts[dev].kernels = eager(); /* their code was loaded with the context */
    contexts[dev].active = 1;
    return EMU_OK;
}

static int initialised;
int emu_initialised(void) { return __atomic_load_n(&initialised, __ATOMIC_ACQUIRE); }

/* Initialises the driver for every visible device, as the real one does. */
int emu_initialise(void) {
    int count = emu_device_count(), cards[EMU_MAX_DEVICES];
    if (!count) return EMU_NO_DEVICE;
    if (emu_initialised()) return EMU_OK;
    for (int dev = 0; dev < count; dev++) cards[dev] = emu_card(dev);
    int error = emu_charge_init(cards, count);
    if (!error) __atomic_store_n(&initialised, 1, __ATOMIC_RELEASE);
    return error;
}

int emu_context(int dev) {
    if (dev >= emu_device_count()) return emu_device_count() ? EMU_INVALID_DEVICE : EMU_NO_DEVICE;
    if (contexts[dev].active) return EMU_OK;
    pthread_mutex_lock(&creation);
    int error = contexts[dev].active ? EMU_OK : emu_initialise();
    if (!error && !contexts[dev].active) error = create(dev);
    pthread_mutex_unlock(&creation);
    return error;
}

void emu_context_destroy(int dev) {
    memset(peers[dev], 0, sizeof peers[dev]);
    pthread_mutex_lock(&creation);
    if (contexts[dev].active) {
        emu_memory_reset(dev);
        emu_uncharge(emu_card(dev), contexts[dev].listed, 1);
        emu_uncharge(emu_card(dev), (size_t)emu_config.context_unlisted_bytes, 0);
        memset(&contexts[dev], 0, sizeof contexts[dev]);
    }
    pthread_mutex_unlock(&creation);
}

/* The first kernel of a framework loads its library's module, hundreds of kernels at once.
 * Charge what the first use of a part loads; the context owns it from then on. */
static int load(int dev, int *loaded, int64_t bytes) {
    int error = emu_context(dev);
    if (error || *loaded) return error;
    pthread_mutex_lock(&creation);
    if (!*loaded && !(error = emu_charge(emu_card(dev), (size_t)bytes, 1))) {
        contexts[dev].listed += (size_t)bytes;
        *loaded = 1;
    }
    pthread_mutex_unlock(&creation);
    return error;
}
int emu_first_kernel(int dev) { return load(dev, &contexts[dev].kernels, emu_config.first_kernel_bytes); }
int emu_first_blas(int dev) {
    return load(dev, &contexts[dev].blas,
                eager() ? emu_config.first_blas_eager_bytes : emu_config.first_blas_bytes);
}
