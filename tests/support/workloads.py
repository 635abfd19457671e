"""Names that the tests of this folder share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

Run = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs this Python with the given arguments on the emulated driver."""
