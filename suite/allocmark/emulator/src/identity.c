/* Who the device says it is: UUID, bus id, attributes. Figures of the SM are Hopper's. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdio.h>
#include <string.h>

void emu_uuid(int card, unsigned char uuid[16]) {
    memset(uuid, 0xE0, 16); /* GPU-e0e0e0e0-...: no real card has it */
    uuid[15] = (unsigned char)card;
}
void emu_bus_id(int card, char *text, size_t room) { snprintf(text, room, "0000:%02X:00.0", card + 1); }

/* Each by the name that cuda.h has for its number after CU_DEVICE_ATTRIBUTE_, which a test compares. */
static const struct {
    int attribute, value;
} constants[] = {
    {1, 1024}, /* MAX_THREADS_PER_BLOCK */
    {2, 1024}, /* MAX_BLOCK_DIM_X */
    {3, 1024}, /* MAX_BLOCK_DIM_Y */
    {4, 64}, /* MAX_BLOCK_DIM_Z */
    {5, 2147483647}, /* MAX_GRID_DIM_X */
    {6, 65535}, /* MAX_GRID_DIM_Y */
    {7, 65535}, /* MAX_GRID_DIM_Z */
    {8, 49152}, /* MAX_SHARED_MEMORY_PER_BLOCK */
    {9, 65536}, /* TOTAL_CONSTANT_MEMORY */
    {10, 32}, /* WARP_SIZE */
    {11, 2147483647}, /* MAX_PITCH */
    {12, 65536}, /* MAX_REGISTERS_PER_BLOCK */
    {13, 1980000}, /* CLOCK_RATE, kHz */
    {14, 512}, /* TEXTURE_ALIGNMENT */
    {15, 1}, /* GPU_OVERLAP */
    {19, 1}, /* CAN_MAP_HOST_MEMORY */
    {31, 1}, /* CONCURRENT_KERNELS */
    {32, 1}, /* ECC_ENABLED */
    {36, 3201000}, /* MEMORY_CLOCK_RATE, kHz */
    {37, 6144}, /* GLOBAL_MEMORY_BUS_WIDTH, bits */
    {38, 62914560}, /* L2_CACHE_SIZE */
    {39, 2048}, /* MAX_THREADS_PER_MULTIPROCESSOR */
    {40, 3}, /* ASYNC_ENGINE_COUNT */
    {41, 1}, /* UNIFIED_ADDRESSING */
    {78, 1}, /* STREAM_PRIORITIES_SUPPORTED */
    {79, 1}, /* GLOBAL_L1_CACHE_SUPPORTED */
    {80, 1}, /* LOCAL_L1_CACHE_SUPPORTED */
    {81, 233472}, /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
    {82, 65536}, /* MAX_REGISTERS_PER_MULTIPROCESSOR */
    {83, 1}, /* MANAGED_MEMORY */
    {89, 1}, /* CONCURRENT_MANAGED_ACCESS */
    {90, 1}, /* COMPUTE_PREEMPTION_SUPPORTED */
    {95, 1}, /* COOPERATIVE_LAUNCH */
    {97, 232448}, /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    {102, 1}, /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    {103, 1}, /* HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
    {106, 32}, /* MAX_BLOCKS_PER_MULTIPROCESSOR */
    {111, 1024}, /* RESERVED_SHARED_MEMORY_PER_BLOCK */
    {115, 1}, /* MEMORY_POOLS_SUPPORTED */
};

int emu_attribute(int *value, int attribute, int dev) {
    if (emu_initialise() || dev < 0 || dev >= emu_device_count()) return EMU_INVALID_DEVICE;
    switch (attribute) {
    case 16: *value = (int)emu_config.multiprocessors; return EMU_OK; /* MULTIPROCESSOR_COUNT */
    case 33: *value = emu_card(dev) + 1; return EMU_OK; /* PCI_BUS_ID */
    case 75: *value = (int)emu_config.compute_major; return EMU_OK; /* COMPUTE_CAPABILITY_MAJOR */
    case 76: *value = (int)emu_config.compute_minor; return EMU_OK; /* COMPUTE_CAPABILITY_MINOR */
    }
    *value = 0;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (constants[i].attribute == attribute) *value = constants[i].value;
    return EMU_OK;
}
