"""The two sides of a comparison: which documents each holds, by stack and run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from allocmark.schema import documents, run_state
from allocmark.schema.documents import Document
from allocmark.schema.notes import NOT_REACHED
from allocmark.store.reading import read_all, whole
from allocmark.system.errors import AllocmarkError, NoResultsError

_MOST_NAMED = 20
"""So many stacks are named to somebody who named another."""


@dataclass(frozen=True, slots=True)
class Source:
    """One document and where it lies; `stack` is the folder's name."""

    path: Path
    stack: str
    document: Document

    @property
    def machine(self) -> str:
        """The machine's name."""
        return str(self.document.stack.get("machine", "unknown"))

    @property
    def series_id(self) -> tuple[str, str, str]:
        """What stays the same when a stack is updated: machine, profile and framework."""
        return (self.machine, self.document.profile, str(self.document.stack.get("framework")))

    @property
    def not_reached(self) -> bool:
        """Whether the run was stopped before this was measured."""
        return any(failure.stage == NOT_REACHED for failure in self.document.failures)


@dataclass(frozen=True)
class RunSet:
    """One side. `left_out` names files that are not used, `unreadable` those of them that cannot be
    read; `unfinished` runs without an end.
    """

    label: str
    sources: tuple[Source, ...]
    left_out: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def restricted(self, lines: Iterable[tuple[tuple[str, str, str], str]]) -> RunSet:
        """Return the side with only these stacks, each as (line, stack)."""
        kept = set(lines)
        sources = tuple(s for s in self.sources if (s.series_id, s.stack) in kept)
        return replace(self, sources=sources)


def read_run_set(name: str, results: Path) -> RunSet:
    """Return the side that `name` stands for.

    A result file; a folder with documents anywhere below it (a results folder, one stack of it, or
    a folder with several results folders: each of its runs counts); or the name of a stack in
    `results`, as ``stack`` or ``machine/stack``. Raises `AllocmarkError` where there is nothing.
    """
    return read_paths(name, _files(name, results))


def read_both(a: str, b: str, results: Path) -> tuple[RunSet, RunSet]:
    """Return the sides that two names stand for, as `read_run_set` does, read in one go."""
    paths_a, paths_b = _files(a, results), _files(b, results)
    every = _read([*paths_a, *paths_b])
    return _side(a, paths_a, islice(every, len(paths_a))), _side(b, paths_b, every)


def read_paths(label: str, paths: Sequence[Path]) -> RunSet:
    """Return the side of these result files. Raises `AllocmarkError` where none is usable."""
    return _side(label, paths, _read(paths))


def _read(paths: Sequence[Path]) -> Iterator[Document | str]:
    return read_all(paths, whole, skimmed=True)


def _side(label: str, paths: Sequence[Path], every: Iterable[Document | str]) -> RunSet:
    sources, left_out, unreadable = [], [], []
    seen: dict[tuple[str, ...], Path] = {}
    for path, read in zip(paths, every, strict=True):
        if isinstance(read, str):
            left_out.append(read)
            unreadable.append(read)
            continue
        source = Source(path, path.parent.parent.name, read)
        cell = source.stack, read.run, read.probe, read.subject, read.started
        identity = (*source.series_id, *cell)
        if (first := seen.setdefault(identity, path)) != path:
            left_out.append(f"{path} says the same as {first} does: the first is used")
            continue
        sources.append(source)
    if not sources:
        reason = f" ({left_out[0]})" if left_out else ""
        raise AllocmarkError(f"{label} holds no results{reason}: name a stack, a file or a folder")
    unfinished = tuple(_unfinished(paths))
    return RunSet(label, tuple(sources), tuple(left_out), unfinished, tuple(unreadable))


def _files(name: str, results: Path) -> list[Path]:
    if not name:  # Path("") is the current folder.
        raise AllocmarkError("an empty name stands for nothing: name a stack, a file or a folder")
    path = Path(name)
    if path.is_file():
        return [path]
    if path.is_dir():
        if below := sorted(path.rglob(f"*{documents.SUFFIX}")):
            return below
        raise NoResultsError(path)
    stacks = sorted(results.glob("*/*/"))
    if not stacks:
        raise NoResultsError(results, f"{name} is no file and no folder")
    found = [folder for folder in stacks if name in _names(folder)]
    if not found:
        choice = ", ".join(sorted(_names(folder)[1] for folder in stacks)[:_MOST_NAMED])
        raise AllocmarkError(
            f"{name} is no file, no folder and no stack of the results; {results} holds {choice}"
        )
    return sorted(path for folder in found for path in folder.rglob(f"*{documents.SUFFIX}"))


def _names(folder: Path) -> tuple[str, str]:
    return folder.name, f"{folder.parent.name}/{folder.name}"


def _unfinished(paths: Sequence[Path]) -> Iterator[str]:
    for folder in sorted({path.parent for path in paths}):
        state = run_state.read(folder)
        if state.finished is None if state else (folder / run_state.FILE_NAME).is_file():
            yield str(folder)


@dataclass(frozen=True, slots=True)
class RunSetPair:
    """Two sides cut to what is compared.

    `study`: their machines differ. `by_stack`: each stack is compared with the one of its name;
    otherwise all stacks of a side are runs of the same.
    """

    a: RunSet
    b: RunSet
    study: bool = False
    by_stack: bool = False


def paired(a: RunSet, b: RunSet) -> RunSetPair:
    """Return the sides cut to the stacks to compare.

    Stacks of the same name are compared with each other. On a machine where no name is on both
    sides, the newest stack of each line (machine, profile, framework) is. Where no line is on both
    sides and each has one machine, these are compared whatever their GPUs are.
    """
    lines_a, lines_b = _lines(a), _lines(b)
    both = lines_a.keys() & lines_b.keys()
    if both:
        chosen_a, chosen_b = [], []
        several = False
        for line in sorted(both):
            common = lines_a[line].keys() & lines_b[line].keys()
            several |= len(common) > 1
            chosen_a += [(line, s) for s in common or [_newest(lines_a[line])]]
            chosen_b += [(line, s) for s in common or [_newest(lines_b[line])]]
        return RunSetPair(a.restricted(chosen_a), b.restricted(chosen_b), by_stack=several)
    machines = [{line[0] for line in lines} for lines in (lines_a, lines_b)]
    if machines[0] == machines[1] or any(len(found) != 1 for found in machines):
        return RunSetPair(a, b)
    newest = [[(line, _newest(s)) for line, s in lines.items()] for lines in (lines_a, lines_b)]
    return RunSetPair(a.restricted(newest[0]), b.restricted(newest[1]), study=True)


def _lines(side: RunSet) -> dict[tuple[str, str, str], dict[str, str]]:
    """Return for each line its stacks, and when each was measured last."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for source in side.sources:
        stacks = found.setdefault(source.series_id, {})
        stacks[source.stack] = max(stacks.get(source.stack, ""), source.document.started)
    return found


def _newest(stacks: dict[str, str]) -> str:
    return max(stacks, key=lambda name: (stacks[name], name))
