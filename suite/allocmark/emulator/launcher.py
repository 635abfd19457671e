"""Runs a command, and every process that it starts, on the emulated driver."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from allocmark.emulator.build import AUDIT, build
from allocmark.emulator.driver_profile import DEFAULT, load
from allocmark.system import foreground
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import GIB, KIB, MIB, format_bytes

MAX_DEVICES = 16
_SMALLEST_BYTES = 64 * MIB
_LARGEST_BYTES = 1024 * GIB
_CONFIG = "ALLOCMARK_EMULATOR_CONFIG"
_TRITON = "TRITON_LIBCUDA_PATH"
_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "allocmark-emulator-"
_STATE_BYTES = 256 * KIB  # `struct shared` of shared.c is smaller.


def real_driver() -> str | None:
    """Return what shows that a real NVIDIA driver is present, or None."""
    if Path("/dev/nvidiactl").exists():
        return "/dev/nvidiactl"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return None if hasattr(driver, "allocmark_emulator_version") else "libcuda.so.1"


def _check(gpu: str | None, memory_bytes: int | None, devices: int) -> None:
    if gpu is None and (found := real_driver()):
        raise AllocmarkError(
            f"this machine has a real NVIDIA driver ({found}): "
            f"to emulate one all the same, name it, as in --gpu {DEFAULT}"
        )
    if platform.libc_ver()[0] != "glibc":
        raise AllocmarkError(
            "the emulated driver works through glibc's dynamic linker, which this Python does not "
            "use: run it with a Python built for glibc (not Alpine's)"
        )
    if not 1 <= devices <= MAX_DEVICES:
        raise AllocmarkError(f"{devices} devices cannot be emulated: ask for 1 to {MAX_DEVICES}")
    if memory_bytes is not None and not _SMALLEST_BYTES <= memory_bytes <= _LARGEST_BYTES:
        raise AllocmarkError(
            f"{format_bytes(memory_bytes)} of device memory cannot be emulated: ask for "
            f"{format_bytes(_SMALLEST_BYTES)} to {format_bytes(_LARGEST_BYTES)}"
        )
    if not os.access(_SHARED_MEMORY, os.W_OK):
        raise AllocmarkError(
            f"the emulated driver keeps its state in {_SHARED_MEMORY}, which cannot be written "
            "here: mount a tmpfs there (in a container: --shm-size)"
        )


def emulated_environment(
    gpu: str | None, memory_bytes: int | None, devices: int, state: Path, times: bool = False
) -> dict[str, str]:
    """Return the variables that put a process on the emulated driver; `state` is its memory.

    Without `memory_bytes` each device has the profile's capacity. With `times` driver calls take
    the profile's time.
    """
    profile = load(gpu or DEFAULT)
    # Of a capacity that is asked for the driver keeps nothing to itself.
    asked = {"memory_bytes": memory_bytes, "nvml_reserved_bytes": 0}
    memory = {} if memory_bytes is None else asked
    lines = {
        "name": f"Emulated {profile.name}",
        "driver_version": profile.driver_version,
        "state": str(state),
        "devices": str(devices),
        **{key: str(value) for key, value in (profile.numbers | memory).items()},
    }
    if times:
        for call, table in profile.call_times_ns.items():
            lines[f"time_{call}"] = " ".join(f"{size}:{ns}" for size, ns in table.items())
    libraries = build()
    # The dynamic linker passes over an auditor whose path is long or holds a colon, without a word.
    auditor = _auditor(state)
    auditor.symlink_to(libraries / AUDIT)
    # An auditor of an outer emulation would win: it is replaced, others are kept.
    auditors = filter(None, os.environ.get("LD_AUDIT", "").split(":"))
    others = [entry for entry in auditors if not entry.endswith(AUDIT)]
    return {
        _CONFIG: "\n".join(f"{key}={value}" for key, value in lines.items()),
        "LD_AUDIT": ":".join([str(auditor), *others]),
        # Triton asks ldconfig where the driver lies, to link against it.
        _TRITON: os.environ.get(_TRITON, str(libraries)),
    }


def _auditor(state: Path) -> Path:
    """Return the link to the audit library that belongs to a state."""
    return state.with_name(f"{state.name}-{AUDIT}")


def made_for(variables: Mapping[str, str]) -> list[Path]:
    """Return the files that an emulation with these variables has made."""
    auditor = Path(variables.get("LD_AUDIT", "").partition(":")[0])
    state = auditor.name.removesuffix(f"-{AUDIT}")
    return [auditor, auditor.with_name(state)] if state != auditor.name else []


def emulate(
    command: Sequence[str],
    gpu: str | None = None,
    memory_bytes: int | None = None,
    devices: int = 1,
    times: bool = False,
    more: Mapping[str, str] | None = None,
) -> int:
    """Run a command on emulated GPUs and return its exit status, 128 + n where signal n ended it.

    With `times` driver calls take the time that the profile has for them; else none of their own.
    `more` are variables for the command.
    Raises `AllocmarkError` where that is not possible, a real driver being present without `gpu`
    among the reasons.
    """
    with emulation(gpu, memory_bytes, devices, times) as variables:
        environment = {**os.environ, **(more or {}), **variables}
        return foreground.run(command, environment, made_for(variables))


@contextlib.contextmanager
def emulation(
    gpu: str | None = None, memory_bytes: int | None = None, devices: int = 1, times: bool = False
) -> Iterator[dict[str, str]]:
    """Give the variables that put a process, and all it starts, on emulated GPUs of their own.

    Raises `AllocmarkError` as `emulate` does.
    """
    _check(gpu, memory_bytes, devices)
    _sweep()
    handle, name = tempfile.mkstemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_SHARED_MEMORY)
    state = Path(name)
    try:
        _take_room(handle)
        yield emulated_environment(gpu, memory_bytes, devices, state, times)
    finally:
        state.unlink(missing_ok=True)
        _auditor(state).unlink(missing_ok=True)


def _take_room(handle: int) -> None:
    """Give the state its pages now: a process that found none left later would die of SIGBUS."""
    try:
        os.posix_fallocate(handle, 0, _STATE_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise AllocmarkError(
                f"the emulated driver keeps its state in a file of {format_bytes(_STATE_BYTES)}, "
                "and files may not be so large here: raise the limit (ulimit -f)"
            ) from error
        raise AllocmarkError(
            f"the emulated driver keeps its state in {_SHARED_MEMORY}, which has no room for it "
            f"({error.strerror}): delete what fills it, or make it larger"
        ) from error
    finally:
        os.close(handle)


def _sweep() -> None:
    """Remove the states of launchers that were killed before they could."""
    for path in _SHARED_MEMORY.glob(f"{_PREFIX}*"):
        owner = path.name.removeprefix(_PREFIX).split("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):  # Another user's, or another launcher was faster.
                path.unlink()
