"""Whose a line of a stack is."""

from __future__ import annotations


def is_of_torch(frame: str) -> bool:
    """Say whether a frame, or the path of its file, is of torch itself and not of the program."""
    return "-packages/torch/" in frame
