"""Whether git has the commits that results are kept under: asv draws a graph of no other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path


def lacking(results: Path) -> str | None:
    """Return in a sentence why ``asv publish`` draws fewer graphs than there are results.

    None where git, in the current folder, has the commits of all results.
    """
    commits = set(_commits(results))
    unknown = {commit for commit in commits if not _is_known(commit)}
    if not unknown:
        return None
    shallow = _git("rev-parse", "--is-shallow-repository") == "true"
    why = "this clone is shallow: git fetch --unshallow brings them" if shallow else "fetch them"
    return (
        f"asv draws no graph of {len(unknown)} of {len(commits)} commits with results, which git "
        f"does not have here: {why}, or let `allocmark history` draw over stacks instead"
    )


def _commits(results: Path) -> Iterator[str]:
    for path in results.glob("*/*.json"):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # asv says so itself.
            continue
        if isinstance(found, dict) and isinstance(found.get("commit_hash"), str):
            yield found["commit_hash"]


def _is_known(commit: str) -> bool:
    return _git("cat-file", "-t", f"{commit}^{{commit}}") == "commit"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()
