/* libcublasLt: descriptors are empty, and there is always one algorithm. */
#define _GNU_SOURCE
#include "emu.h"
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
#define GATE                                          \
    static struct emu_site site_ = {.name = __func__}; \
    if (emu_enter(&site_)) return EXECUTION_FAILED
#define UNUSED(x) (void)(x)

int blas_stub(const char *name, int *said);
int blas_stub(const char *name, int *said) {
    emu_stub(name, said);
    return NOT_SUPPORTED;
}

static int create(void **out) {
    *out = calloc(1, 64);
    return SUCCESS;
}
static int destroy(void *object) {
    free(object);
    return SUCCESS;
}
API size_t cublasLtGetVersion(void) { return 130100; }
API int cublasLtCreate(void **out) {
    GATE;
    if (emu_first_blas(*emu_current_device())) return EXECUTION_FAILED;
    return create(out);
}
API int cublasLtDestroy(void *handle) { return destroy(handle); }
API int cublasLtMatmulDescCreate(void **out) { return create(out); }
API int cublasLtMatmulDescDestroy(void *object) { return destroy(object); }
API int cublasLtMatmulDescSetAttribute(void) { return SUCCESS; }
API int cublasLtMatrixLayoutCreate(void **out) { return create(out); }
API int cublasLtMatrixLayoutDestroy(void *object) { return destroy(object); }
API int cublasLtMatrixLayoutSetAttribute(void) { return SUCCESS; }
API int cublasLtMatmulPreferenceCreate(void **out) { return create(out); }
API int cublasLtMatmulPreferenceDestroy(void *object) { return destroy(object); }
API int cublasLtMatmulPreferenceSetAttribute(void) { return SUCCESS; }

/* cublasLtMatmulHeuristicResult_t: the algorithm, its workspace, its state and waves. */
struct heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d,
                                       void *preference, int wanted, struct heuristic *results,
                                       int *found) {
    GATE;
    UNUSED(handle), UNUSED(operation), UNUSED(a), UNUSED(b), UNUSED(c), UNUSED(d), UNUSED(preference);
    memset(results, 0, sizeof *results);
    *found = wanted > 0;
    return SUCCESS;
}
API int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *a_layout,
                       const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                       void *d, void *d_layout, const void *algorithm, void *workspace, size_t size,
                       void *stream) {
    GATE;
    UNUSED(handle), UNUSED(operation), UNUSED(alpha), UNUSED(a), UNUSED(a_layout), UNUSED(b);
    UNUSED(b_layout), UNUSED(beta), UNUSED(c), UNUSED(c_layout), UNUSED(d), UNUSED(d_layout);
    UNUSED(algorithm), UNUSED(workspace), UNUSED(size);
    return emu_stream_work(stream) ? EXECUTION_FAILED : SUCCESS;
}
