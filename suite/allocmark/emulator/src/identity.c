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

static const struct {
    int attribute, value;
} constants[] = {
    {1, 1024},      /* threads per block */
    {2, 1024},      {3, 1024},      {4, 64},  /* block dimensions */
    {5, 2147483647}, {6, 65535},    {7, 65535}, /* grid dimensions */
    {8, 49152},     /* shared memory per block */
    {9, 65536},     /* constant memory */
    {10, 32},       /* warp */
    {11, 2147483647}, /* pitch */
    {12, 65536},    /* registers per block */
    {13, 1980000},  /* clock, kHz */
    {14, 512},      /* texture alignment */
    {15, 1},        /* copies overlap */
    {19, 1},        /* maps host memory */
    {31, 1},        /* concurrent kernels */
    {32, 1},        /* ECC */
    {36, 3201000},  /* memory clock, kHz */
    {37, 6144},     /* bus width, bits */
    {38, 62914560}, /* L2 */
    {39, 2048},     /* threads per multiprocessor */
    {40, 3},        /* copy engines */
    {41, 1},        /* unified addressing */
    {78, 1},        /* stream priorities */
    {79, 1},        {80, 1},        /* L1 caching */
    {81, 233472},   /* shared memory per multiprocessor */
    {82, 65536},    /* registers per multiprocessor */
    {83, 1},        /* managed memory */
    {89, 1},        /* concurrent managed access */
    {90, 1},        /* compute preemption */
    {95, 1},        /* cooperative launch */
    {97, 232448},   /* shared memory per block, opt-in */
    {102, 1},       /* virtual memory management */
    {103, 1},       /* file descriptor handles */
    {106, 32},      /* blocks per multiprocessor */
    {111, 1024},    /* reserved shared memory per block */
    {115, 1},       /* memory pools */
};

int emu_attribute(int *value, int attribute, int dev) {
    if (emu_initialise() || dev < 0 || dev >= emu_device_count()) return EMU_INVALID_DEVICE;
    switch (attribute) {
    case 16: *value = (int)emu_config.multiprocessors; return EMU_OK;
    case 33: *value = emu_card(dev) + 1; return EMU_OK; /* PCI bus */
    case 75: *value = (int)emu_config.compute_major; return EMU_OK;
    case 76: *value = (int)emu_config.compute_minor; return EMU_OK;
    }
    *value = 0;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (constants[i].attribute == attribute) *value = constants[i].value;
    return EMU_OK;
}
