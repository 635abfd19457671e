"""A picture of what a command printed, for the docs: SVG that fetches nothing."""

from __future__ import annotations

import io
import re

from rich.console import Console
from rich.text import Text

_FETCHED = re.compile(r"@font-face \{[^}]*\}\s*|<!--.*?-->\s*", re.DOTALL)
_FONT = re.compile(r"font-family: Fira Code")


def picture(output: str, title: str) -> str:
    """Return an SVG of a terminal that shows the output; its answer, up to the first empty line,
    is bold.
    """
    lines = output.rstrip("\n").split("\n")
    width = max(map(len, lines))
    console = Console(record=True, width=width, file=io.StringIO(), highlight=False)
    text = Text("\n".join(lines))
    text.stylize("bold", 0, text.plain.find("\n\n"))
    console.print(text, soft_wrap=True)
    svg = console.export_svg(title=title, unique_id="terminal")
    return _FONT.sub("font-family: ui-monospace, Menlo, Consolas", _FETCHED.sub("", svg))
