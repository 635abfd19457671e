"""Foreign text made harmless for a terminal, before it is printed or written down."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    """Return the text on one line, with control and direction-changing characters spelled out."""
    return text if text.isprintable() else "".join(map(_visible, text))


def visible_lines(text: str) -> str:
    """Return the text with its lines as they are, each as `visible` has it."""
    return "\n".join(map(visible, text.split("\n")))


def _visible(character: str) -> str:
    if character in "\n\r\t":
        return " "
    if unicodedata.category(character)[0] == "C" or character in "\u2028\u2029":
        return f"<U+{ord(character):04X}>"
    return character
