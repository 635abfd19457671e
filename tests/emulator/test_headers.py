"""The structures and numbers that cross the border, compared with NVIDIA's own headers.

torch's wheels bring them: those of CUDA 13 with the runtime, those of CUDA 12 with Triton, which
also has the macros (``crt/``) that the others lack.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pynvml
import pytest

from allocmark.system.compiler import compiler
from tests.support.layouts import (
    NVML,
    OF_HEADERS,
    SOURCES,
    Struct,
    definition,
    device_properties,
    numbers,
)

WHEELS = (
    *("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "triton"),
    *("nvidia-cuda-crt", "nvidia-cuda-nvcc-cu12"),  # Macros alone.
)
START = "#include <stdio.h>\n#include <stddef.h>\n"
# cuBLAS names these; they need a part of the toolkit that is in no wheel of torch's.
NO_HALVES = "#define __CUDA_FP16_H__\n#define __CUDA_BF16_H__\n"


def folders_with(header: str) -> list[Path]:
    """Return where an installed toolkit or wheel has that header."""
    found = [Path("/usr/local/cuda/include")]
    for wheel in WHEELS:
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        parts = Path(header).parts
        own = [Path(str(file.locate())) for file in files if file.parts[-len(parts) :] == parts]
        found += [path.parents[len(parts) - 1] for path in own]
    return [folder for folder in found if (folder / header).exists()]


def major_of(folder: Path) -> int:
    text = (folder / "cuda_runtime_api.h").read_text()
    match = re.search(r"#define CUDART_VERSION\s+(\d+)", text)
    assert match
    return int(match[1]) // 1000


@pytest.fixture(params=[12, 13])
def headers(request: pytest.FixtureRequest) -> tuple[int, list[Path]]:
    """Return a major version, and the folders to look for headers of it in."""
    macros = folders_with("crt/host_defines.h")
    for folder in folders_with("cuda_runtime_api.h"):
        if major_of(folder) == request.param and macros:
            return request.param, [folder, macros[0]]
    need = {12: "triton, or nvidia-cuda-runtime-cu12 and nvidia-cuda-crt", 13: "torch for CUDA 13"}
    pytest.skip(f"no headers of CUDA {request.param}: install {need[request.param]}")


def told(program: str, folders: Iterable[Path], tmp_path: Path) -> dict[str, int]:
    """Compile and run a program, which prints names and numbers."""
    source, binary = tmp_path / "layout.c", tmp_path / "layout"
    source.write_text(f"{program}\n")
    command = [*compiler("c"), *(f"-I{folder}" for folder in (*folders, SOURCES))]
    command += ["-o", str(binary), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    text = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout
    return {name: int(number) for name, number in (line.split() for line in text.splitlines())}


def main(lines: Iterable[str]) -> str:
    return "\n".join(["int main(void) {", *lines, "}"])


def print_layout(struct: str, fields: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines that print where each field lies, by a name for it, and the size."""
    lines = [f'printf("{told} %zu\\n", offsetof({struct}, {field}));' for told, field in fields]
    return [*lines, f'printf("sizeof %zu\\n", sizeof({struct}));']


def ours(struct: Struct, tmp_path: Path, major: int = 13) -> dict[str, int]:
    """Return where the fields of our structure lie, by NVIDIA's names."""
    start = f'{START}#define CUDART_MAJOR {major}\n#include "runtime.h"\n'
    lines = print_layout(f"struct {struct.ours}", ((b, a) for a, b in struct.fields.items()))
    return told(start + main([definition(struct), *lines]), [], tmp_path)


def assert_same(struct: Struct, mine: dict[str, int], real: dict[str, int]) -> None:
    sizes = mine.pop("sizeof"), real.pop("sizeof")
    assert mine == real
    assert sizes[0] == sizes[1] if struct.whole else sizes[0] <= sizes[1]


def test_device_properties_lie_where_the_header_says(
    headers: tuple[int, list[Path]], tmp_path: Path
) -> None:
    major, folders = headers
    fields, gone = device_properties()
    assert len(gone) == 8 and len(fields) > 60
    if major >= 13:
        fields = [field for field in fields if field not in gone]
    body = main(print_layout("struct cudaDeviceProp", zip(fields, fields, strict=True)))
    real = told(f"{START}#include <driver_types.h>\n{body}", folders, tmp_path)
    own = f'#define CUDART_MAJOR {major}\n#include "device_properties.h"\n'
    assert told(f"{START}{own}{body}", [], tmp_path) == real


@pytest.mark.parametrize("header", OF_HEADERS)
def test_other_structures_lie_where_the_header_says(
    headers: tuple[int, list[Path]], header: str, tmp_path: Path
) -> None:
    major, folders = headers
    if not (folders[0] / header).exists():
        assert header != "driver_types.h"
        return  # Only the wheels of a whole toolkit have it.
    start = f"{START}{NO_HALVES}#include <cuda.h>\n#include <driver_types.h>\n#include <{header}>\n"
    for struct in OF_HEADERS[header]:
        names = struct.fields.values()
        lines = print_layout(struct.theirs, zip(names, names, strict=True))
        real = told(start + main(lines), folders, tmp_path)
        assert_same(struct, ours(struct, tmp_path, major), real)


@pytest.mark.parametrize("struct", NVML, ids=lambda struct: str(struct.theirs))
def test_nvml_s_structures_lie_where_their_package_says(struct: Struct, tmp_path: Path) -> None:
    theirs = getattr(pynvml, struct.theirs)
    real = {name: getattr(theirs, name).offset for name in struct.fields.values()}
    assert_same(struct, ours(struct, tmp_path), {**real, "sizeof": pynvml.sizeof(theirs)})


def test_errors_and_attributes_have_their_numbers(
    headers: tuple[int, list[Path]], tmp_path: Path
) -> None:
    mine = numbers()
    assert len(mine) == 2 * 18 + 43 + 8 + 6
    lines = [f'printf("{name} %d\\n", (int){name});' for name in mine]
    start = f"{START}#include <cuda.h>\n#include <driver_types.h>\n"
    assert told(start + main(lines), headers[1], tmp_path) == mine
