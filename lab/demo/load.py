"""A load that this machine carries with room to spare: by its cores, and by how busy they are."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

#: CPU time of everything together, for a record by Kafka and its tenth of one by REST: generators, consumers,
#: broker, the sandbox, its four restarts and the playbook. 260 s for 3.8 million such records (68 µs), on two
#: cores that had nothing idle, 2026-11-27; 357 s for 10.3 million (35 µs), 2026-11-22. Restarts and playbook
#: cost the same for fewer records, so a demo of 2 million takes more than this a record: _SHARE leaves room.
#: Vendors' proxies have their own (archive.py).
COST_US: Final = 70
#: The share of the idle cores that a load takes. The rest is for what comes by the side: JVMs that compile,
#: Ansible, whatever else the machine has to do.
_SHARE: Final = 0.5
#: Loads beside which the figures still tell of Kafka: below the least, seconds without a request by REST are
#: nothing unusual; above the most, the one generator by Kafka has no core left.
LEAST, MOST = 5_000, 150_000
#: What inventories/local sends, which no machine needs more of to show what the demo shows.
_ENOUGH: Final = 52_000
_STEP: Final = 1_000
#: For each record by Kafka.
REST_SHARE: Final = 0.1
_LOOKED_S: Final = 1.0


def cores() -> float:
    """Return the cores that this process may use: of the machine, by its affinity, by its control group."""
    count = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return min(count, int(quota) / int(period))
    except (OSError, ValueError):  # no such group, or no quota
        return count


def busy_cores(
    seconds: float = _LOOKED_S,
    stat: Path = Path("/proc/stat"),
    wait: Callable[[float], None] = time.sleep,
) -> float:
    """Return how many cores were busy in the next seconds, by all that runs on the machine."""
    before = _ticks(stat)
    wait(seconds)
    after = _ticks(stat)
    idle, whole = after[0] - before[0], after[1] - before[1]
    return (os.cpu_count() or 1) * (1 - idle / whole) if whole > 0 else 0.0


def suited(cores: float, busy: float, cost_us: int = COST_US) -> int:
    """Return the Kafka records/s that half of the idle cores carry, in whole thousands."""
    carried = _SHARE * max(cores - busy, 0) * 1e6 / cost_us
    return max(LEAST, min(_ENOUGH, int(carried) // _STEP * _STEP))


def why(load: int, cores: float, busy: float, cost_us: int = COST_US) -> str:
    """Say in one line which load was chosen, and why."""
    rest = f"{load * REST_SHARE:,.0f}"
    room = f"{busy:.1f} of {cores:g} cores are busy"
    if load == _ENOUGH:
        reason = f"{room}, and it takes {load * cost_us / 1e6:.1f}; more is not needed"
    elif load == LEAST:
        reason = f"{room}, so this is the least that still tells something; the figures will be the machine's"
    else:
        reason = f"{room}, and it takes half of the rest at {cost_us} µs a record"
    return f"load: {load:,} Kafka and {rest} REST records/s: {reason} (LOAD=... overrides)"


def _ticks(stat: Path) -> tuple[int, int]:
    """Return the idle ticks of all cores, waiting for disks among them, and all ticks."""
    # cpu user nice system idle iowait irq softirq steal guest guest_nice; guests are in user already.
    fields = [int(word) for word in stat.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)
