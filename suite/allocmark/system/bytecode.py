"""Compiled Python is kept where the environment forbids to write it beside its source.

Containers set ``PYTHONDONTWRITEBYTECODE``, and some installers leave packages uncompiled. Then each
of hundreds of processes compiles its framework anew, three seconds of each in the case of torch,
on cores beside the one that measures.
"""

from __future__ import annotations

from collections.abc import Mapping

from allocmark.system.compiler import cache_folder

_FORBIDDEN, _FOLDER = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"


def kept(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process, changed so that what it compiles stays in the cache.

    Nothing changes where Python may write where it likes to, or is told another place.
    """
    if not variables.get(_FORBIDDEN):
        return dict(variables)
    allowed = {name: value for name, value in variables.items() if name != _FORBIDDEN}
    return {_FOLDER: str(cache_folder() / "bytecode"), **allowed}
