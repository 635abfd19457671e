from __future__ import annotations

import importlib.metadata
import json
import re
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.machine import nvml as nvml_module
from allocmark.machine import stack as stack_module
from allocmark.machine.nvml import format_uuid, visible_uuids
from allocmark.machine.stack import Stack, installed, lacks_cuda, machine_name, read_stack, safe
from allocmark.system.errors import AllocmarkError, NoGpuError, UnknownNameError
from tests.support.emulation import needs_emulator, needs_torch
from tests.support.nvml import MIB, UUIDS, FakeNvml, emulated_on, error

SAFE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ALLOCMARK_MACHINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(nvml_module, "_uuid_from_driver", lambda device: None)
    return FakeNvml(monkeypatch, ["NVIDIA H200"])


def a_stack(**changes: object) -> Stack:
    fields: dict[str, object] = {
        "gpu": "NVIDIA H200",
        "machine": "nvidia-h200",
        "driver": "580.159.04",
        "cuda": "13.0",
        "framework": "torch",
        "framework_version": "2.11.0+cu130",
        "framework_cuda": "13.0",
        "python": "3.12",
        "total_bytes": 1000,
        "usable_bytes": 900,
        "emulated": False,
        "packages": {"torch": "2.11.0+cu130", "asv": None},
    }
    return Stack(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_name_is_framework_cuda_driver_and_python() -> None:
    assert a_stack().name == "torch2.11.0-cuda13.0-driver580.159.04-py3.12"


def test_a_bare_stack_is_named_by_the_driver() -> None:
    bare = a_stack(framework="cuda", framework_version=None, framework_cuda=None)
    assert bare.name == "cuda13.0-driver580.159.04-py3.12"


def test_a_build_without_cuda_is_named_so() -> None:
    assert a_stack(framework_cuda=None).name == "torch2.11.0-cpu-driver580.159.04-py3.12"


def test_another_version_of_another_package_keeps_the_name() -> None:
    assert a_stack(packages={"tensorflow": "2.21.0"}).name == a_stack().name


def test_plain_data_is_flat_and_comes_back_whole() -> None:
    data = a_stack().to_json()
    assert data["torch"] == "2.11.0+cu130" and data["asv"] is None
    assert Stack.from_json(json.loads(json.dumps(data))) == a_stack()
    with pytest.raises(TypeError):
        Stack.from_json({"gpu": "NVIDIA H200"})


def test_what_nvml_tells_becomes_the_stack(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "is_emulated", lambda: False)
    monkeypatch.setenv("ALLOCMARK_MACHINE", "Lab 3")
    made = read_stack("cuda")
    assert (made.gpu, made.machine) == ("NVIDIA H200", "nvidia-h200-lab-3")
    assert (made.driver, made.cuda, made.framework) == ("580.159.04", "13.0", "cuda")
    assert (made.total_bytes, made.usable_bytes) == (1000 * MIB, 960 * MIB)
    assert made.framework_version is None and made.framework_cuda is None
    assert set(made.packages) >= {"torch", "tensorflow", "cupy", "jax", "numpy", "asv"}


def test_an_old_nvml_leaves_the_reserve_out(nvml: FakeNvml) -> None:
    memory = nvml._memory
    nvml.says(
        "nvmlDeviceGetMemoryInfo",
        lambda handle, version=None: (
            memory(handle) if version is None else error("FUNCTION_NOT_FOUND")()
        ),
    )
    assert read_stack("cuda").usable_bytes == 1000 * MIB


def test_a_framework_that_is_missing_leaves_the_bare_stack(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_module, "_version", lambda distribution: None)
    made = read_stack("torch")
    assert made.framework == "cuda" and made.packages["torch"] is None
    assert made.name.startswith("cuda13.0-")


def test_an_unknown_framework_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'pytorch'"):
        read_stack("pytorch")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("LIBRARY_NOT_FOUND", "no NVIDIA driver is installed here"),
        ("LIB_RM_VERSION_MISMATCH", "updated while it was running"),
        ("DRIVER_NOT_LOADED", "kernel module is not loaded"),
        ("NO_PERMISSION", "may not use the GPU"),
        ("UNKNOWN", "NVML says"),
    ],
)
def test_each_failure_of_nvml_is_one_sentence(nvml: FakeNvml, name: str, sentence: str) -> None:
    nvml.says("nvmlInit", error(name))
    with pytest.raises(NoGpuError, match=sentence) as caught:
        read_stack()
    assert "\n" not in str(caught.value)


def test_a_machine_without_a_card(nvml: FakeNvml) -> None:
    nvml.cards.clear()
    with pytest.raises(NoGpuError, match="sees no GPU"):
        read_stack()


def test_a_card_that_is_lost_while_it_is_asked(nvml: FakeNvml) -> None:
    nvml.says("nvmlDeviceGetName", error("GPU_IS_LOST"))
    with pytest.raises(NoGpuError, match="fallen off the bus"):
        read_stack()


