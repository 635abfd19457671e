"""From the store to tables and pictures for people."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from allocmark.system.errors import AllocmarkError

if TYPE_CHECKING:
    from allocmark.report.build import FORMATS, render_markdown, write_pages, write_report

__all__ = ["FORMATS", "render_markdown", "write_pages", "write_report"]


_EXTRA = ("jinja2", "markupsafe", "matplotlib", "seaborn")


def check_extra() -> None:
    """Raise `AllocmarkError` where the packages are missing that only reports need."""
    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        raise AllocmarkError(
            f"a report needs {', '.join(missing)}: install allocmark with its extra, "
            "allocmark[report]"
        )


def __getattr__(name: str) -> Any:
    """Return one of these names; pandas and the templates are loaded by who writes a report."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_extra()
    from allocmark.report import build

    return getattr(build, name)
