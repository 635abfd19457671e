/* struct cudaDeviceProp of CUDA 12 and 13. Eight fields went in 13: OLD() marks them. A test
 * compares every offset with NVIDIA's header. */
#ifndef DEVICE_PROPERTIES_H
#define DEVICE_PROPERTIES_H
#include <stddef.h>

#if CUDART_MAJOR < 13
#define OLD(field) field
#else
#define OLD(field)
#endif

struct cudaDeviceProp {
    char name[256];
    unsigned char uuid[16];
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    OLD(int clockRate;)
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    OLD(int deviceOverlap;)
    int multiProcessorCount;
    OLD(int kernelExecTimeoutEnabled;)
    int integrated, canMapHostMemory;
    OLD(int computeMode;)
    int maxTexture1D, maxTexture1DMipmap;
    OLD(int maxTexture1DLinear;)
    int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2];
    int maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2];
    int maxTexture2DLayered[3], maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2];
    int maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap;
    int maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver;
    int asyncEngineCount, unifiedAddressing;
    OLD(int memoryClockRate;)
    int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
    int hostNativeAtomicSupported;
    OLD(int singleToDoublePrecisionPerfRatio;)
    int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
    int canUseHostPointerForRegisteredMem, cooperativeLaunch;
    OLD(int cooperativeMultiDeviceLaunch;)
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
    int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int tail[76]; /* flags that stay 0 */
};
_Static_assert(sizeof(struct cudaDeviceProp) == (CUDART_MAJOR < 13 ? 1032 : 1008), "cudaDeviceProp");
#endif
