"""``allocmark dev verdicts-of-versions``: the same statements under several versions of torch.

Each version is an interpreter of its own. It runs a quick profile on the emulated driver, on which
bytes and counts are the allocator's own, and every statement of PyTorch that rests on those is
judged by its rule. One small document keeps what each version says: `allocmark.schema.versions`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from allocmark import __version__
from allocmark.claims import catalog
from allocmark.claims.core.claim import Ruling
from allocmark.schema import versions
from allocmark.schema.metrics import fragmentation, placement, pressure, request_path, streams
from allocmark.schema.run_state import now
from allocmark.schema.versions import Said, Versions
from allocmark.store.frame import load
from allocmark.store.panel import Panel, panels
from allocmark.system.errors import AllocmarkError
from allocmark.system.interpreters import variable

EXPERIMENTS = tuple(
    module.EXPERIMENT for module in (fragmentation, pressure, request_path, placement, streams)
)
_GPU = "h200"
_LIMIT_S = 1800.0
Say = Callable[[str], None]


def measure(pythons: Sequence[Path], out: Path, say: Say) -> None:
    """Run each interpreter's torch and write what the statements say under all of them.

    Raises `AllocmarkError` where one cannot be run, or two have the same torch.
    """
    found: dict[str, dict[str, Said]] = {}
    for python in pythons:
        with tempfile.TemporaryDirectory(prefix="allocmark-") as folder:
            panel = _panel(python, Path(folder))
            version = _version(panel)
            if version in found:
                raise AllocmarkError(f"{python} has torch {version} as another one: name one only")
            found[version] = _said(panel)
        say(f"torch {version}: {len(found[version])} statements judged")
    versions.write(out, Versions(__version__, now(), _GPU, "quick", found))


def _panel(python: Path, results: Path) -> Panel:
    chosen = [word for name in EXPERIMENTS for word in ("--experiment", name)]
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "allocmark", "emulate", "--gpu", _GPU, "--"),
            *(sys.executable, "-m", "allocmark", "run", "--quick", "--results", str(results)),
            *chosen,
        ],
        env={**os.environ, variable("torch"): str(python)},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    made = panels(load(results)) if results.is_dir() else []
    if not made:
        why = (ended.stderr.strip().splitlines() or ["it wrote no document"])[-1]
        raise AllocmarkError(f"nothing was measured with {python}: {why}")
    return made[0]


def _version(panel: Panel) -> str:
    for _, source in panel.sources(pressure.EXPERIMENT):
        if source.document.stack.get("framework") == "torch":
            return str(source.document.stack["framework_version"])
    raise AllocmarkError("its documents name no version of torch")


def _said(panel: Panel) -> dict[str, Said]:
    """Return what is said of each statement that could be judged."""
    return {
        one.claim.id: Said(one.verdict.ruling.value, str(one.verdict.filled(one.verdict.condition)))
        for one in catalog.verdicts(panel)
        if one.verdict.ruling is not Ruling.NOT_MEASURED and not one.claim.composite
    }
