"""Who a block belongs to, from stacks as torch writes them: Python, C++, both, on any system."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from allocmark.emulator.launcher import emulate, real_driver
from allocmark.recording.importers import reader
from allocmark.recording.importers.frames import MOST, chosen, is_of_torch, trims
from allocmark.replays.breakdown_words import place

WAY_IN = [
    "torch::unwind::unwind()",
    "torch::CapturedTraceback::gather(bool, bool, bool)",
    "torch::cuda::(anonymous namespace)::gather_with_cpp()",
    "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long)",
    "at::detail::empty_cuda(c10::ArrayRef<long>)",
    "at::(anonymous namespace)::(anonymous namespace)::wrapper_CUDA_empty(c10::ArrayRef<long>)",
    "at::_ops::empty_memory_format::redispatch(c10::DispatchKeySet)",
]
ENGINE = [
    "torch::autograd::Node::operator()(std::vector<at::Tensor>&&)",
    "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)",
    "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)",
    "start_thread",
    "clone3",
]


def cpp(*names: str) -> list[dict[str, Any]]:
    return [{"filename": "??", "line": 0, "name": name} for name in names]


def python(*texts: str) -> list[dict[str, Any]]:
    frames = []
    for text in texts:
        where, _, name = text.partition(" ")
        filename, _, line = where.rpartition(":")
        frames.append({"filename": filename, "line": int(line), "name": name})
    return frames


@pytest.mark.parametrize(
    ("inside", "node"),
    [
        (
            [
                "torch::autograd::generated::MmBackward0_apply_functional(std::vector<at::Tensor>)",
                "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)",
            ],
            "MmBackward0",
        ),
        (["torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)"], "AccumulateGrad"),
        (["torch::autograd::CppNode<my::Scan>::apply(std::vector<at::Tensor>&&)"], "my::Scan"),
        ([], "Engine"),
    ],
)
def test_a_thread_of_autograd_is_named_by_its_node(inside: list[str], node: str) -> None:
    called = ["at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"]
    stack = chosen(cpp(*WAY_IN, *called, *inside, *ENGINE))
    assert stack == ["torch::mm", f"autograd::{node}"]
    assert place(stack) == f"autograd::{node} < torch::mm"


def test_python_stands_for_a_mixed_stack() -> None:
    lines = python("/venv/lib/python3.11/site-packages/torch/x.py:3 f", "/srv/app/train.py:7 step")
    mixed = [*cpp(*WAY_IN), lines[0], *cpp("_PyEval_EvalFrameDefault"), lines[1]]
    assert chosen(mixed) == chosen(lines)
    assert place(chosen(mixed)).startswith("/srv/app/train.py:7 step < ")


def test_a_program_of_cpp_is_named_without_torchs_way_to_its_allocator() -> None:
    assert chosen(cpp(*WAY_IN, "render::Scene::grow(int)", "main")) == [
        "render::Scene::grow",
        "main",
    ]
    assert chosen(cpp(*WAY_IN[:2]))  # There is nothing else: better than no name.


def test_lines_of_the_program_are_found_however_deep() -> None:
    torchs = [f"/v/site-packages/torch/nn/m.py:{line} f" for line in range(40)]
    own = [f"/srv/app/model.py:{line} g" for line in range(6)]
    stack = chosen(python(*torchs, *own))
    assert len(stack) == MOST
    assert [text for text in stack if not is_of_torch(text)] == own[:4]
    assert stack[0] == torchs[0]


@pytest.mark.parametrize(
    ("frame", "torchs"),
    [
        ("/usr/lib/python3.12/dist-packages/torch/nn/functional.py:1 f", True),
        (r"C:\venv\Lib\site-packages\torch\nn\functional.py:1 f", True),
        (r"C:\work\torch\train.py:1 f", False),
        ("/srv/app/torch/train.py:1 f", False),
        ("/venv/lib/python3.11/site-packages/torchvision/ops/x.py:1 f", False),
        ("torch::mm", True),
        ("autograd::MmBackward0", False),
    ],
)
def test_whose_a_frame_is(frame: str, torchs: bool) -> None:
    assert is_of_torch(frame) is torchs


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("empty_cache", True),
        ("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::emptyCache(int)", True),
        ("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::release_cached_blocks("
         "Block*, emptyCache)", False),
    ],
)  # fmt: skip
def test_a_program_that_empties_the_cache(name: str, by_hand: bool) -> None:
    assert trims(cpp(name)) is by_hand


PROGRAM = """
import sys, torch
torch.cuda.memory._record_memory_history()
first, second = torch.nn.Linear(512, 512).cuda(), torch.nn.Linear(512, 512).cuda()
second(torch.relu(first(torch.ones(640, 512, device="cuda")))).sum().backward()
torch.cuda.memory._dump_snapshot(sys.argv[1])
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torchs_own_stacks_name_backward_operators_and_lines(tmp_path: Path) -> None:
    program, file = tmp_path / "train.py", tmp_path / "s.pickle"
    program.write_text(PROGRAM)
    gpu = "h200" if real_driver() else None
    assert emulate([sys.executable, str(program), str(file)], gpu) == 0
    found = reader.read(file)
    stacks = {tuple(found.stack(block)) for block in range(len(found.stack_of_block))}
    assert ("torch::mm", "autograd::AddmmBackward0") in stacks
    assert ("torch::threshold_backward", "autograd::ReluBackward0") in stacks
    everything = "\n".join(text for stack in stacks for text in stack)
    assert "unwind" not in everything and "gather" not in everything
    assert f"{program}:5 <module>" in everything
