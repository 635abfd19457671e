"""A run that came to its end and has nothing of what was requested is no success."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from allocmark.schema import documents
from allocmark.schema.documents import Failure
from allocmark.system.errors import EXIT_UNCLEAR, AllocmarkError, DocumentError, NotBuiltError


class NothingMeasuredError(AllocmarkError):
    """A run that came to its end without a single figure, or without one of an experiment."""

    exit_code = EXIT_UNCLEAR


def raise_if_nothing_measured(
    paths: Sequence[Path], named: Sequence[str], page: Path, *, each: bool = False
) -> None:
    """Raise `NothingMeasuredError` where a whole experiment is lost that must not be.

    Those that nobody has named may have nothing to measure here: they count where something of
    allocmark's own could not be built for them. `each`: every document was named, and counts.
    """
    of_each: dict[str, list[Path]] = {}
    for path in paths:
        of_each.setdefault(path.name.partition(".")[0], []).append(path)
    without = {name: of for name, of in of_each.items() if not any(map(_has_a_figure, of))}
    if len(without) == len(of_each):
        raise NothingMeasuredError(f"nothing could be measured: {_why(paths)} ({page})")
    lost = {name: of for name, of in without.items() if name in named or _not_built(of)}
    if each:
        bare = (path for path in paths if not _has_a_figure(path))
        lost |= {_named(path): [path] for path in bare if path.name.partition(".")[0] not in lost}
    if lost:
        why = _why([path for of in lost.values() for path in of])
        raise NothingMeasuredError(
            f"nothing of {', '.join(lost)} could be measured: {why}; the rest is saved ({page})"
        )


def _named(path: Path) -> str:
    experiment, _, subject = path.name.removesuffix(documents.SUFFIX).partition(".")
    return f"{experiment} of {subject}"


def _has_a_figure(path: Path) -> bool:
    try:
        return any(figure.value is not None for figure in documents.read(path).figures)
    except DocumentError:
        return False  # Not of this run: the report names it.


def _not_built(paths: Sequence[Path]) -> list[Failure]:
    return [failure for failure in _failures(paths) if failure.stage == NotBuiltError.stage]


def _why(paths: Sequence[Path]) -> str:
    """Return the reason that all documents have, or all that can be mended, or where they are."""
    found = {failure.reason for failure in _not_built(paths) or _failures(paths)}
    return found.pop() if len(found) == 1 else "the reasons are on the page"


def _failures(paths: Sequence[Path]) -> Iterator[Failure]:
    for path in paths:
        with contextlib.suppress(DocumentError):
            yield from documents.read(path).failures
