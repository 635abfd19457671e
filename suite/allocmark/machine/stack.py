"""The identity of what is measured: GPU, driver, CUDA, framework and Python versions.

Nothing here imports a framework or touches CUDA: versions come from package metadata and from
files that the wheels bring, the rest from NVML.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from allocmark.machine import nvml as nvml_meter
from allocmark.machine.emulated import is_emulated
from allocmark.system import interpreters
from allocmark.system.errors import AllocmarkError, NoGpuError, UnknownNameError

EMULATED = "emulated-"
"""How the names of machines on the emulated driver begin."""
ALIAS = "ALLOCMARK_MACHINE"
"""A name of the user's own, added to the machine's: two machines with the same GPU stay apart."""
OLDEST_DRIVER = 525
"""The first branch that serves CUDA 12, which every framework measured here needs."""
FRAMEWORKS = ("torch", "tensorflow", "cupy", "jax")
BARE = "cuda"
"""The framework of a stack without one: the bare driver and runtime."""

_DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tf-nightly"),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "jax": ("jax",),
    "rmm": ("rmm-cu13", "rmm-cu12", "rmm"),
    "numpy": ("numpy",),
    "nvidia-ml-py": ("nvidia-ml-py",),
    "asv": ("asv",),
}
"""What each package is called where it is published."""
_CUDA_WHEELS: Mapping[str, Mapping[str, str]] = {
    "cupy": {"cupy-cuda13x": "13", "cupy-cuda12x": "12"},
    "jax": {"jax-cuda13-plugin": "13", "jax-cuda12-plugin": "12"},
}
"""Wheels whose name tells the CUDA that a framework was built for."""
_TORCH_VERSION = re.compile(r"^__version__ = '([^']+)'", re.MULTILINE)
_TORCH_CUDA = re.compile(r"^cuda\b[^=]*= '([\d.]+)'", re.MULTILINE)
_TENSORFLOW_CUDA = re.compile(r"['\"]cuda_version['\"]\s*[,:]\s*['\"](\d+\.\d+)")
_TENSORFLOW_BUILT = re.compile(r"['\"]is_cuda_build['\"]\s*[,:]\s*True")
_NEEDED_CUDA = re.compile(r"^nvidia-cublas-cu(\d+)")
_LOCAL_CUDA = re.compile(r"\+cu(\d+)(\d)$")
_ASK_S = 60.0


@dataclass(frozen=True, slots=True)
class Stack:
    """One stack. `name` and `machine` are safe as names of folders.

    `cuda` is the newest CUDA that the driver serves, `framework_cuda` the one that the framework
    was built for (None: built without). `total_bytes` is the card's memory, `usable_bytes` what
    the driver leaves of it. `packages` holds the versions of everything that matters here, with
    None for what is not installed.
    """

    gpu: str
    machine: str
    driver: str
    cuda: str
    framework: str
    framework_version: str | None
    framework_cuda: str | None
    python: str
    total_bytes: int
    usable_bytes: int
    emulated: bool
    packages: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The folder's and environment's name: framework, its CUDA, driver and Python only.

        Another version of any other package must not begin a new line of results.
        """
        if self.framework_version is None:
            built = [f"cuda{self.cuda}"]
        else:
            public = self.framework_version.partition("+")[0]
            cuda = f"cuda{self.framework_cuda}" if self.framework_cuda else "cpu"
            built = [f"{self.framework}{public}", cuda]
        return "-".join(map(safe, [*built, f"driver{self.driver}", f"py{self.python}"]))

    def to_json(self) -> dict[str, Any]:
        """Return plain data, one level deep: each package's version is a field like the others."""
        names = [name for name in self.__slots__ if name != "packages"]
        return {name: getattr(self, name) for name in names} | dict(self.packages)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Stack:
        """Rebuild what `to_json` wrote. Raises `TypeError` where a field is missing."""
        own = {name: data[name] for name in cls.__slots__ if name in data and name != "packages"}
        return cls(**own, packages={k: v for k, v in data.items() if k not in own})


def read_stack(framework: str = "auto", device: int = 0) -> Stack:
    """Return the stack of one GPU, as CUDA counts it, under one framework.

    ``auto`` is the first of `FRAMEWORKS` that is installed. Where the named one is not installed,
    the stack is the bare driver's. Raises `NoGpuError` with one sentence where there is nothing
    to measure, `UnknownNameError` for a framework that the suite does not know.
    """
    if framework not in ("auto", BARE, *FRAMEWORKS):
        raise UnknownNameError("framework", framework, ["auto", BARE, *FRAMEWORKS])
    nvml, handle = nvml_meter.open_device(device)
    try:
        gpu = nvml_meter.as_text(nvml.nvmlDeviceGetName(handle))
        driver = nvml_meter.as_text(nvml.nvmlSystemGetDriverVersion())
        cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
        total = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError as error:
        raise NoGpuError(nvml_meter.in_words(error)) from None
    _refuse_old(driver)
    emulated = is_emulated()
    found = installed(framework)
    chosen = _chosen(framework, found)
    return Stack(
        gpu=gpu,
        machine=machine_name(gpu, emulated, os.environ.get(ALIAS, "")),
        driver=driver,
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        framework=chosen,
        framework_version=found.get(chosen),
        framework_cuda=found.get(f"{chosen} cuda"),
        python=found["python"] or "",
        total_bytes=total,
        usable_bytes=total - _reserved_bytes(nvml, handle),
        emulated=emulated,
        packages={name: found.get(name) for name in _DISTRIBUTIONS},
    )


