/* Runtime API: registration of code, and launches, which do nothing but take their turn. */
#define _GNU_SOURCE
#include "runtime.h"

/* Called from the initialisers of every library with device code: no more than a count. */
API void **__cudaRegisterFatBinary(void *binary) {
    static void *handle;
    UNUSED(binary);
    emu_module_registered();
    return &handle;
}
API void __cudaRegisterFatBinaryEnd(void **handle) { UNUSED(handle); }
API void __cudaUnregisterFatBinary(void **handle) { UNUSED(handle); }
API void __cudaRegisterFunction(void) {}
API void __cudaRegisterVar(void) {}
API char __cudaInitModule(void **handle) {
    UNUSED(handle);
    return 1;
}
API cudaError_t __cudaGetKernel(void **out, const void *function) {
    *out = (void *)function;
    return 0;
}

enum { NESTING = 8 };
static __thread struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configurations[NESTING];
static __thread int depth;
API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    if (depth == NESTING) return 1;
    configurations[depth++] = (struct configuration){grid, block, shared, stream};
    return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                           cudaStream_t *stream) {
    if (!depth) return rt_fail(EMU_INVALID_VALUE);
    const struct configuration *top = &configurations[--depth];
    *grid = top->grid;
    *block = top->block;
    *shared = top->shared;
    *stream = top->stream;
    return 0;
}

static cudaError_t launch(cudaStream_t stream) {
    int error = emu_first_kernel(emu_stream_of(stream)->dev);
    return rt_result(error ? error : emu_stream_work(stream));
}
API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                 size_t shared, cudaStream_t stream) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(function), UNUSED(grid), UNUSED(block), UNUSED(arguments), UNUSED(shared);
    return launch(stream);
}
API cudaError_t __cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                   size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}
API cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                            void **arguments, size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}
/* The head of cudaLaunchConfig_t. */
struct launch_configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
API cudaError_t cudaLaunchKernelExC(const struct launch_configuration *config, const void *function,
                                    void **arguments) {
    GATE_DEVICE(dev);
    UNUSED(dev), UNUSED(function), UNUSED(arguments);
    return launch(config->stream);
}

/* The head of cudaFuncAttributes. */
struct function_attributes {
    size_t shared, constant, local;
    int max_threads, registers, ptx, binary, cache_ca, max_dynamic, carveout;
};
API cudaError_t cudaFuncGetAttributes(struct function_attributes *out, const void *function) {
    GATE;
    UNUSED(function);
    int version = (int)(emu_config.compute_major * 10 + emu_config.compute_minor);
    *out = (struct function_attributes){.max_threads = 1024, .registers = 32, .ptx = version,
                                        .binary = version, .max_dynamic = 49152, .carveout = -1};
    return 0;
}
API cudaError_t cudaFuncSetAttribute(const void *function, int attribute, int value) {
    GATE;
    UNUSED(function), UNUSED(attribute), UNUSED(value);
    return 0;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                       int threads, size_t shared,
                                                                       unsigned flags) {
    GATE;
    UNUSED(function), UNUSED(shared), UNUSED(flags);
    *blocks = threads > 0 ? 2048 / threads : 1;
    return 0;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                              int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
API cudaError_t cudaProfilerStart(void) { return 0; }
API cudaError_t cudaProfilerStop(void) { return 0; }
