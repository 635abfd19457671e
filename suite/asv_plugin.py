"""Lets asv find the suite in a clone, installed or not: this folder goes on the path.

asv loads this file; the plugin itself is `allocmark.asv.plugin`.
"""

import os
import sys
from pathlib import Path

_SOURCE = str(Path(__file__).resolve().parent)
# Second, because asv takes the first entry away again. The variable is for asv's children.
sys.path.insert(1, _SOURCE)
_inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
if _SOURCE not in _inherited:
    os.environ["PYTHONPATH"] = os.pathsep.join([_SOURCE, *_inherited])

try:
    from allocmark.asv.plugin import setup
except ModuleNotFoundError as error:
    raise SystemExit(
        f"allocmark needs {error.name}, which is not installed here: "
        f"{sys.executable} -m pip install -e ."
    ) from error

__all__ = ["setup"]
