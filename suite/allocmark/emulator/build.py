"""Builds the emulated libraries with a C compiler, once for each version of the sources.

The outcome lies in the cache of `allocmark.system.compiler`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from allocmark.system.compiler import compiler, entry, filled, made_by_another, run
from allocmark.system.errors import NotBuiltError

_HERE = Path(__file__).parent
_SOURCES = _HERE / "src"
_NAMES = _HERE / "names"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-pthread")
AUDIT = "liballocmark_audit.so"
DRIVER = "libcuda.so.1"
_LINKED = "libcuda.so"
"""What Triton's older releases link their driver module against."""
_TRIES = 3
"""Sources that are edited while they are compiled are compiled again so often."""


class _SourcesChangedError(Exception):
    """What was compiled is a mixture: nothing of it may be kept."""


@dataclass(frozen=True)
class Library:
    """One shared library: its file name is its SONAME."""

    name: str
    sources: tuple[str, ...]
    names: str = ""  # the list of every entry point that the real library exports
    stub: str = ""  # the C function that a missing entry point calls
    versions: str = ""  # exported patterns, where the real library's symbols are versioned
    defines: tuple[str, ...] = ()
    last_resort: bool = False  # stands in only where there is no real one


_CORE = (
    "config clock times shared fault context memory contents regions placement stream pool "
    "identity errors lookup driver_device driver_memory driver_vmm driver_stream"
)
_RUNTIME = "runtime_device runtime_memory runtime_stream runtime_kernel"
# TensorFlow looks for these and calls none of them before a kernel needs one.
_EMPTY = "libcufft.so.11 libcusolver.so.11 libcusparse.so.12"


def _libraries() -> tuple[Library, ...]:
    """Return every library but the driver, which the others are linked against."""
    found = [
        Library("libnvidia-ml.so.1", ("nvml",), "nvml", "nvml_stub"),
        Library("libcudnn.so.9", ("cudnn",), "cudnn", "dnn_stub", "cudnn*;"),
    ]
    for major in (12, 13):
        runtime, defines = tuple(_RUNTIME.split()), (f"-DCUDART_MAJOR={major}",)
        versions, blas_lt = "cuda*; __cuda*;", f"libcublasLt.so.{major}"
        found += [
            Library(
                f"libcudart.so.{major}", runtime, f"cudart{major}", "rt_stub", versions, defines
            ),
            Library(f"libcublas.so.{major}", ("cublas",), "cublas", "blas_stub", "cublas*;"),
            Library(blas_lt, ("cublaslt",), "cublaslt", "blas_stub", "cublasLt*;"),
        ]
    return (*found, *(Library(name, ("empty",), last_resort=True) for name in _EMPTY.split()))


_DRIVER_LIBRARY = Library(DRIVER, tuple(_CORE.split()), "cuda", "emu_stub")


def stub_source(library: Library) -> str:
    """Return C that defines every name of the library's list as a weak stub.

    A function of the same name in the sources takes its place when the library is linked.
    """
    names = (_NAMES / f"{library.names}.txt").read_text().split()
    lines = [f"int {library.stub}(const char *name, int *said);"]
    for name in names:
        lines += [
            f"static int stub_{name}(void) {{",
            f'    static int said; return {library.stub}("{name}", &said);',
            "}",
            f'extern __attribute__((weak, visibility("default"), alias("stub_{name}")))',
            f"int {name}(void);",
        ]
    if library.name == DRIVER:
        lines += ['#include "emu.h"', "const struct emu_name emu_names[] = {"]
        lines += [f'{{"{name}", (void *){name}, (void *)stub_{name}}},' for name in sorted(names)]
        lines += ["};", "const size_t emu_name_count = sizeof emu_names / sizeof *emu_names;"]
    return "\n".join(lines) + "\n"


def _compile(library: Library, command: Sequence[str], folder: Path) -> None:
    sources = [str(_SOURCES / f"{name}.c") for name in library.sources]
    options = [*_FLAGS, *library.defines, f"-I{_SOURCES}", f"-Wl,-soname,{library.name}"]
    with tempfile.TemporaryDirectory() as scratch:
        if library.names:
            stubs = Path(scratch, "stubs.c")
            stubs.write_text(stub_source(library))
            sources.append(str(stubs))
        if library.versions:
            script = Path(scratch, "versions.map")
            script.write_text(f"{library.name} {{ global: {library.versions} local: *; }};\n")
            options.append(f"-Wl,--version-script,{script}")
        sources.append("-lm" if library.name == DRIVER else str(folder / DRIVER))
        run([*command, *options, "-shared", "-o", str(folder / library.name), *sources])


def _compile_audit(command: Sequence[str], folder: Path, home: Path) -> None:
    libraries = (_DRIVER_LIBRARY, *_libraries())
    entries = [
        f'{{"{each.name}","{_escaped(home / each.name)}",{int(each.last_resort)}}}'
        for each in libraries
    ]
    defines = [f"-DREDIRECTIONS={','.join(entries)}"]
    bare = ["-nostdlib", "-ffreestanding", "-fno-stack-protector"]
    source = str(_SOURCES / "audit.c")
    run([*command, *_FLAGS, *bare, *defines, "-shared", "-o", str(folder / AUDIT), source])


def _escaped(path: Path) -> str:
    """Return a path for a C string, whatever it holds."""
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(path))


def _entry(command: Sequence[str]) -> Path:
    parts: list[str | bytes] = [Path(__file__).read_bytes()]
    for path in [*sorted(_SOURCES.iterdir()), *sorted(_NAMES.iterdir())]:
        parts += [path.name, path.read_bytes()]
    return entry("emulator", parts, command)


def build() -> Path:
    """Return the folder of the built libraries, building them first where that is due.

    Raises `NotBuiltError` with what the compiler says, or where neither a compiler nor an older
    one's outcome is here.
    """
    try:
        try:
            command = compiler("c")
        except NotBuiltError:
            if before := made_by_another(_entry([])):
                return before
            raise
        for _ in range(_TRIES):
            home = _entry(command)
            with suppress(_SourcesChangedError):
                return filled(home, partial(_build, home, command))
    except NotBuiltError as error:
        raise NotBuiltError(f"the emulated driver cannot be built: {error}") from None
    raise NotBuiltError(
        f"the emulated driver's sources in {_SOURCES} change while they are compiled: "
        "run the command again when nothing writes there"
    )


def _build(home: Path, command: Sequence[str], folder: Path) -> None:
    """Build into `folder`, which becomes `home`. Raises `_SourcesChangedError`."""
    _compile(_DRIVER_LIBRARY, command, folder)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(lambda library: _compile(library, command, folder), _libraries()))
    _compile_audit(command, folder, home)
    (folder / _LINKED).symlink_to(DRIVER)
    if home != _entry(command):
        raise _SourcesChangedError
