"""The CUDA driver by ctypes: a context, memory, a kernel and limits, without any runtime.

Source: NVIDIA's CUDA Driver API reference, sections 6.2 (initialisation), 6.7 (primary context),
6.8 (context), 6.10 (modules), 6.13 (memory) and 6.22 (execution); PTX ISA, "System calls".
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from functools import cache

from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError

TENSOR_BYTES = 1 << 20
LIMITS = {"stack": 0, "printf": 1, "heap": 2}
"""CUlimit: bytes of stack for each thread, of the printf buffer, of the malloc heap."""
_OUT_OF_MEMORY = 2
_COMPUTE_MAJOR, _COMPUTE_MINOR = 75, 76
_OLDEST_TURING = (7, 5)

# One store. Compiled by the driver as it is loaded, for whatever GPU there is.
_TOUCH = """
.visible .entry touch(.param .u64 address)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [address];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, 1;
    st.global.u32 [%rd2], %r1;
    ret;
}
"""
# The heap and the printf buffer are only set up for code that calls malloc and vprintf: it does
# so where the address is zero, which it never is.
_TOUCH_WITH_CALLS = """
.extern .func (.param .b64 result) malloc(.param .b64 size);
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);
.global .align 1 .b8 text[2] = {46, 0};
.visible .entry touch(.param .u64 address)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd1, [address];
    setp.ne.u64 %p1, %rd1, 0;
    @%p1 bra store;
    {
        .param .b64 size;
        .param .b64 block;
        mov.u64 %rd2, 16;
        st.param.b64 [size], %rd2;
        call.uni (block), malloc, (size);
        ld.param.b64 %rd1, [block];
    }
    {
        .param .b64 format;
        .param .b64 values;
        .param .b32 printed;
        mov.u64 %rd3, text;
        cvta.global.u64 %rd4, %rd3;
        st.param.b64 [format], %rd4;
        st.param.b64 [values], 0;
        call.uni (printed), vprintf, (format, values);
        ld.param.b32 %r1, [printed];
    }
store:
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, 1;
    st.global.u32 [%rd2], %r2;
    ret;
}
"""


@cache
def library() -> ctypes.CDLL:
    """Return libcuda. Raises `NotMeasurableError` where there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NotMeasurableError(f"no CUDA driver library (libcuda.so.1): {error}") from None


def call(name: str, *arguments: object) -> None:
    """Call a driver function.

    Raises `DeviceOutOfMemoryError`, or `NotMeasurableError` with the driver's text for any other
    error and for a function that this driver lacks.
    """
    function = getattr(library(), name, None)
    if function is None:
        raise NotMeasurableError(f"this driver has no {name}")
    code = function(*arguments)
    if code == 0:
        return
    text = ctypes.c_char_p()
    library().cuGetErrorString(c_int(code), byref(text))
    words = (text.value or b"unknown error").decode(errors="replace")
    if code == _OUT_OF_MEMORY:
        raise DeviceOutOfMemoryError(f"{name}: {words}")
    raise NotMeasurableError(f"{name} failed: {words} ({code})")


def init() -> None:
    """cuInit."""
    call("cuInit", c_uint(0))


def device_count() -> int:
    """cuDeviceGetCount."""
    count = c_int()
    call("cuDeviceGetCount", byref(count))
    return count.value


def visible_devices() -> int:
    """Return how many GPUs a process started here would see, 0 without a driver or a GPU."""
    try:
        init()
        return device_count()
    except NotMeasurableError:
        return 0


def attribute(which: int, device: int) -> int:
    """cuDeviceGetAttribute."""
    value = c_int()
    call("cuDeviceGetAttribute", byref(value), c_int(which), c_int(device))
    return value.value


def create_context(device: int) -> int:
    """Retain the primary context, which creates it, make it current, and return its handle."""
    context = c_void_p()
    call("cuDevicePrimaryCtxRetain", byref(context), c_int(device))
    call("cuCtxSetCurrent", context)
    return context.value or 0


