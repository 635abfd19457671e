"""The native shim: TensorFlow's live allocators behind C entry points.

It is built once against the headers that the installed wheel brings, and serves that TensorFlow
version only. Where there is no compiler, or a wheel without headers, a library built elsewhere for
the same version can be taken along::

    allocmark dev build-shim FILE           # where the headers are
    export ALLOCMARK_TENSORFLOW_SHIM=FILE   # where they are not

Any Python of the same machine architecture will do; the file is bound to TensorFlow alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocmark.system.compiler import shared_library
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError

VARIABLE = "ALLOCMARK_TENSORFLOW_SHIM"
"""Path of a library that was built elsewhere."""
SOURCE = Path(__file__).parent / "native" / "shim.cpp"
_MARKER = re.compile(rb"allocmark-tensorflow-shim:([\w.+-]+):(\w+);")
_DISTRIBUTIONS = ("tensorflow", "tf-nightly")
_NAME_BYTES = 200

STATS = (
    *("num_allocs", "bytes_in_use", "peak_bytes_in_use", "largest_alloc_size", "bytes_limit"),
    *("pool_bytes", "peak_pool_bytes", "largest_free_block_bytes"),
    *("granted", "refused", "returns", "collections", "regions"),
)
"""AllocatorStats, then what was seen at the border to the driver: requests granted and refused,
regions given back, how often that happened before another try, and regions held now."""


class Chunk(NamedTuple):
    """A piece of a region; `requested_bytes` is what its last owner asked for."""

    address: int
    size_bytes: int
    requested_bytes: int
    in_use: bool


class NoShimError(NotMeasurableError):
    """There is no shim, and the public counters must do."""


def write(file: Path) -> str:
    """Build the library, write it to a file, and say what that serves.

    Raises `NotMeasurableError` as `build` does, and `OSError` for the place.
    """
    shutil.copyfile(build(), file)
    return f"{file}: for TensorFlow {installed_version()}, to be named by {VARIABLE}"


def installed_version() -> str:
    """Return the version of the installed TensorFlow. Raises `NotMeasurableError`."""
    for name in _DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    # A tree of packages may come without metadata.
    loaded = sys.modules.get("tensorflow")
    if loaded is None:
        raise NotMeasurableError("tensorflow is not installed here")
    return str(loaded.__version__)


def build() -> Path:
    """Return the library for the installed TensorFlow, built against its own headers.

    Raises `NotMeasurableError` where there are no headers, no compiler, or other headers than the
    shim knows.
    """
    version = installed_version()
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        raise NotMeasurableError("tensorflow is not installed here")
    package = Path(spec.submodule_search_locations[0])
    headers = package / "include"
    if not (headers / "tensorflow/core/common_runtime/gpu/gpu_process_state.h").is_file():
        raise NotMeasurableError(
            f"this tensorflow {version} came without its headers: build the shim where they are "
            f"and name it by {VARIABLE}"
        )
    flags = [f'-DAM_TF_VERSION="{version}"', f'-DAM_SOURCE="{source_id()}"', "-w"]
    flags += ["-isystem", str(headers), f"-L{package}"]
    return shared_library(
        "tensorflow-shim",
        [SOURCE],
        language="c++",
        flags=[*flags, "-l:libtensorflow_framework.so.2"],
    )


def locate() -> Path:
    """Return the library to load: the one that the user names, or one built now.

    Raises `NoShimError` where none can be built, `NotMeasurableError` where the named one is for
    another version.
    """
    named = os.environ.get(VARIABLE)
    if named:
        check_version(Path(named), installed_version())
        return Path(named)
    try:
        return build()
    except NotMeasurableError as error:
        raise NoShimError(str(error)) from error


def source_id() -> str:
    """Return what tells this shim's source from others."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]


def check_version(path: Path, wanted: str) -> None:
    """Raise `NotMeasurableError` unless a library was built for that TensorFlow, from this source.

    It is read, not loaded: one for another version would crash.
    """
    try:
        found = _MARKER.search(path.read_bytes())
    except OSError as error:
        raise NotMeasurableError(
            f"the TensorFlow shim {path} cannot be read ({error.strerror}): see {VARIABLE}"
        ) from None
    if found is None:
        raise NotMeasurableError(f"{path} is no TensorFlow shim of this suite: see {VARIABLE}")
    version = found[1].decode()
    if version != wanted:
        raise NotMeasurableError(
            f"the TensorFlow shim {path.name} was built for TensorFlow {version}, and {wanted} is "
            "installed here: build it again with this version"
        )
    if found[2].decode() != source_id():
        raise NotMeasurableError(
            f"the TensorFlow shim {path.name} was built by another version of allocmark: "
            "build it again with this one"
        )


