"""A Slurm of one's own on this machine: a munged, a slurmctld and a slurmd for each of some virtual nodes, under one
folder and on the loopback device. Nothing of the machine's own Slurm, if it has one, is used or changed."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
CONFIGURATION = """\
ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
{loopback}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MailProg=/bin/true
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=2,sched_interval=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=10
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=10
WaitTime=0
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
GresTypes=gpu
"""


def missing():
    """Why there can be no private Slurm here; '': there can."""
    if os.geteuid() != 0:
        return "only root may start slurmd"
    absent = [each for each in DAEMONS if not shutil.which(each, path=f"{os.environ['PATH']}:/usr/sbin")]
    return f"not installed: {' '.join(absent)} (./bootstrap cluster installs them)" if absent else ""


def free_ports(count):
    doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [door.getsockname()[1] for door in doors]
    for door in doors:
        door.close()
    return ports


def children(process):
    found = []
    try:
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/children", encoding="ascii") as file:
                for child in file.read().split():
                    found += [int(child), *children(int(child))]
    except FileNotFoundError:
        pass
    return found


class PrivateSlurm:
    """With nodes node1, node2 ...; partition `high` takes nodes from jobs in `main`, the default."""

    def __init__(self, folder, nodes, gpus):
        self.folder, self.nodes = str(folder), [f"node{i + 1}" for i in range(nodes)]
        host = socket.gethostname().split(".")[0]
        port, *ports = free_ports(1 + nodes)
        at_home = socket.gethostbyname(host).startswith("127.")
        text = CONFIGURATION.format(folder=folder, host=host, port=port, loopback="CommunicationParameters="
                                    "NoCtldInAddrAny,NoInAddrAny" if at_home else "")
        gres = ""
        os.makedirs(f"{folder}/state")
        for node, port in zip(self.nodes, ports):
            os.makedirs(f"{folder}/spool.{node}")
            for gpu in range(gpus):  # slurmd wants character devices: these are like /dev/null
                os.mknod(f"{folder}/{node}-gpu{gpu}", 0o20666, os.makedev(1, 3))
            gres += f"NodeName={node} Name=gpu File={folder}/{node}-gpu[0-{gpus - 1}]\n"
            text += (f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000 "
                     f"Gres=gpu:{gpus} State=UNKNOWN\n")
        for name, tier in (("main Default=YES", 10), ("high PreemptMode=OFF", 100)):
            text += f"PartitionName={name} Nodes=ALL MaxTime=INFINITE State=UP PriorityTier={tier} GraceTime=5\n"
        for name, content in (("slurm.conf", text), ("gres.conf", gres), ("cgroup.conf", "CgroupPlugin=cgroup/v1\n"),
                              ("munge.key", "private to this test " * 10)):
            with open(f"{folder}/{name}", "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as file:
                file.write(content)
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
                            "SLURM_CONF": f"{folder}/slurm.conf", "PATH": f"{os.environ['PATH']}:/usr/sbin"}
        self.daemons = {}

    def __enter__(self):
        munge = [f"{name}={self.folder}/munge.{end}" for name, end in
                 (("--key-file", "key"), ("--socket", "sock"), ("--pid-file", "pid"), ("--log-file", "log"),
                  ("--seed-file", "seed"))]
        try:
            self.start("munged", "-F", *munge)
            self.wait_until(lambda: os.path.exists(f"{self.folder}/munge.sock"), "munged does not answer")
            self.start("slurmctld", "-D", "-c")
            for node in self.nodes:
                self.start_node(node)
            self.wait_until(lambda: self.idle() == len(self.nodes), "not all nodes are idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if "slurmctld" in self.daemons:
            self.command("scancel", "--user=root", check=False)
            for _ in range(60):
                if not self.command("squeue", "-h", check=False):
                    break
                time.sleep(0.5)
        for name in [*self.nodes, "slurmctld", "munged"]:
            if name in self.daemons:
                daemon = self.daemons.pop(name)
                daemon.terminate()
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()

    def start(self, name, *words, key=None):
        with open(f"{self.folder}/{key or name}.out", "ab") as out:
            self.daemons[key or name] = subprocess.Popen([name, *words], env=self.environment, cwd=self.folder, stdout=out,
                                                         stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)

    def start_node(self, node):
        self.start("slurmd", "-D", "-N", node, key=node)

    def crash(self, node):
        """As a power cut would: the daemon, the steps it has started, and all their processes."""
        everything = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and "/slurmstepd" in os.readlink(f"/proc/{entry}/exe") and any(
                        os.path.realpath(f"/proc/{entry}/fd/{each}") == f"{self.folder}/slurmd.{node}.log"
                        for each in os.listdir(f"/proc/{entry}/fd")):
                    everything += [int(entry), *children(entry)]
            except OSError:
                pass
        daemon = self.daemons.pop(node)
        for process in [daemon.pid, *everything]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        daemon.wait()

    def command(self, *words, check=True, **options):
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False, **options)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def idle(self):
        return len(set(self.command("sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N", check=False).split()))

    def facts(self, job):
        """What scontrol says of a job, by name."""
        return dict(re.findall(r"(\w+)=(\S*)", self.command("scontrol", "show", "job", "-o", str(job))))

    def wait_until(self, happened, otherwise):
        deadline = time.monotonic() + 300
        while not happened():
            if time.monotonic() > deadline:
                raise RuntimeError(otherwise)
            for name, daemon in self.daemons.items():
                if daemon.poll() is not None:
                    raise RuntimeError(f"{name} ended with {daemon.returncode}: see {self.folder}")
            time.sleep(0.2)

    def wait_for(self, job):
        """The facts of a job that has ended for good."""
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")
        self.wait_until(lambda: self.facts(job)["JobState"] in ended, f"job {job} does not end")
        return self.facts(job)
