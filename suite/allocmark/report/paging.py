"""Which stacks have a page of their own: of many only some, because a page takes seconds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from allocmark.store.panel import Panel
from allocmark.system.message import Message, Text

PAGES = 6
"""So many stacks have a page: the time for a report must not grow with every driver update."""


def with_page(panels: Sequence[Panel]) -> tuple[int, ...]:
    """Return the positions, in order, of the panels that get a page; the newest comes first.

    That is the first one, the newest of each GPU model, then of each set of frameworks, and the
    newest of the rest, at most `PAGES` in all.
    """
    chosen = dict.fromkeys([*range(len(panels))][:1])
    for kind in (_gpu, _frameworks):
        covered = {kind(panels[position]) for position in chosen}
        for position, panel in enumerate(panels):
            if kind(panel) not in covered and len(chosen) < PAGES:
                covered.add(kind(panel))
                chosen[position] = None
    for position in range(len(panels)):
        if len(chosen) < PAGES:
            chosen.setdefault(position)
    return tuple(sorted(chosen))


def without_page(count: int) -> Text:
    """Return the sentence on how many stacks have no page, and how to get one; none for 0."""
    if not count:
        return ""
    who = Message("1 older stack has no page of its own")
    if count > 1:
        who = Message("{count} older stacks have no page of their own", count=str(count))
    return Message(
        "{who}: for the page of one, copy its folders MACHINE/STACK into an empty folder "
        "and run allocmark report --results FOLDER",
        who=who,
    )


def _gpu(panel: Panel) -> Hashable:
    named = panel.store.sources[panel.shown[0]].document.stack.get("gpu")
    return (panel.emulated, str(named or panel.machine))


def _frameworks(panel: Panel) -> Hashable:
    stacks = (panel.store.sources[index].document.stack for index in panel.shown)
    return frozenset(str(stack.get("framework")) for stack in stacks)