@pytest.mark.parametrize("version", ["470.256.02", "520.61.05"])
def test_an_old_driver_is_refused_with_the_reason(nvml: FakeNvml, version: str) -> None:
    nvml.says("nvmlSystemGetDriverVersion", lambda: version)
    with pytest.raises(NoGpuError, match=f"{re.escape(version)} is too old: CUDA 12"):
        read_stack()


@pytest.mark.parametrize("version", ["525.60.13", "580.159.04", "unknown"])
def test_a_driver_that_is_new_or_says_nothing_is_taken(nvml: FakeNvml, version: str) -> None:
    nvml.says("nvmlSystemGetDriverVersion", lambda: version)
    assert read_stack("cuda").driver == version


def test_the_device_is_the_one_that_cuda_counts(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.cards[:] = ["NVIDIA H200"] * 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"2,{UUIDS[0][:6]}")
    read_stack("cuda", 0)
    read_stack("cuda", 1)
    assert nvml.asked == [UUIDS[2], UUIDS[0]]
    with pytest.raises(NoGpuError, match=r"no GPU 2: CUDA sees 2 here \(CUDA_VISIBLE_DEVICES=2"):
        read_stack("cuda", 2)


def test_a_mig_instance_is_found_by_its_own_uuid(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml_module, "_uuid_from_driver", lambda device: "GPU-1234")
    nvml.says(
        "nvmlDeviceGetHandleByUUID",
        lambda uuid: 0 if uuid == "MIG-1234" else error("NOT_FOUND")(),
    )
    assert read_stack("cuda").gpu == "NVIDIA H200"


def test_unlike_cards_are_counted_by_cuda_itself(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.cards[:] = ["NVIDIA T4", "NVIDIA H200"]
    monkeypatch.setattr(nvml_module, "_uuids_from_child", lambda: [UUIDS[1], UUIDS[0]])
    assert read_stack("cuda", 0).gpu == "NVIDIA H200"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert read_stack("cuda", 0).gpu == "NVIDIA T4"


def test_cuda_that_does_not_start_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    nvml_module._uuids_from_child.cache_clear()
    with pytest.raises(NoGpuError, match="could not be started"):
        nvml_module._uuids_from_child()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("2, 0", [2, 0]),
        ("0,-1,2", [0]),
        ("0,7,1", [0]),
        ("1,1", []),
        ("GPU-2", [2]),
        ("GPU-", []),
        ("NoDevFiles", []),
    ],
)
def test_visible_devices_as_cuda_reads_them(setting: str | None, expected: list[int]) -> None:
    assert visible_uuids(UUIDS[:3], setting) == [UUIDS[index] for index in expected]


def test_a_mig_instance_is_visible_by_name() -> None:
    assert visible_uuids(UUIDS[:1], "MIG-abc,0") == ["MIG-abc", UUIDS[0]]


@given(st.text(alphabet="0123456789,-GPUabc ", max_size=20))
def test_no_setting_makes_up_a_device(setting: str) -> None:
    found = visible_uuids(UUIDS[:3], setting)
    assert set(found) <= set(UUIDS[:3])
    assert len(found) == len(set(found))


def test_a_uuid_is_written_as_nvml_writes_it() -> None:
    assert format_uuid(bytes(range(16))) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


@pytest.mark.parametrize(
    ("gpu", "emulated", "alias", "expected"),
    [
        ("NVIDIA H200", False, "", "nvidia-h200"),
        ("NVIDIA H200", False, "lab3", "nvidia-h200-lab3"),
        ("Emulated NVIDIA H200", True, "", "emulated-nvidia-h200"),
        ("NVIDIA H200", True, "x/../y", "emulated-nvidia-h200-x-..-y"),
        ("NVIDIA GeForce RTX 4090 (D)", False, "", "nvidia-geforce-rtx-4090-d"),
        ("显卡", False, "", "gpu"),
    ],
)
def test_machine_names(gpu: str, emulated: bool, alias: str, expected: str) -> None:
    assert machine_name(gpu, emulated, alias) == expected


def test_names_beyond_ascii_keep_machines_apart() -> None:
    names = {machine_name("NVIDIA H200", alias=alias) for alias in ("", "ä", "ö", "实验室", "labä")}
    assert len(names) == 5
    assert all(name.isascii() for name in names)


@given(st.text(), st.booleans(), st.text())
def test_a_machine_name_is_one_safe_folder(gpu: str, emulated: bool, alias: str) -> None:
    name = machine_name(gpu, emulated, alias)
    assert SAFE.fullmatch(name)
    assert not emulated or name.startswith("emulated-")
    assert machine_name(name) == name.lower()


@given(st.text(), st.text(), st.text())
def test_a_stack_name_is_one_safe_folder(version: str, driver: str, cuda: str) -> None:
    name = a_stack(framework_version=version, driver=driver, framework_cuda=cuda).name
    assert SAFE.fullmatch(name)
    assert safe(name) == name


