"""Python objects that ranks send each other, for one that is alone.

What this rank sends itself arrives. Where several ranks are run one after the other
(``record --ranks``), what one has sent to another is kept in a folder for it: a pipeline's stages
tell each other their shapes so. Everything else stays what it was, and is noted.
"""

from __future__ import annotations

import copy
import os
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

FOLDER = "ALLOCMARK_RANK_OBJECTS"
"""The environment variable that names the folder, without a value for a rank by itself."""
_WAITS = 75
"""The exit code of a rank that stops, as the one that it waits for has not been run so far."""


class Objects:
    """The collectives of objects, in the place of torch's."""

    def __init__(self, c10d: Any, rank: int, note: Callable[[str], None]) -> None:
        self._c10d, self._rank, self._note = c10d, rank, note
        self._folder = os.environ.get(FOLDER, "")
        self._sent: Counter[str] = Counter()

    @property
    def replaced(self) -> tuple[Callable[..., Any], ...]:
        """What is put in the place of torch's, by name."""
        return (
            self.all_gather_object,
            self.gather_object,
            self.broadcast_object_list,
            self.scatter_object_list,
            self.send_object_list,
            self.recv_object_list,
        )

    def all_gather_object(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        """Give every rank this one's object."""
        self._note("all_gather_object")
        for place in range(self._c10d.get_world_size(group)):
            object_list[place] = copy.deepcopy(obj)

    def gather_object(
        self,
        obj: Any,
        object_gather_list: list[Any] | None = None,
        dst: int | None = None,
        group: Any = None,
        group_dst: int | None = None,
    ) -> None:
        """Give the rank that collects this one's object for each."""
        if object_gather_list is not None:
            self.all_gather_object(object_gather_list, obj, group)

    def broadcast_object_list(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        device: Any = None,
        group_src: int | None = None,
    ) -> None:
        """Leave what is there; it is right on the rank that sends."""
        if not self._is_source(src, group, group_src):
            self._note("broadcast_object_list")

    def scatter_object_list(
        self,
        scatter_object_output_list: list[Any],
        scatter_object_input_list: list[Any] | None = None,
        src: int | None = None,
        group: Any = None,
        group_src: int | None = None,
    ) -> None:
        """Give the rank that sends its own part."""
        if scatter_object_input_list and self._is_source(src, group, group_src):
            own = self._c10d.get_rank(group)
            scatter_object_output_list[0] = scatter_object_input_list[own]
        else:
            self._note("scatter_object_list")

    def send_object_list(
        self,
        object_list: list[Any],
        dst: int | None = None,
        group: Any = None,
        device: Any = None,
        group_dst: int | None = None,
        use_batch: bool = False,
    ) -> None:
        """Keep the objects for the rank that they are sent to, where it is to be run as well."""
        if self._folder:
            path = self._path(self._rank, self._global(dst, group, group_dst))
            with open(f"{path}.part", "wb") as stream:  # noqa: PTH123
                pickle.dump(object_list, stream)
            os.replace(f"{path}.part", path)  # noqa: PTH105

    def recv_object_list(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        device: Any = None,
        group_src: int | None = None,
        use_batch: bool = False,
    ) -> int:
        """Take what that rank has sent; without it leave what is there.

        Where it may be run first, this process ends, and says for whom it waits.
        """
        source = self._global(src, group, group_src)
        if self._folder:
            path = self._path(source, self._rank)
            if not os.path.exists(path):  # noqa: PTH110
                with open(os.path.join(self._folder, f"waits.{self._rank}"), "w") as stream:  # noqa: PTH118, PTH123
                    stream.write(f"{source} {path}")
                raise SystemExit(_WAITS)
            with open(path, "rb") as stream:  # noqa: PTH123
                object_list[:] = pickle.load(stream)  # Written by a rank of the same program.
        else:
            self._note("recv_object_list")
        return source

    def _global(self, rank: int | None, group: Any, in_group: int | None) -> int:
        if in_group is not None:
            of = group or self._c10d._get_default_group()
            return int(self._c10d.get_global_rank(of, in_group))
        return rank or 0

    def _path(self, source: int, to: int) -> str:
        """Return the file of what one rank sends another next."""
        self._sent[f"{source}.{to}"] += 1
        return os.path.join(self._folder, f"{source}.{to}.{self._sent[f'{source}.{to}']}")  # noqa: PTH118

    def _is_source(self, src: int | None, group: Any, group_src: int | None) -> bool:
        if group_src is not None:
            return bool(group_src == self._c10d.get_rank(group))
        return (src or 0) == self._rank
