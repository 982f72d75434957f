"""A small cluster on this machine: a Slurm of Debian's packages in a folder, with nodes that are one slurmd each."""

import contextlib
import os
import pathlib
import pwd
import secrets
import shutil
import socket
import subprocess
import time

PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")

# The nodes share their host name and shared memory, by which ranks would take those of the other node for their own.
# So a node has one CPU and one rank.
CONFIG = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/%n.spool
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
TmpFS={folder}/%n.tmp
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=1
{nodes}
PartitionName=batch Nodes=ALL Default=YES State=UP
"""


def missing():
    """Why no Slurm can be started here, or an empty text."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    return f"{', '.join(absent)}: not installed; slurm-wlm and munge have them" if absent else ""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Slurm:
    """A Slurm with some nodes, for as long as the block of a `with` lasts. Its daemons are those of who starts it."""

    def __init__(self, folder, nodes=2):
        self.folder = pathlib.Path(folder)
        self.names = [f"node{i + 1}" for i in range(nodes)]
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": f"{folder}/slurm.conf"}
        self.daemons = []

    def __enter__(self):
        for name in ["state"] + [f"{node}.{what}" for node in self.names for what in ("spool", "tmp")]:
            (self.folder / name).mkdir()
        for node in self.names:
            (self.folder / f"{node}.tmp").chmod(0o1777)
        self.folder.chmod(0o755)
        self.write_config()
        try:
            self.start_munge()
            self.start("slurmctld", "-D")
            for node in self.names:
                self.start("slurmd", "-D", "-N", node)
            self.wait_until(lambda: self.run("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * len(self.names))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with contextlib.suppress(subprocess.CalledProcessError, TimeoutError):
            if self.run("squeue", "-h"):
                self.run("scancel", "--partition=batch")
                self.wait_until(lambda: not self.run("squeue", "-h"))
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def write_config(self):
        control, *ports = free_ports(1 + len(self.names))
        nodes = "\n".join(
            f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=1"
            for node, port in zip(self.names, ports, strict=True)
        )
        user = pwd.getpwuid(os.geteuid()).pw_name
        text = CONFIG.format(ports=[control, *ports], folder=self.folder, user=user, nodes=nodes)
        (self.folder / "slurm.conf").write_text(text)

    def start_munge(self):
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(1024))
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={self.folder}/munge.{end}" for option, end in files.items()]
        self.start("munged", "--foreground", *options)
        self.wait_until((self.folder / "munge.socket").exists)

    def start(self, *words):
        with (self.folder / f"{words[0]}.out").open("ab") as log:
            self.daemons.append(
                subprocess.Popen(
                    words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
                )
            )

    def run(self, *words):
        """What a command of Slurm prints, as the user of the daemons."""
        done = subprocess.run(
            list(map(str, words)), env=self.environment, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()

    def wait_until(self, condition, timeout=60):
        end = time.monotonic() + timeout
        while not condition():
            dead = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            if dead or time.monotonic() > end:
                raise TimeoutError(f"{dead[0]} has ended" if dead else f"not within {timeout} s")
            time.sleep(0.1)
