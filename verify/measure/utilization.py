"""How busy a machine is between two readings of its kernel's counters. Pure, but for reading this machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from kedge.evidence.border.host_output import nanoseconds
from kedge.evidence.border.untrusted import UntrustedError, count, read_as, shown
from kedge.services.topics.rates import Use

#: Prints the counters of a Linux machine; needs no rights and no tools beyond a shell's usual ones.
COMMAND: Final = (
    "echo boot $(cat /proc/sys/kernel/random/boot_id); echo at $(date +%s%N); head -1 /proc/stat; "
    "sed 's/^/disk /' /proc/diskstats; sed 's/^/net /' /proc/net/dev; "
    "for i in /sys/class/net/*; do echo speed ${i##*/} $(cat $i/speed 2>/dev/null || true); done"
)
#: Partitions of a disk and devices in memory say nothing that their disk does not say.
_NO_DISK: Final = re.compile(r"loop\d+|ram\d+|zram\d+|sr\d+|(sd|vd|xvd|hd)[a-z]+\d+|nvme\d+n\d+p\d+")


@dataclass(frozen=True)
class Counters:
    """Counters at a moment: CPU time in ticks, busy milliseconds of each disk, bytes of each interface."""

    boot: str
    at_ns: int
    cpu_busy: int
    cpu_total: int
    disk_ms: dict[str, int]
    net_bytes: dict[str, int]
    net_mbit: dict[str, int]


@dataclass(frozen=True, slots=True)
class HostLoad(Use):
    """A machine's use over some time; ``machine`` tells machines apart: containers of one have the same."""

    network_mb_per_s: float

    def as_row(self) -> dict[str, Any]:
        """Return what run.json says of it."""
        return asdict(self)


def parse(lines: Iterable[str]) -> Counters:
    """Read what :data:`COMMAND` printed; raises UntrustedError when it is something else."""
    boot, at_ns, cpu = "", 0, [0]
    disk: dict[str, int] = {}
    net: dict[str, int] = {}
    speed: dict[str, int] = {}
    with read_as("counters of a Linux kernel"):
        for line in lines:
            kind, *words = line.split() or [""]
            if kind == "boot":
                boot = shown(words[0])
            elif kind == "at":
                at_ns = nanoseconds(words)
            elif kind == "cpu":
                cpu = [count(word) for word in words[:8]]
            elif kind == "disk" and len(words) > 12 and not _NO_DISK.fullmatch(words[2]):
                disk[words[2]] = count(words[12])
            elif kind == "net" and ":" in line:
                name, _, numbers = line.removeprefix("net ").partition(":")
                if name.strip() != "lo":
                    net[name.strip()] = count(numbers.split()[0]) + count(numbers.split()[8])
            elif kind == "speed" and len(words) == 2 and words[1].isdigit():
                speed[words[0]] = count(words[1])
    if not boot or not at_ns or len(cpu) < 5:
        raise UntrustedError("no counters of a Linux kernel")
    return Counters(boot, at_ns, sum(cpu) - cpu[3] - cpu[4], sum(cpu), disk, net, speed)


def load(host: str, role: str, before: Counters, after: Counters) -> HostLoad:
    """Return how busy a machine was between two readings."""
    seconds = max((after.at_ns - before.at_ns) / 1e9, 1e-6)
    ticks = max(after.cpu_total - before.cpu_total, 1)
    disk = max((ms - before.disk_ms.get(name, ms) for name, ms in after.disk_ms.items()), default=0)
    rates = {
        name: (count - before.net_bytes.get(name, count)) / seconds for name, count in after.net_bytes.items()
    }
    shares = [
        rate * 8 / 1e6 / after.net_mbit[name] for name, rate in rates.items() if after.net_mbit.get(name)
    ]
    return HostLoad(
        host,
        role,
        after.boot,
        round(min((after.cpu_busy - before.cpu_busy) / ticks, 1.0), 3),
        round(min(disk / 1000 / seconds, 1.0), 3),
        round(max(shares), 3) if shares else None,
        round(max(rates.values(), default=0.0) / 1e6, 2),
    )


def this_machine() -> Counters:
    """Read the counters of the machine that this runs on."""
    done = subprocess.run(["sh", "-c", COMMAND], capture_output=True, text=True, check=True)
    return parse(done.stdout.splitlines())
