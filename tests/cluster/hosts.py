"""Hosts on one machine: network namespaces on a bridge, with links of a given rate that can be cut. Needs root,
ip, and tc for a rate; MPICH's mpiexec starts a rank on each."""

import os
import subprocess

LAUNCH = """#!/bin/sh
# As mpiexec calls ssh: [options] HOST COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec ip netns exec PREFIX${host##*.} sh -c "exec $*"
"""


def run(*words):
    subprocess.run([str(each) for each in words], check=True, capture_output=True)


class Hosts:
    """10.77.0.1 and so on, to be used in `with`. `rate`: as of tc, "100mbit"."""

    def __init__(self, count, folder, rate=None):
        self.count, self.rate = count, rate
        self.prefix = f"omni{os.getpid()}-"
        self.switch = self.prefix + "switch"
        self.launch = os.path.join(folder, "launch")
        with open(self.launch, "w", encoding="ascii") as file:
            file.write(LAUNCH.replace("PREFIX", self.prefix))
        os.chmod(self.launch, 0o755)

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "br0", "up")
        for number in range(1, self.count + 1):
            host, port = self.prefix + str(number), f"port{number}"
            run("ip", "netns", "add", host)
            run("ip", "-n", host, "link", "set", "lo", "up")
            run("ip", "-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self.switch)
            run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
            run("ip", "-n", host, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            run("ip", "-n", host, "link", "set", "eth0", "up")
            if self.rate:  # a larger burst would let messages of its size pass in no time
                for space, device in ((host, "eth0"), (self.switch, port)):
                    run("ip", "-n", space, "link", "set", device, "gso_max_size", "16000")
                    run("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate",
                        self.rate, "burst", "20kb", "latency", "20ms")

    def __exit__(self, *_):
        for name in (self.switch, *(self.prefix + str(number) for number in range(1, self.count + 1))):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def cut(self, rank, again=False):
        run("ip", "-n", self.switch, "link", "set", f"port{rank + 1}", "up" if again else "down")

    def mpiexec(self, name):
        """The words before a program's, and what the environment must hold."""
        hosts = ",".join(f"10.77.0.{number}" for number in range(1, self.count + 1))
        return ["ip", "netns", "exec", self.prefix + "1", name, "-launcher", "ssh", "-launcher-exec", self.launch,
                "-iface", "eth0", "-hosts", hosts, "-ppn", "1", "-n", str(self.count)]

    environment = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}