class Shim:
    """The loaded library. `alloc`, `free`, `stats` … speak of the allocator chosen by `use`.

    TensorFlow must have been imported.
    """

    def __init__(self, path: Path) -> None:
        try:
            library = self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise NotMeasurableError(f"the TensorFlow shim cannot be loaded ({error})") from None
        numbers = POINTER(c_int64)
        signatures: Mapping[str, tuple[object, tuple[object, ...]]] = {
            "watch": (None, ()),
            "live": (c_void_p, (c_int, c_int)),
            "fresh": (c_void_p, (c_int, c_size_t, c_int)),
            "drop": (None, (c_void_p,)),
            "use": (None, (c_void_p,)),
            "alloc": (c_int, (POINTER(c_void_p), c_size_t)),
            "free": (c_int, (c_void_p,)),
            "size": (c_int64, (c_void_p,)),
            "name": (None, (c_char_p, c_size_t)),
            "stats": (c_int, (numbers,)),
            "wait": (c_int, (c_void_p,)),
            "clear": (None, ()),
            "border": (c_int64, (numbers, c_int64)),
            "regions": (c_int64, (numbers, c_int64)),
            "chunks": (c_int64, (numbers, c_int64)),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(library, f"am_tf_{name}")
            function.restype, function.argtypes = result, arguments
        self.watch: Callable[[], None] = library.am_tf_watch
        """Note what the live allocator asks of the driver; before the device is made."""
        self.live: Callable[[int, int], int | None] = library.am_tf_live
        """Return the live allocator of TensorFlow's nth device, which is on that GPU."""
        self.fresh: Callable[[int, int, int], int] = library.am_tf_fresh
        """Return a new BFC allocator: GPU, most bytes, 1 to grow; after `live`."""
        self.drop: Callable[[int], None] = library.am_tf_drop
        """Give all of a fresh allocator's memory back to the driver."""
        self.use: Callable[[int], None] = library.am_tf_use
        self.free: Callable[[int], int] = library.am_tf_free
        self.size: Callable[[int], int] = library.am_tf_size
        """Return the bytes that a live block takes."""
        self.clear: Callable[[], None] = library.am_tf_clear
        """Let the peaks begin at the present values."""
        self._block = c_void_p()
        self._stats = (c_int64 * len(STATS))()

    def alloc(self, size_bytes: int) -> int:
        """Return the address of a new block. Raises `DeviceOutOfMemoryError`."""
        if self._library.am_tf_alloc(byref(self._block), size_bytes):
            raise DeviceOutOfMemoryError(
                f"{self.name()} could not serve {size_bytes} bytes (it was told not to wait)"
            )
        return self._block.value or 0

    def stats(self) -> dict[str, int | None]:
        """Return the numbers of `STATS`, None for those that are not kept."""
        if self._library.am_tf_stats(self._stats):
            return dict.fromkeys(STATS)
        return {
            name: None if value < 0 else value
            for name, value in zip(STATS, self._stats, strict=True)
        }

    def name(self) -> str:
        """Return the allocator's own name, such as ``GPU_0_bfc``."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._library.am_tf_name(text, _NAME_BYTES)
        return text.value.decode()

    def border(self) -> list[tuple[int, int]]:
        """Return bytes and address of each request to the driver, in order.

        Bytes are 0 where it was refused, below 0 where a region was given back.
        """
        return [(n, a) for n, a in self._rows(self._library.am_tf_border, 2).tolist()]

    def regions(self) -> list[tuple[int, int]]:
        """Return address and bytes of each region held, by address."""
        return [(a, n) for a, n in self._rows(self._library.am_tf_regions, 2).tolist()]

    def chunks(self) -> list[Chunk]:
        """Return the chunk map, by address. Raises `NotMeasurableError` where there is none."""
        rows = self._rows(self._library.am_tf_chunks, 4)
        return sorted(Chunk(a, n, requested, bool(used)) for a, n, requested, used in rows.tolist())

    def address(self, name: str) -> int:
        """Return the address of an entry point: ``alloc``, ``free``, ``wait`` or ``bare``."""
        return ctypes.cast(getattr(self._library, f"am_tf_{name}"), c_void_p).value or 0

    def _rows(self, read: Callable[..., int], width: int) -> NDArray[np.int64]:
        count = read(None, 0)
        if count < 0:
            raise NotMeasurableError(f"{self.name()} has no chunk map")
        rows = np.zeros((max(1, count), width), dtype=np.int64)
        read(rows.ctypes.data_as(POINTER(c_int64)), count)
        return rows[:count]
