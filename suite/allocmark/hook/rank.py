"""One rank of a job: what a launcher such as torchrun would have told its process."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.hook import entering
from allocmark.system.errors import AllocmarkError

VARIABLE = "ALLOCMARK_RANK"
OBJECTS = "ALLOCMARK_RANK_OBJECTS"
"""Names a folder where ranks that are run one after the other keep what they send each other."""
MOST_LOCAL = 8
"""Ranks on one machine unless said otherwise: the GPUs of the usual node."""
_LAUNCHERS = ("torchrun", "deepspeed", "mpirun", "mpiexec", "srun")
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch")


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank of a job of `world_size`, `local_world_size` of them on each machine."""

    world_size: int
    rank: int
    local_world_size: int

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size}"

    @property
    def local_rank(self) -> int:
        """Its number on its machine, which is its device."""
        return self.rank % self.local_world_size

    def variables(self) -> dict[str, str]:
        """Return what torchrun sets, and what has the program's groups be torch's fake one."""
        local, node = str(self.local_world_size), str(self.rank // self.local_world_size)
        return entering(
            {
                "RANK": str(self.rank),
                "WORLD_SIZE": str(self.world_size),
                "LOCAL_RANK": str(self.local_rank),
                "LOCAL_WORLD_SIZE": local,
                "GROUP_RANK": node,
                "GROUP_WORLD_SIZE": str(self.world_size // self.local_world_size),
                "ROLE_RANK": str(self.rank),
                "ROLE_WORLD_SIZE": str(self.world_size),
                "ROLE_NAME": "default",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "29500",
                "TORCHELASTIC_RUN_ID": "allocmark",
                "TORCHELASTIC_RESTART_COUNT": "0",
                "TORCHELASTIC_MAX_RESTARTS": "0",
                VARIABLE: json.dumps({"world_size": self.world_size, "rank": self.rank}),
            }
        )


def of(
    world_size: int, rank: int, local_world_size: int | None = None, devices: int | None = None
) -> Rank:
    """Return a rank that can be run.

    `devices` are the GPUs that are here, None where as many are emulated as a machine has ranks.
    Raises `AllocmarkError` for a rank that the job does not have, or that has no device.
    """
    if world_size < 1:
        raise AllocmarkError(
            f"a job of {world_size} ranks cannot be run: --world-size is 1 or more"
        )
    if not 0 <= rank < world_size:
        raise AllocmarkError(
            f"a job of {world_size} has no rank {rank}: give one from 0 to {world_size - 1}"
        )
    if local_world_size is None:
        most = min(MOST_LOCAL, devices or MOST_LOCAL)
        local_world_size = max(n for n in range(1, most + 1) if world_size % n == 0)
    if local_world_size < 1 or world_size % local_world_size:
        raise AllocmarkError(
            f"{world_size} ranks do not fill machines of {local_world_size}: give a "
            "--local-world-size that divides --world-size"
        )
    found = Rank(world_size, rank, local_world_size)
    if devices is not None and found.local_rank >= devices:
        raise AllocmarkError(
            f"{found} is number {found.local_rank} on its machine, and {devices} devices are here: "
            "give a smaller --local-world-size"
        )
    return found


def check_command(command: Sequence[str]) -> None:
    """Raise `AllocmarkError` for a command that starts the ranks itself."""
    names = [Path(word).name for word in command[:1]]
    names += [word for before, word in itertools.pairwise(command) if before == "-m"]
    if names and names[0] == "accelerate" and list(command[1:2]) == ["launch"]:
        names.append("accelerate launch")
    for name in names:
        if name in (*_LAUNCHERS, *_LAUNCHER_MODULES, "accelerate launch"):
            raise AllocmarkError(
                f"{name} starts the ranks itself: give the program alone (-- python train.py), "
                "which finds RANK and WORLD_SIZE as under it"
            )
