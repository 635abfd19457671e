"""A Slurm of two nodes on this machine, for the tests: ``python slurm_cluster.py FOLDER``.

Debian's slurm-wlm and munge, with every file below the folder. It prints a line once it is up, and
ends with its input. Started on the emulated driver, its jobs are there too: they have the driver's
variables from whoever submits them (``variables.json``).
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
NODES = ("node1", "node2")
_DRIVER = ("LD_AUDIT", "ALLOCMARK_EMULATOR_CONFIG")
_CONFIG = """
ClusterName=allocmark
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
SlurmctldPort=16817
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
GresTypes=gpu
Prolog={folder}/prolog.sh
PrologFlags=Alloc
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port=17001 CPUs=8 RealMemory=65536 Gres=gpu:1
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port=17002 CPUs=8 RealMemory=65536 Gres=gpu:1
PartitionName=gpus Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Return why there can be no cluster here, None where there can."""
    if os.getuid() != 0:
        return "daemons of Slurm are started by root"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)} (apt install slurm-wlm munge)" if absent else None


def main(folder: Path) -> None:
    """Start the daemons, and wait for the end of the input."""
    (folder / "munge").mkdir(mode=0o755)
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    config = folder / "slurm.conf"
    config.write_text(_CONFIG.format(host=platform.node(), folder=folder))
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
    variables = {name: os.environ[name] for name in _DRIVER if name in os.environ}
    (folder / "variables.json").write_text(json.dumps(variables))
    # The daemons themselves use no GPU.
    own = {name: value for name, value in os.environ.items() if name not in _DRIVER}
    own["SLURM_CONF"] = str(config)
    daemons = [_munged(folder, key, own)]
    try:
        daemons.append(subprocess.Popen(["slurmctld", "-D", "-f", str(config)], env=own))
        for node in NODES:
            words = ["slurmd", "-D", "-N", node, "-f", str(config)]
            daemons.append(subprocess.Popen(words, env=own))
        _until_idle(own)
        print("up", flush=True)
        sys.stdin.read()
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(timeout=20)


def _munged(folder: Path, key: Path, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    own = folder / "munge"
    files = {"key-file": key, "socket": own / "socket", "pid-file": own / "pid"}
    files |= {"log-file": own / "log", "seed-file": own / "seed"}
    words = [f"--{name}={path}" for name, path in files.items()]
    daemon = subprocess.Popen(["munged", "--foreground", "--force", *words], env=variables)
    while not (own / "socket").exists():
        if daemon.poll() is not None:
            raise SystemExit("munged has ended")
        time.sleep(0.05)
    return daemon


def _until_idle(variables: dict[str, str]) -> None:
    end = time.monotonic() + 60
    command = ["sinfo", "--noheader", "--Node", "--format=%T"]
    states: Sequence[str] = ()
    while time.monotonic() < end:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        states = done.stdout.split()
        if states == ["idle"] * len(NODES):
            return
        time.sleep(0.2)
    raise SystemExit(f"the nodes are {states}: see the logs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
