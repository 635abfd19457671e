"""Inside one rank of a job: its process groups become torch's fake one, which sends nothing.

The program calls what it calls under torchrun. What a group cannot bring (values of other ranks) is
noted by the line that asked for it, and said as the program ends. Standard library only.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

import allocmark_rank_objects  # type: ignore[import-not-found]
import allocmark_torch_groups  # type: ignore[import-not-found]
import allocmark_torch_import  # type: ignore[import-not-found]

VARIABLE = "ALLOCMARK_RANK"
"""A JSON object: world_size, rank."""
_EXIT_BAD_INPUT = 2
_MOST_PLACES = 5
_jobs: list[_Job] = []


def install() -> None:
    """Wait for torch to be imported, if this process is to be a rank."""
    text = os.environ.get(VARIABLE)
    if text:
        _jobs.append(_Job(**json.loads(text)))
        allocmark_torch_import.when_imported(_jobs[0].torch_imported)


def facts() -> dict[str, Any]:
    """Return what is known of this process as a rank, nothing where it is none."""
    return _jobs[0].facts() if _jobs else {}


class _Job:
    """The rank that this process is."""

    def __init__(self, world_size: int, rank: int) -> None:
        self._world_size, self._rank = world_size, rank
        self._groups: list[tuple[str, int, int, str]] = []
        self._missing: Counter[str] = Counter()
        self._torch: Any = None
        self._c10d: Any = None

    def facts(self) -> dict[str, Any]:
        """Return plain data: the rank, its groups, the values that no other rank brought.

        A group is ``backend place size ranks``, its ranks as in `_listed`.
        """
        return {
            "world_size": self._world_size,
            "rank": self._rank,
            "local_rank": int(os.environ.get("LOCAL_RANK", "0")),
            "groups": [" ".join(map(str, group)) for group in self._groups],
            "missing": dict(self._missing),
            "computed_values_read": _computed_values_read(),
        }

    def torch_imported(self, torch: Any) -> None:
        """Replace what makes a group and what carries Python objects; nothing else.

        A torch where that cannot be done is not run: it would wait for ranks that never come.
        """
        if not torch.distributed.is_available():
            return
        try:
            self._replace(torch)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            _end(f"torch {torch.__version__} cannot be run as one rank of a job ({what})")

    def _replace(self, torch: Any) -> None:
        spawn: Any = importlib.import_module("torch.multiprocessing.spawn")
        self._torch = torch
        self._c10d = c10d = torch.distributed.distributed_c10d
        self._create = c10d._new_process_group_helper
        c10d.rendezvous = self._rendezvous
        c10d._new_process_group_helper = self._new_group
        c10d._store_based_barrier = lambda *_args, **_more: None
        objects = allocmark_rank_objects.Objects(c10d, self._rank, self._note)
        for replaced in (*objects.replaced, self.split_group):
            name = replaced.__name__
            for module in (c10d, torch.distributed, torch.distributed.device_mesh):
                if hasattr(module, name):
                    setattr(module, name, replaced)
        for module in (spawn, torch.multiprocessing):
            module.start_processes = _own_workers

    def _rendezvous(self, _url: str, rank: int = -1, world_size: int = -1, **_more: Any) -> Any:
        """Give the group a store of this process's own: nobody else would come."""
        ranks = {rank, int(os.environ.get("RANK", self._rank))} - {-1, self._rank}
        sizes = {world_size, int(os.environ.get("WORLD_SIZE", self._world_size))}
        if ranks or sizes - {-1, self._world_size}:
            which = f"rank {min(ranks, default=self._rank)} of {min(sizes - {-1})}"
            _end(
                f"the program makes itself {which}, and it is run as rank {self._rank} of "
                f"{self._world_size}: leave both to RANK and WORLD_SIZE, and start no workers of "
                "its own (torchrun, mp.spawn)"
            )
        yield self._torch.distributed.HashStore(), self._rank, self._world_size

    def _new_group(
        self, size: int, rank: int, ranks: Any, backend: Any, *args: Any, **kw: Any
    ) -> Any:
        """Make a group of torch's fake backend that bears the name of the one asked for."""
        c10d = self._c10d
        config = c10d.BackendConfig(c10d.Backend(str(backend)))
        for name in ("backend_options", "pg_options"):  # The second is an older torch's.
            kw.pop(name, None)
        if size < 0:  # MPI brings its own.
            size, rank = self._world_size, self._rank
        name = allocmark_torch_groups.register(c10d, config.get_device_backend_map(), self._note)
        group, store = self._create(size, rank, ranks, name, *args, **kw)
        if isinstance(group, c10d.ProcessGroup):
            if kw.get("device_id") is not None:
                group.bound_device_id = kw["device_id"]
            c10d._world.pg_map[group] = (backend, c10d._world.pg_map[group][1])
            c10d._world.pg_backend_config[group] = str(config)
            self._made(group, str(backend), list(ranks))
        return group, store

    def split_group(
        self,
        parent_pg: Any = None,
        split_ranks: Sequence[Sequence[int]] | None = None,
        timeout: Any = None,
        pg_options: Any = None,
        group_desc: str | None = None,
    ) -> Any:
        """Make the group that this rank is in of those that a group is split into, None in none."""
        parent = parent_pg or self._c10d._get_default_group()
        ranks_of = self._c10d.get_process_group_ranks(parent)
        for split in split_ranks or ():
            ranks = sorted(ranks_of[rank] for rank in split)
            if self._rank in ranks:
                named = {"backend": self._c10d.get_backend(parent), "group_desc": group_desc}
                return self._c10d.new_group(ranks, timeout, **named)
        return None

    def _made(self, group: Any, backend: str, ranks: list[int]) -> None:
        if not self._groups:
            atexit.register(self._say)
        of = _listed(ranks or range(group.size()))  # Without ranks it is of all.
        self._groups.append((backend, group.rank(), group.size(), of))

    def _note(self, what: str) -> None:
        """Note a value that another rank would have brought, by the program's line."""
        frame = sys._getframe(1)
        while frame.f_back and (
            "-packages" + os.sep + "torch" + os.sep in frame.f_code.co_filename
            or os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__)  # noqa: PTH120
        ):
            frame = frame.f_back
        self._missing[f"{what} at {frame.f_code.co_filename}:{frame.f_lineno}"] += 1

    def _say(self) -> None:
        sizes = sorted({size for _, _, size, _ in self._groups}, reverse=True)
        asked = sorted({backend for backend, *_ in self._groups})
        text = (
            f"allocmark: rank {self._rank} of {self._world_size} ran alone: torch's fake group "
            f"stood for {', '.join(asked)} in {len(self._groups)} groups of "
            f"{', '.join(map(str, sizes))} ranks. No collective brought values, and what the "
            "backend takes of a GPU for itself is not in the figures"
        )
        for place, count in self._missing.most_common(_MOST_PLACES):
            text += f"\nallocmark: no other rank answered {place} ({count}x): what was there stayed"
            if place.startswith("recv_object_list"):
                text += " (record --ranks runs the rank that sends first)"
        print(text, file=sys.stderr, flush=True)


def _listed(ranks: Sequence[int]) -> str:
    """Return ranks as ``first:end:step`` where they are so, else with commas between."""
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    even = range(ranks[0], ranks[-1] + 1, step) if step > 0 else range(0)
    if list(ranks) == list(even):
        return f"{even.start}:{even.stop}:{step}"
    return ",".join(map(str, ranks))


def _computed_values_read() -> bool:
    """Say whether the emulated driver gave zeros for what a GPU would have computed."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        return bool(driver.allocmark_emulator_computed_copied())
    except (OSError, AttributeError):  # No driver, or a real one.
        return False


def _own_workers(*_args: Any, **_more: Any) -> NoReturn:
    _end(
        "the program starts its own workers (torch.multiprocessing.spawn), and it is run as one "
        "rank: have it call what a worker does with the rank of RANK, as under torchrun"
    )


def _end(sentence: str) -> NoReturn:
    print(f"allocmark: {sentence}", file=sys.stderr, flush=True)
    raise SystemExit(_EXIT_BAD_INPUT)
