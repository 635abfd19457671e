/* libcublas: products take their turn in the stream and compute nothing. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdlib.h>

enum { SUCCESS, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
struct handle {
    void *stream;
    int math_mode, pointer_mode;
};
#define GATE                                          \
    static struct emu_site site_ = {.name = __func__}; \
    if (emu_enter(&site_)) return EXECUTION_FAILED
#define UNUSED(x) (void)(x)

int blas_stub(const char *name, int *said);
int blas_stub(const char *name, int *said) {
    emu_stub(name, said);
    return NOT_SUPPORTED;
}

API int cublasCreate_v2(struct handle **out) {
    GATE;
    if (emu_first_blas(*emu_current_device())) return ALLOC_FAILED;
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}
API int cublasDestroy_v2(struct handle *handle) {
    GATE;
    free(handle);
    return SUCCESS;
}
API int cublasGetVersion_v2(struct handle *handle, int *version) {
    UNUSED(handle);
    *version = 130100;
    return SUCCESS;
}
API int cublasSetStream_v2(struct handle *handle, void *stream) {
    handle->stream = stream;
    return SUCCESS;
}
API int cublasGetStream_v2(struct handle *handle, void **stream) {
    *stream = handle->stream;
    return SUCCESS;
}
API int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t size) {
    UNUSED(handle), UNUSED(workspace), UNUSED(size);
    return SUCCESS;
}
API int cublasSetMathMode(struct handle *handle, int mode) {
    handle->math_mode = mode;
    return SUCCESS;
}
API int cublasGetMathMode(struct handle *handle, int *mode) {
    *mode = handle->math_mode;
    return SUCCESS;
}
API int cublasSetPointerMode_v2(struct handle *handle, int mode) {
    handle->pointer_mode = mode;
    return SUCCESS;
}
API int cublasGetPointerMode_v2(struct handle *handle, int *mode) {
    *mode = handle->pointer_mode;
    return SUCCESS;
}
API const char *cublasGetStatusString(int status) {
    return status ? "the emulated cuBLAS does not support this" : "success";
}

/* Of a product only the handle, its first argument, matters. */
#define PRODUCT(name)                                                          \
    API int name(struct handle *handle) {                                      \
        GATE;                                                                 \
        return emu_stream_work(handle->stream) ? EXECUTION_FAILED : SUCCESS;   \
    }
#define FOR_TYPES(suffix)                                                       \
    PRODUCT(cublasS##suffix) PRODUCT(cublasD##suffix) PRODUCT(cublasC##suffix) PRODUCT(cublasZ##suffix)
FOR_TYPES(gemm_v2)
FOR_TYPES(gemv_v2)
FOR_TYPES(gemmStridedBatched)
FOR_TYPES(gemmBatched)
PRODUCT(cublasSgemmEx)
PRODUCT(cublasGemmEx)
PRODUCT(cublasGemmStridedBatchedEx)
PRODUCT(cublasGemmBatchedEx)
PRODUCT(cublasSdot_v2)
PRODUCT(cublasDdot_v2)
PRODUCT(cublasDotEx)