def test_the_build_of_torch_is_read_from_its_own_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "version.py").write_text(
        "__version__ = '2.12.1+cu129'\ncuda: Optional[str] = '12.9'\nhip: Optional[str] = None\n"
    )
    _only(monkeypatch, {"torch": "2.12.1"})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    found = installed()
    assert (found["torch"], found["torch cuda"]) == ("2.12.1+cu129", "12.9")


@pytest.mark.parametrize(
    ("version", "cuda"), [("2.6.0+cu124", "12.4"), ("2.14.1+cu130", "13.0"), ("2.11.0+cpu", None)]
)
def test_without_that_file_the_version_tells(
    monkeypatch: pytest.MonkeyPatch, version: str, cuda: str | None
) -> None:
    _only(monkeypatch, {"torch": version})
    monkeypatch.setattr(stack_module, "_file_of", lambda package, path: "")
    found = installed()
    assert found["torch cuda"] == cuda
    assert lacks_cuda("torch", found) == (cuda is None)


def test_the_cuda_of_other_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, {"cupy-cuda13x": "14.0", "tensorflow": "2.21.0", "jax": "0.8.0"})
    text = "build_info = collections.OrderedDict([('cuda_version', '12.5.1')])"
    monkeypatch.setattr(stack_module, "_file_of", lambda package, path: text)
    found = installed()
    assert (found["cupy"], found["cupy cuda"]) == ("14.0", "13")
    assert found["tensorflow cuda"] == "12.5"
    assert lacks_cuda("jax", found) and not lacks_cuda("cupy", found)


@pytest.mark.parametrize(("built", "cuda"), [("True", "12"), ("False", None)])
def test_the_cuda_of_a_tensorflow_that_names_none_is_what_its_wheel_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, built: str, cuda: str | None
) -> None:
    info = tmp_path / "tf_nightly-2.23.0.dev1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tf-nightly\nVersion: 2.23.0.dev1\n"
        'Requires-Dist: numpy\nRequires-Dist: nvidia-cublas-cu12<13; extra == "and-cuda"\n'
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(
        stack_module, "_DISTRIBUTIONS", {"tensorflow": ("tf-nightly",), "torch": ()}
    )
    monkeypatch.setattr(stack_module, "_CUDA_WHEELS", {})
    text = f"build_info = collections.OrderedDict([('is_cuda_build', {built})])"
    monkeypatch.setattr(stack_module, "_file_of", lambda package, path: text)
    assert installed()["tensorflow cuda"] == cuda


def test_cupy_built_from_source_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, {"cupy": "14.0"})
    assert not lacks_cuda("cupy", installed())


def test_the_interpreter_of_a_framework_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", str(_program(tmp_path, '{"python": "3.9"}')))
    assert installed("tensorflow") == {"python": "3.9"}
    assert installed("torch")["python"] != "3.9"


def test_an_interpreter_that_cannot_answer_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", str(_program(tmp_path, "no JSON")))
    with pytest.raises(AllocmarkError, match="interpreter for tensorflow"):
        installed("tensorflow")


@needs_torch
def test_the_emulated_driver_is_one_stack() -> None:
    made = emulated_on(
        1,
        "import json, sys\n"
        "from allocmark.machine.stack import read_stack\n"
        "made = read_stack('torch')\n"
        "more = {'name': made.name, 'imported': 'torch' in sys.modules}\n"
        "print(json.dumps({**made.to_json(), **more}))",
        ALLOCMARK_MACHINE="",
    )
    assert made["machine"].startswith("emulated-nvidia-")
    assert made["emulated"] is True and made["total_bytes"] == 24 << 30
    version = importlib.metadata.version("torch").partition("+")[0]
    assert made["name"].startswith(f"torch{version}-cuda")
    assert made["imported"] is False


@needs_emulator
@pytest.mark.parametrize("visible", ["2", "2,0"])
def test_the_visible_device_is_the_one_that_cuda_uses(visible: str) -> None:
    """A context on CUDA's device 0 must be seen by the meters of device 0 and by no other."""
    told = emulated_on(
        3,
        "import json\n"
        "from allocmark.cuda import runtime\n"
        "from allocmark.machine.nvml import library, open_device\n"
        "nvml, before = open_device(0)\n"
        "runtime.set_device(0)\n"
        "_, after = open_device(0)\n"
        "cards = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(3)]\n"
        "print(json.dumps([nvml.nvmlDeviceGetIndex(before), nvml.nvmlDeviceGetIndex(after),\n"
        # To initialise the driver takes a little of every visible card, a context much of one.
        "    [nvml.nvmlDeviceGetMemoryInfo(card).used > 100 << 20 for card in cards]]))",
        CUDA_VISIBLE_DEVICES=visible,
    )
    assert told == [2, 2, [False, False, True]]


def _only(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    monkeypatch.setattr(stack_module, "_version", versions.get)


def _program(folder: Path, answer: str) -> Path:
    program = folder / "python"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program