def set_context(context: int) -> None:
    """cuCtxSetCurrent."""
    call("cuCtxSetCurrent", c_void_p(context))


def synchronize() -> None:
    """cuCtxSynchronize."""
    call("cuCtxSynchronize")


def alloc(size_bytes: int) -> int:
    """cuMemAlloc."""
    pointer = c_void_p()
    call("cuMemAlloc_v2", byref(pointer), c_size_t(size_bytes))
    return pointer.value or 0


def free(pointer: int) -> None:
    """cuMemFree."""
    call("cuMemFree_v2", c_void_p(pointer))


def fill(address: int, word: int, words: int) -> None:
    """cuMemsetD32: `words` times the 32 bits of `word`."""
    call("cuMemsetD32_v2", c_void_p(address), c_uint(word), c_size_t(words))


def read(address: int, size_bytes: int) -> bytes:
    """cuMemcpyDtoH."""
    copied = ctypes.create_string_buffer(size_bytes)
    call("cuMemcpyDtoH_v2", copied, c_void_p(address), c_size_t(size_bytes))
    return copied.raw


def can_access_peer(device: int, peer: int) -> bool:
    """cuDeviceCanAccessPeer."""
    can = c_int()
    call("cuDeviceCanAccessPeer", byref(can), c_int(device), c_int(peer))
    return bool(can.value)


def enable_peer_access(context: int) -> None:
    """cuCtxEnablePeerAccess: the current context may access memory of that one."""
    call("cuCtxEnablePeerAccess", c_void_p(context), c_uint(0))


def copy_peer(target: tuple[int, int], source: tuple[int, int], size_bytes: int) -> None:
    """cuMemcpyPeer; each end is an address and the context that it belongs to."""
    ends = map(c_void_p, (*target, *source))
    call("cuMemcpyPeer", *ends, c_size_t(size_bytes))


def memory_info() -> tuple[int, int]:
    """Return free and total bytes by cuMemGetInfo."""
    free_bytes, total_bytes = c_size_t(), c_size_t()
    call("cuMemGetInfo_v2", byref(free_bytes), byref(total_bytes))
    return free_bytes.value, total_bytes.value


def get_limit(limit: str) -> int:
    """cuCtxGetLimit."""
    value = c_size_t()
    call("cuCtxGetLimit", byref(value), c_int(LIMITS[limit]))
    return value.value


def set_limit(limit: str, value_bytes: int) -> None:
    """cuCtxSetLimit."""
    call("cuCtxSetLimit", c_int(LIMITS[limit]), c_size_t(value_bytes))


def ptx(capability: Sequence[int], *, with_calls: bool = False) -> bytes:
    """Return the text of the kernel ``touch`` for a GPU of that compute capability or a newer one.

    Drivers for CUDA 13 take no PTX for what is older than Turing, and older GPUs none for Turing.
    """
    target = "sm_75" if tuple(capability) >= _OLDEST_TURING else "sm_50"
    body = _TOUCH_WITH_CALLS if with_calls else _TOUCH
    return f".version 6.3\n.target {target}\n.address_size 64\n{body}".encode()


def launch(address: int, device: int, *, with_calls: bool = False) -> None:
    """Load the kernel, write one word at `address` with it, and wait."""
    capability = (attribute(_COMPUTE_MAJOR, device), attribute(_COMPUTE_MINOR, device))
    module, function = c_void_p(), c_void_p()
    call("cuModuleLoadData", byref(module), ptx(capability, with_calls=with_calls))
    call("cuModuleGetFunction", byref(function), module, b"touch")
    target = c_void_p(address)
    arguments = (c_void_p * 1)(ctypes.addressof(target))
    one = c_uint(1)
    call("cuLaunchKernel", function, *[one] * 6, c_uint(0), None, arguments, None)
    synchronize()
