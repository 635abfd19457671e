"""A program's own files in two recordings: a checkout lies anywhere, its files stay in place."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from allocmark.recording.importers.frames import brief, is_of_torch

_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d+) (?P<name>.*)")


def parts(frame: str) -> tuple[str, int, str]:
    """Return file, line and function of a frame; one without a file is all function."""
    match = _FRAME.fullmatch(frame)
    if match is None:
        return "", 0, frame
    return match["file"].replace("\\", "/"), int(match["line"]), match["name"]


def below_packages(path: str) -> str:
    """Return a path, or a frame, from its package on; nothing where it is of none."""
    _, separator, inside = path.replace("\\", "/").rpartition("-packages/")
    return inside if separator else ""


def of(stacks: Iterable[Sequence[str]]) -> list[str]:
    """Return the files of a program that lie in no package, those of most frames first."""
    files = Counter(parts(frame)[0] for stack in stacks for frame in stack)
    own = [file for file, _ in files.most_common() if file and not below_packages(file)]
    return [file for file in own if not is_of_torch(file)]


def matched(before: Sequence[str], after: Sequence[str]) -> dict[str, str]:
    """Return the file of `after` that each of `before` is: the one whose path ends most alike."""
    pairs = [(ending, a, b) for a in before for b in after if (ending := _common_ending(a, b))]
    found: dict[str, str] = {}
    for _, a, b in sorted(pairs, key=lambda pair: -pair[0]):
        if a not in found and b not in found.values():
            found[a] = b
    return found


def shown(stack: Sequence[str], files: Sequence[str]) -> str:
    """Return where a stack is: the program's innermost line, and where in torch that led.

    `files` are the program's own: what they have in common of their paths is left out.
    """
    if not stack:
        return "without a line of Python"
    own = next((frame for frame in stack if not is_of_torch(frame)), stack[0])
    text = relative(own, files)
    inside = below_packages(stack[0])
    return f"{text} ({inside})" if inside and stack[0] != own else text


def short(stack: Sequence[str], files: Sequence[str]) -> list[str]:
    """Return a stack without torch's way in between, its paths as in `shown`."""
    return [relative(frame, files) for frame in brief(stack)]


def relative(frame: str, files: Sequence[str]) -> str:
    """Return a frame with its path from the package, or from the program's folder, on."""
    if inside := below_packages(frame):
        return inside
    file, line, name = parts(frame)
    if file not in files:
        return frame
    folder = os.path.commonpath([os.path.dirname(one) or "." for one in files])  # noqa: PTH120
    return f"{file.removeprefix(folder).lstrip('/')}:{line} {name}"


def _common_ending(a: str, b: str) -> int:
    """Return how many parts two paths have in common from their ends."""
    pairs = zip(reversed(a.split("/")), reversed(b.split("/")), strict=False)
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count