def machine_name(gpu: str, emulated: bool = False, alias: str = "") -> str:
    """Return the GPU's name as a folder: ``nvidia-h200``, ``emulated-nvidia-h200-lab3``."""
    plain = safe(gpu.lower()) or "gpu"
    if emulated:
        plain = EMULATED + (re.sub(r"-?emulated-?", "-", plain).strip("-") or "gpu")
    own = safe(alias.lower())
    if any(letter.isalnum() and not letter.isascii() for letter in alias):
        # What ASCII cannot tell apart must not share a folder.
        own = f"{own}-{hashlib.sha256(alias.encode()).hexdigest()[:6]}".lstrip("-")
    return f"{plain}-{own}" if own else plain


def safe(text: str) -> str:
    """Return a text as part of a file's name: ASCII letters, digits, points, underlines, dashes."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")


def installed(framework: str = "auto") -> dict[str, str | None]:
    """Return the versions in the interpreter that measures this framework, by package.

    ``python`` is its own version, ``<framework> cuda`` the CUDA that a framework was built for:
    None if it was built without, absent if it does not tell. Raises `AllocmarkError` where an
    interpreter that the user has named cannot be asked.
    """
    if interpreters.is_this(framework):
        return _installed_here()
    return dict(_installed_there(framework, interpreters.interpreter(framework)))


@functools.cache
def _installed_there(framework: str, python: str) -> Mapping[str, str | None]:
    try:
        answer = subprocess.run(
            interpreters.command(framework, "allocmark.machine.stack"),
            env=interpreters.environment(framework, os.environ),
            capture_output=True,
            timeout=_ASK_S,
            check=False,
        )
        message = answer.stderr.decode(errors="replace").strip()
        if answer.returncode != 0:
            raise ValueError(message.rpartition("\n")[2] or f"exit code {answer.returncode}")
        # A program that becomes the interpreter may have printed something of its own.
        versions: Mapping[str, str | None] = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise AllocmarkError(
            f"{python}, the interpreter for {framework}, cannot say what it has installed "
            f"({error}): set {interpreters.variable(framework)} to one that can"
        ) from None
    return versions


def _installed_here() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name, distributions in _DISTRIBUTIONS.items():
        found[name] = next(filter(None, map(_version, distributions)), None)
    if found["torch"]:
        text = _file_of("torch", "version.py")
        # The metadata of some wheels leave out the build that their own file names.
        found["torch"] = _first(_TORCH_VERSION, text) or found["torch"]
        found["torch cuda"] = _first(_TORCH_CUDA, text) or _local_cuda(found["torch"])
    if found["tensorflow"]:
        text = _file_of("tensorflow", "python/platform/build_info.py")
        # Since 2.23 the file says only whether CUDA was there, and the wheel's needs which.
        cuda = _first(_TENSORFLOW_CUDA, text)
        if cuda is None and _TENSORFLOW_BUILT.search(text):
            cuda = _needed_cuda(_DISTRIBUTIONS["tensorflow"])
        found["tensorflow cuda"] = cuda
    for name, wheels in _CUDA_WHEELS.items():
        cuda = next((c for wheel, c in wheels.items() if _version(wheel)), None)
        if found[name] and (cuda or name != "cupy"):  # CuPy built from source: for some CUDA.
            found[f"{name} cuda"] = cuda
    return found


def lacks_cuda(framework: str, found: Mapping[str, str | None]) -> bool:
    """Return whether what `installed` found of a framework was built without CUDA.

    One that does not say what it was built for may have it.
    """
    return found.get(f"{framework} cuda", "") is None


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _needed_cuda(distributions: Iterable[str]) -> str | None:
    """Return the CUDA of the libraries that a package asks for, among its extras."""
    for name in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            needs = importlib.metadata.requires(name) or ()
            return next((m[1] for need in needs if (m := _NEEDED_CUDA.match(need))), None)
    return None


def _file_of(package: str, path: str) -> str:
    """Return the text of a file that a package's build wrote; to import it imports the package."""
    try:
        spec = importlib.util.find_spec(package)
        folders = list(spec.submodule_search_locations or []) if spec else []
        return Path(folders[0], path).read_text(encoding="utf-8")
    except (OSError, ValueError, IndexError):
        return ""


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def _local_cuda(version: str | None) -> str | None:
    """Return 13.0 for a version that ends in ``+cu130``."""
    match = _LOCAL_CUDA.search(version or "")
    return f"{match[1]}.{match[2]}" if match else None


def _chosen(framework: str, found: Mapping[str, str | None]) -> str:
    candidates = FRAMEWORKS if framework == "auto" else (framework,)
    return next((name for name in candidates if found.get(name)), BARE)


def _refuse_old(driver: str) -> None:
    branch = driver.partition(".")[0]
    if branch.isdecimal() and int(branch) < OLDEST_DRIVER:
        raise NoGpuError(
            f"the driver {driver} is too old: CUDA 12, which the frameworks measured here need, "
            f"begins with {OLDEST_DRIVER}; install a newer driver"
        )


def _reserved_bytes(nvml: Any, handle: Any) -> int:
    """Return what the driver keeps of the card; only the second version of the query tells."""
    info = nvml_meter.read_or_none(
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    )
    return int(info.reserved) if info is not None else 0


if __name__ == "__main__":
    print(json.dumps(_installed_here()))
