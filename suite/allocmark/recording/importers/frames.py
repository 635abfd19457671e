"""The frames of a stack that say where a block was allocated, and whose they are.

torch records Python's frames, and by default (``stacks="all"``) C++'s as well: its own way from
the operator to the allocator is then the first dozen of each stack. A thread of autograd runs no
Python: there the backward node's name says which operator's gradient a block is of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from allocmark.recording.importers.restricted_pickle import shown

MOST = 12
"""Frames kept of a stack, innermost first."""
_MOST_OWN = 4
"""So many of the program's own are among them, however deep they lie below torch's."""
_PACKAGE = "-packages/torch/"
_HOOK = "allocmark/hook/inside/"
"""What stands for torch's group in a rank that was run alone."""
_NODE = re.compile(
    r"torch::autograd::(?:generated::|CppNode<)?([\w:]+?)>?(?:_apply_functional|::apply)\w*\("
)
_ENGINE = "torch::autograd::Engine::"
_OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)\(")
_PLUMBING = re.compile(
    r"torch::(?:unwind|CapturedTraceback|cuda::.*gather)|c10::|at::(?:detail|_ops)::"
    r"|at::\(anonymous namespace\)|torch::autograd::|std::|start_thread|clone|__libc_|_start\b"
)
"""The way into the recorder, from the operator to the allocator, and below a thread."""


def chosen(frames: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the frames of a stack that say where it is, as ``file:line name``, innermost first.

    Python's where it has any; else the backward node and the operator, by their names alone; else
    what of C++ is not torch's way to its allocator.
    """
    python = [_text(f) for f in frames if str(f["filename"]).endswith((".py", ">"))]
    if python:
        own = [place for place, text in enumerate(python) if not is_of_torch(text)][:_MOST_OWN]
        torchs = [place for place in range(len(python)) if place not in own]
        return [python[place] for place in sorted([*own, *torchs[: MOST - len(own)]])]
    names = [str(f["name"]) for f in frames]
    node = next((found[1] for name in names if (found := _NODE.search(name))), None)
    if node is None and any(_ENGINE in name for name in names):
        node = "Engine"
    if node is not None:
        operators = [found[1] for name in names if (found := _OPERATOR.match(name))]
        # The outermost is the one that the node called.
        return [*(f"torch::{shown(name)}" for name in operators[-1:]), f"autograd::{shown(node)}"]
    rest = [f for f in frames if not _PLUMBING.match(str(f["name"]))]
    return [_text(f) for f in (rest or frames)[:MOST]]


def trims(frames: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether a stack leads through the program's own call of ``empty_cache``."""
    names = (str(f["name"]).partition("(")[0].rpartition("::")[2] for f in frames)
    return any(name in ("empty_cache", "emptyCache") for name in names)


def is_of_torch(frame: str) -> bool:
    """Say whether a frame, or the path of its file, is of torch itself and not of the program."""
    return any(part in frame.replace("\\", "/") for part in (_PACKAGE, _HOOK)) or frame.startswith(
        ("torch::", "at::", "c10::")
    )


def below_packages(frame: str) -> str:
    """Return a frame with its path from the package on: ``torch/nn/modules/linear.py``."""
    return frame.replace("\\", "/").rpartition("-packages/")[2]


def brief(stack: Sequence[str]) -> list[str]:
    """Return where torch was, briefly, and the program's own lines; all where it has none."""
    own = [frame for frame in stack if not is_of_torch(frame)]
    inside = [below_packages(frame) for frame in stack[:1] if is_of_torch(frame)]
    return [*filter(None, inside), *own] if own else list(stack)


def _text(frame: Mapping[str, Any]) -> str:
    name = shown(str(frame["name"]).replace("(anonymous namespace)::", "").partition("(")[0])
    line, where = int(frame["line"]), shown(frame["filename"])
    return f"{where}:{line} {name}" if line or where not in ("", "??") else name
