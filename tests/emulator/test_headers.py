"""The structures that cross the border, compared with NVIDIA's own headers where there are any."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from pathlib import Path

import pytest

from allocmark.emulator import build

SOURCES = Path(build.__file__).parent / "src"
WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12")


def header_folders() -> list[Path]:
    folders = [Path("/usr/local/cuda/include")]
    for wheel in WHEELS:
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        folders += [Path(str(f.locate())).parent for f in files if f.name == "driver_types.h"]
    return [folder for folder in folders if (folder / "driver_types.h").exists()]


def major_of(folder: Path) -> int:
    match = re.search(
        r"#define CUDART_VERSION\s+(\d+)", (folder / "cuda_runtime_api.h").read_text()
    )
    assert match
    return int(match[1]) // 1000


def prop_fields() -> list[str]:
    text = (SOURCES / "device_properties.h").read_text()
    body = text[text.index("struct cudaDeviceProp {") : text.index("tail[76]")]
    body = re.sub(r"OLD\((.*?)\)", r"\1", body).split("{", 1)[1]
    names: list[str] = []
    for declaration in body.split(";"):
        for part in declaration.split(","):
            found = re.search(r"(\w+)\s*(\[\d+\])?\s*$", part.strip())
            if found and found[1] != "int":
                names.append(found[1])
    return names


def compiler_headers(folder: Path) -> Path:
    """Return where ``crt/`` is: beside the other headers, or in the wheel nvidia-cuda-nvcc-cu12."""
    other = folder.parent.parent / "cuda_nvcc" / "include"
    return other if (other / "crt").is_dir() else folder


def layout(program: str, folder: Path, tmp_path: Path) -> str:
    source = tmp_path / "layout.c"
    source.write_text(program)
    binary = tmp_path / "layout"
    command = [
        *build.find_compiler(),
        *(f"-I{place}" for place in (folder, compiler_headers(folder))),
        f"-I{SOURCES}",
        "-o",
        str(binary),
        str(source),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout


def printing(struct: str, fields: list[str]) -> str:
    lines = [f'printf("{field} %zu\\n", offsetof({struct}, {field}));' for field in fields]
    return "int main(void) {" + "\n".join(lines) + f'printf("%zu\\n", sizeof({struct})); }}'


@pytest.fixture(params=[12, 13])
def headers(request: pytest.FixtureRequest) -> tuple[int, Path]:
    for folder in header_folders():
        if major_of(folder) == request.param and (compiler_headers(folder) / "crt").is_dir():
            return request.param, folder
    wheels = {12: "nvidia-cuda-runtime-cu12 and nvidia-cuda-nvcc-cu12", 13: "nvidia-cuda-runtime"}
    pytest.skip(f"no CUDA {request.param} headers: install {wheels[request.param]}")


def test_device_properties_lie_where_the_header_says(
    headers: tuple[int, Path], tmp_path: Path
) -> None:
    major, folder = headers
    fields = prop_fields()
    if major >= 13:
        text = (SOURCES / "device_properties.h").read_text()
        gone = re.findall(r"OLD\(int (\w+);\)", text)
        assert len(gone) == 8
        fields = [field for field in fields if field not in gone]
    assert len(fields) > 60
    start = "#include <stdio.h>\n#include <stddef.h>\n"
    body = printing("struct cudaDeviceProp", fields)
    real = layout(f"{start}#include <driver_types.h>\n{body}", folder, tmp_path)
    ours = layout(
        f'{start}#define CUDART_MAJOR {major}\n#include "device_properties.h"\n{body}',
        tmp_path,
        tmp_path,
    )
    assert ours == real


def test_heads_of_other_structures(headers: tuple[int, Path], tmp_path: Path) -> None:
    _major, folder = headers
    program = """
#include <stdio.h>
#include <stddef.h>
#include <driver_types.h>
#include <cuda.h>
#define AT(s, f) printf("%zu ", offsetof(s, f))
int main(void) {
    AT(struct cudaPointerAttributes, device); AT(struct cudaPointerAttributes, devicePointer);
    AT(struct cudaPointerAttributes, hostPointer);
    AT(struct cudaMemPoolProps, handleTypes); AT(struct cudaMemPoolProps, location);
    AT(CUmemAllocationProp, requestedHandleTypes); AT(CUmemAllocationProp, location);
    printf("%zu ", sizeof(CUmemAllocationProp));
    AT(struct cudaLaunchConfig_st, dynamicSmemBytes); AT(struct cudaLaunchConfig_st, stream);
    AT(struct cudaFuncAttributes, maxThreadsPerBlock);
    AT(struct cudaFuncAttributes, preferredShmemCarveout);
    printf("%d %d %d %d", cudaMemPoolAttrReleaseThreshold, cudaMemPoolAttrReservedMemCurrent,
           cudaMemPoolAttrUsedMemHigh, CU_MEM_LOCATION_TYPE_DEVICE);
}
"""
    if not (folder / "cuda.h").exists():
        pytest.skip(f"no cuda.h beside {folder}/driver_types.h")
    # device 4, pointers 8 and 16; pool 4, 8; VMM 4, 8, size 32; launch 24, 32; function 24, 48.
    expected = "4 8 16 4 8 4 8 32 24 32 24 48 4 5 8 1"
    assert layout(program, folder, tmp_path) == expected
