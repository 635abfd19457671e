"""A snapshot file opened in a process of its own, and its columns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocmark.recording.importers import reading_process
from allocmark.system.errors import AllocmarkError

_LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot's plain values and columns, as `snapshot_columns.convert` describes them."""

    header: Mapping[str, Any]
    columns: Mapping[str, NDArray[np.int64]]

    def column(self, device: int, table: str, name: str) -> NDArray[np.int64]:
        """Return one column, empty where the file has none."""
        return self.columns.get(f"{device}.{table}.{name}", np.zeros(0, np.int64))


def read(path: Path) -> SnapshotFile:
    """Return what a snapshot holds.

    Raises `AllocmarkError` with one sentence for a file that is damaged, foreign or hostile.
    """
    with tempfile.TemporaryDirectory(prefix="allocmark-") as folder:
        out = Path(folder, "columns.npz")
        command = [sys.executable, "-m", reading_process.__name__, str(path), str(out)]
        # More threads of a numeric library would only take address space.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            ended = subprocess.run(
                command, capture_output=True, timeout=_LIMIT_S, check=False, env=environment
            )
        except subprocess.TimeoutExpired:
            raise AllocmarkError(
                f"{path.name} took longer than {_LIMIT_S} s to read: record fewer events "
                "(allocmark record --max-entries)"
            ) from None
        if ended.returncode != 0:
            raise AllocmarkError(_sentence(path.name, ended))
        with np.load(out, allow_pickle=False) as stored:
            columns = {name: stored[name] for name in stored.files if name != "header"}
            header = json.loads(stored["header"].tobytes())
    return SnapshotFile(header, columns)


def _sentence(name: str, ended: subprocess.CompletedProcess[bytes]) -> str:
    words = ended.stderr.decode(errors="replace").strip().splitlines()
    last = words[-1] if words else "no reason was given"
    match ended.returncode:
        case reading_process.REFUSED:
            return (
                f"{name} is refused: it asks for {last}, and a memory snapshot holds plain data "
                "only; do not open it with anything that unpickles"
            )
        case reading_process.FOREIGN:
            return (
                f"{name} is not a memory snapshot of torch ({last}): "
                "make one with allocmark record, or torch.cuda.memory._dump_snapshot"
            )
        case reading_process.TOO_MUCH:
            what = "more memory than a snapshot of its size can need"
            return f"{name} is refused: it asks for {what}"
        case reading_process.DAMAGED:
            return f"{name} is damaged or no recording ({last}): record or copy it again"
        case code if code < 0 and -code == signal.SIGXCPU:
            return f"{name} is refused: it takes more time than a snapshot of its size can need"
        case code if code < 0:
            return (
                f"{name} is refused: it is built so deep or so large that it ended the process "
                f"that read it (signal {-code})"
            )
        case code:
            return f"{name} could not be read (the reader ended with {code}: {last})"
