"""One exception for everything that stops the start: a sentence with its remedy."""

from __future__ import annotations


class StartError(Exception):
    """The start cannot go on; the message is one sentence for people, with what to do."""
