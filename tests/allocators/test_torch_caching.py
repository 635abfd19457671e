"""What torch's allocators say where there is no GPU for them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from allocmark.allocators import torch_caching
from allocmark.allocators.torch_caching import TorchCaching
from allocmark.system.errors import NotMeasurableError
from tests.support.emulation import emulated, needs_torch

_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version from the URL: somewhere"
)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RuntimeError(_OLD), "The NVIDIA driver on your system is too old (found version 11040)"),
        (AssertionError("Torch not compiled with CUDA enabled"), "not compiled with CUDA enabled"),
        (RuntimeError("CUDA error: no device\nCompile with X. "), "(CUDA error: no device)"),
        (RuntimeError(""), "torch.cuda.is_available() is no"),
    ],
)
def test_the_reason_is_torchs_own(
    error: Exception, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init() -> None:
        raise error

    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False, init=init))
    monkeypatch.setattr(torch_caching, "import_torch", lambda: torch)
    with pytest.raises(NotMeasurableError) as told:
        TorchCaching("torch-native").open(0)
    assert why in str(told.value)
    assert "\n" not in str(told.value)
    assert "URL" not in str(told.value)


@needs_torch
@pytest.mark.parametrize("rule", ["GetDeviceCount@1=error:2", "GetDeviceCount@1+=error:100"])
def test_a_count_of_gpus_that_fails_is_a_reason_in_words(rule: str) -> None:
    code = """
from allocmark.experiments.core.recorder import in_words
try:
    registry()["torch-native"].open(0)
    print(json.dumps(""))
except Exception as error:
    print(json.dumps(in_words(error)))
"""
    told = emulated("4GiB", code, {"ALLOCMARK_EMULATOR_FAULTS": f"cuda{rule}"})
    assert told.startswith("torch finds no usable GPU (")
    assert "INTERNAL ASSERT" not in told
