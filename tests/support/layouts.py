"""What crosses the border to a program: our structures and numbers, read from the C sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from allocmark.emulator import build

SOURCES = Path(build.__file__).parent / "src"


class Struct(NamedTuple):
    """One of our structures and NVIDIA's: the fields by our names, in the order of NVIDIA's."""

    source: str
    ours: str
    theirs: str
    fields: Mapping[str, str]
    whole: bool = False
    """Written whole into what a program hands over, so both are of one size; else ours is a head
    that is read, or written where theirs is larger."""


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


_POOL = {
    "type": "allocType",
    "handle_types": "handleTypes",
    "location_type": "location.type",
    "location_id": "location.id",
}
STRUCTS = (
    Struct(
        *("runtime_memory.c", "cudaPointerAttributes", "struct cudaPointerAttributes"),
        _same("type device devicePointer hostPointer"),
    ),
    Struct("runtime_memory.c", "pool_properties", "struct cudaMemPoolProps", _POOL),
    Struct("driver_memory.c", "pool_properties", "CUmemPoolProps", _POOL),
    Struct(
        *("driver_vmm.c", "properties", "CUmemAllocationProp"),
        {
            "type": "type",
            "handle_types": "requestedHandleTypes",
            "location_type": "location.type",
            "location_id": "location.id",
            "metadata": "win32HandleMetaData",
            "flags": "allocFlags",
        },
        whole=True,
    ),
    Struct(
        *("runtime_kernel.c", "launch_configuration", "cudaLaunchConfig_t"),
        {"grid": "gridDim", "block": "blockDim", "shared": "dynamicSmemBytes", "stream": "stream"},
    ),
    Struct(
        *("driver_stream.c", "launch_configuration", "CUlaunchConfig"),
        {
            "grid": "gridDimX",
            "block": "blockDimX",
            "shared": "sharedMemBytes",
            "stream": "hStream",
        },
    ),
    Struct(
        *("runtime_kernel.c", "function_attributes", "struct cudaFuncAttributes"),
        {
            "shared": "sharedSizeBytes",
            "constant": "constSizeBytes",
            "local": "localSizeBytes",
            "max_threads": "maxThreadsPerBlock",
            "registers": "numRegs",
            "ptx": "ptxVersion",
            "binary": "binaryVersion",
            "cache_ca": "cacheModeCA",
            "max_dynamic": "maxDynamicSharedSizeBytes",
            "carveout": "preferredShmemCarveout",
        },
    ),
)
_LT = Struct(
    *("cublaslt.c", "heuristic", "cublasLtMatmulHeuristicResult_t"),
    {
        "algorithm": "algo",
        "workspace": "workspaceSize",
        "state": "state",
        "waves": "wavesCount",
        "reserved": "reserved",
    },
    whole=True,
)
OF_HEADERS = {"driver_types.h": STRUCTS, "cublasLt.h": (_LT,)}

_IDS = _same("domain bus device") | {"id": "pciDeviceId", "subsystem": "pciSubSystemId"}
NVML = (
    Struct("nvml.c", "memory", "c_nvmlMemory_t", _same("total free used"), whole=True),
    Struct(
        *("nvml.c", "memory2", "c_nvmlMemory_v2_t", _same("version total reserved free used")),
        whole=True,
    ),
    Struct(
        *("nvml.c", "process", "c_nvmlProcessInfo_t"),
        {
            "pid": "pid",
            "used": "usedGpuMemory",
            "gpu_instance": "gpuInstanceId",
            "compute_instance": "computeInstanceId",
        },
        whole=True,
    ),
    Struct(
        *("nvml.c", "pci", "nvmlPciInfo_t"),
        {"legacy": "busIdLegacy", **_IDS, "bus_id": "busId"},
        whole=True,
    ),
)
"""NVIDIA's side is their Python package nvidia-ml-py, which needs the same layouts."""

POOL_ATTRIBUTES = {
    "REUSE_EVENT": "CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES",
    "REUSE_OPPORTUNISTIC": "CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC",
    "REUSE_INTERNAL": "CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES",
    "RELEASE_THRESHOLD": "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD",
    "RESERVED_CURRENT": "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT",
    "RESERVED_HIGH": "CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH",
    "USED_CURRENT": "CU_MEMPOOL_ATTR_USED_MEM_CURRENT",
    "USED_HIGH": "CU_MEMPOOL_ATTR_USED_MEM_HIGH",
}
POINTER_ATTRIBUTES = {
    "CONTEXT": "CU_POINTER_ATTRIBUTE_CONTEXT",
    "MEMORY_TYPE": "CU_POINTER_ATTRIBUTE_MEMORY_TYPE",
    "DEVICE_POINTER": "CU_POINTER_ATTRIBUTE_DEVICE_POINTER",
    "HOST_POINTER": "CU_POINTER_ATTRIBUTE_HOST_POINTER",
    "IS_MANAGED": "CU_POINTER_ATTRIBUTE_IS_MANAGED",
    "ORDINAL": "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL",
}


def read(source: str) -> str:
    """Return the text of a file of the emulated driver."""
    return (SOURCES / source).read_text()


def definition(struct: Struct) -> str:
    """Return our structure's text, to stand in a block of its own."""
    found = re.search(rf"^struct {struct.ours} {{.*?^}};", read(struct.source), re.M | re.S)
    assert found, f"no struct {struct.ours} in {struct.source}"
    return found[0]


def device_properties() -> tuple[list[str], list[str]]:
    """Return the fields of our cudaDeviceProp, and those of them that CUDA 13 has no more."""
    text = read("device_properties.h")
    body = text[text.index("struct cudaDeviceProp {") : text.index("tail[76]")]
    gone = re.findall(r"OLD\(int (\w+);\)", body)
    body = re.sub(r"OLD\((.*?)\)", r"\1", body).split("{", 1)[1]
    names: list[str] = []
    for declaration in body.split(";"):
        for part in declaration.split(","):
            found = re.search(r"(\w+)\s*(\[\d+\])?\s*$", part.strip())
            if found and found[1] != "int":
                names.append(found[1])
    return names, gone


def numbers() -> dict[str, int]:
    """Return the errors and attributes of the sources, by NVIDIA's names."""
    found: dict[str, int] = {}
    for number, *names in re.findall(r'\{(\d+), "(\w+)", "(\w+)"', read("errors.c")):
        found |= dict.fromkeys(names, int(number))
    rows = re.findall(
        r"^    (?:\{(\d+), \d+\},|case (\d+):.*;) /\* (\w+)", read("identity.c"), re.M
    )
    found |= {f"CU_DEVICE_ATTRIBUTE_{name}": int(a or b) for a, b, name in rows}
    found |= _enumerated("pool.c", "enum attribute {", POOL_ATTRIBUTES)
    return found | _enumerated("driver_memory.c", "enum { CONTEXT", POINTER_ATTRIBUTES)


def _enumerated(source: str, start: str, names: Mapping[str, str]) -> dict[str, int]:
    """Return what an enumeration of the sources says, by NVIDIA's names."""
    text = read(source)
    body = text[text.index(start) :].partition("{")[2].partition("}")[0]
    found, last = {}, -1
    for entry in filter(None, map(str.strip, body.split(","))):
        name, _, told = map(str.strip, entry.partition("="))
        last = int(told) if told else last + 1
        found[names[name]] = last
    return found
