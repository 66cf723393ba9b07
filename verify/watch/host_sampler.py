"""Runs on a host, given to its Python as text: one line a second about it, its units and its balancer.

Each line is a JSON object: ``units`` is a list of ``[unit, at_us, rss_bytes, cpu_us, fds]``, empty while no
unit runs. ``host`` is ``[at_us, cpu_used_us, cpu_idle_us, cpu_stolen_us, memory_waited_us, io_waited_us]``
and ``links`` a list of ``[interface, received_bytes, sent_bytes, link_bytes_per_s]``, as the evidence table
pressure has them. ``servers`` is a list of ``[server, status, requests, client_errors, server_errors,
connection_errors, response_errors, queued, own_errors]`` of the HAProxy whose runtime socket is given
(``socket=PATH``), as the table balancer has them. ``metrics`` is a list of ``[unit, at_us, name, value]``,
every ten seconds, of the units that serve some to Prometheus (``metrics=UNIT=HOST:PORT``) and of the series
that are asked for (``series=BEGIN``). The program ends soon after nobody reads it any more. Times are by the
host's clock. It uses nothing but the standard library and what every systemd has.
"""

from __future__ import annotations

import contextlib
import csv
import http.client
import io
import json
import math
import os
import queue
import socket
import subprocess
import sys
import threading
import time

_US = 1_000_000


def main_pids(units: list[str]) -> dict[str, int]:
    """Return the main process of each unit that has one."""
    if not units:
        return {}
    shown = subprocess.run(
        ["systemctl", "show", "--property=Id,MainPID", "--", *units],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout
    # A blank line parts the units; which of the two properties comes first is systemd's choice.
    found = [dict(line.split("=", 1) for line in one.splitlines()) for one in shown.split("\n\n")]
    pids = {one.get("Id", "").rsplit(".service", 1)[0]: int(one.get("MainPID", 0)) for one in found}
    return {unit: pids[unit] for unit in units if pids.get(unit)}


def sample(unit: str, pid: int) -> tuple[str, int, int, int, int]:
    """Return one sample of a process; raises OSError when it has ended or may not be looked into."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        # A process's name may hold blanks and brackets: the fields are counted after it.
        fields = file.read().rsplit(")", 1)[1].split()
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    at_us = time.time_ns() // 1000
    cpu_us = (int(fields[11]) + int(fields[12])) * _US // os.sysconf("SC_CLK_TCK")
    return unit, at_us, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), cpu_us, fds


def processors_us(stat: str = "/proc/stat") -> tuple[int, int, int]:
    """Return how long the host's processors were used, idle, and taken by a hypervisor, since it started.

    What the hypervisor took is used up as well, and is part of the first.
    """
    with open(stat, encoding="utf-8") as file:
        # cpu user nice system idle iowait irq softirq steal ...
        ticks = [int(word) * _US // os.sysconf("SC_CLK_TCK") for word in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], ticks[3] + ticks[4], ticks[7]


def waited_us(what: str) -> int | None:
    """Return how long some process has waited for ``memory`` or ``io``; None where nobody tells."""
    try:
        with open(f"/proc/pressure/{what}", encoding="utf-8") as file:
            # some avg10=0.00 avg60=0.00 avg300=0.00 total=0
            return int(file.readline().rsplit("=", 1)[1])
    except (OSError, ValueError, IndexError):
        return None


def links(net: str = "/sys/class/net") -> list[tuple[str, int, int, int | None]]:
    """Return what each of the host's own interfaces received and sent, and what it can carry a second."""
    found = []
    for name in sorted(os.listdir(net)):
        # Bridges and containers' ends would count the same bytes again.
        if os.path.exists(f"{net}/{name}/device"):
            received, sent = (_number(f"{net}/{name}/statistics/{way}_bytes") for way in ("rx", "tx"))
            # Mbit/s; -1 or nothing where the driver does not say.
            speed = _number(f"{net}/{name}/speed")
            found.append((name, received, sent, speed * 125_000 if speed > 0 else None))
    return found


#: Columns of HAProxy's statistics (management guide, 9.1), as the table balancer has them after the requests.
_COUNTERS = ("hrsp_4xx", "hrsp_5xx", "econ", "eresp", "qcur")
_ANSWERS = tuple(f"hrsp_{kind}" for kind in ("1xx", "2xx", "3xx", "4xx", "5xx", "other"))
#: Stands for what clients got: of servers, and of the balancer itself, which no backend counts.
_CLIENTS = "clients"
_ANSWER_S = 2.0


def servers(path: str) -> list[list[str | int]]:
    """Return the counters of a balancer's servers and of its clients; raises OSError, ValueError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(_ANSWER_S)
        asked.connect(path)
        asked.sendall(b"show stat\n")
        answer = b""
        while piece := asked.recv(65536):
            answer += piece
    totals: dict[str, list[int]] = {}
    status: dict[str, str] = {}
    passed_on = 0
    for row in csv.DictReader(io.StringIO(answer.decode(errors="replace").lstrip("# "))):
        if row["svname"] == "BACKEND":
            passed_on += int(row.get("hrsp_5xx") or 0)
            continue
        name = _CLIENTS if row["svname"] == "FRONTEND" else row["svname"]
        counts = [sum(int(row.get(column) or 0) for column in _ANSWERS)]
        counts += [int(row.get(column) or 0) for column in _COUNTERS]
        # A server stands in each backend that knows it.
        before = totals.get(name, [0] * len(counts))
        totals[name] = [a + b for a, b in zip(before, counts)]  # noqa: B905 - hosts may have Python 3.9
        status.setdefault(name, row["status"].replace(" ", "_"))
    # What a rule of the front answers comes to no backend.
    own = {_CLIENTS: totals[_CLIENTS][2] - passed_on} if _CLIENTS in totals else {}
    return [[name, status[name], *counts, max(0, own.get(name, 0))] for name, counts in totals.items()]


#: An agent that tells of every client makes some 100 kB.
_MOST_BYTES = 8 << 20
_METRICS_EVERY_S = 10.0


def metrics(unit: str, where: str, series: list[str]) -> list[tuple[str, int, str, float]]:
    """Return what a unit tells of the series that begin so; raises OSError, ValueError, HTTPException.

    Series of one name are added up; of those that end in ``max`` the most is taken.
    """
    connection = http.client.HTTPConnection(where, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read(_MOST_BYTES).decode(errors="replace")
    finally:
        connection.close()
    at_us = time.time_ns() // 1000
    found: dict[str, float] = {}
    for line in text.splitlines():
        begin = next((one for one in series if line.startswith(one)), None)
        # What is not known, such as the lag before the first fetch, is told as NaN.
        if begin is not None and math.isfinite(value := float(line.rpartition("}")[2].split()[0])):
            name = begin.partition("{")[0]
            before = found.get(name)
            more = max if name.endswith("max") else float.__add__
            found[name] = value if before is None else more(before, value)
    return [(unit, at_us, name, value) for name, value in found.items()]


def _ask(units: list[str], series: list[str], told: queue.SimpleQueue[tuple[str, int, str, float]]) -> None:
    """Ask each unit for its metrics again and again: a JVM that answers late delays no other sample."""
    while True:
        for unit, _, where in (one.partition("=") for one in units):
            # While it starts, nobody answers.
            with contextlib.suppress(OSError, ValueError, IndexError, http.client.HTTPException):
                for one in metrics(unit, where, series):
                    told.put(one)
        time.sleep(_METRICS_EVERY_S)


def _number(path: str) -> int:
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def main(words: list[str], interval_s: float = 1.0) -> None:
    """Print samples on absolute ticks until the reader is gone; a late one skips ticks, it shifts none."""
    tick = time.monotonic()
    given: dict[str, list[str]] = {"socket": [], "metrics": [], "series": []}
    units: list[str] = []
    for word in words:
        kind, _, rest = word.partition("=")
        given.get(kind, units).append(rest if kind in given else word)
    path = next(iter(given["socket"]), "")
    told: queue.SimpleQueue[tuple[str, int, str, float]] = queue.SimpleQueue()
    if given["metrics"]:
        threading.Thread(target=_ask, args=(given["metrics"], given["series"], told), daemon=True).start()
    while True:
        samples = []
        for unit, pid in main_pids(units).items():
            # A process that ends while it is looked at has no sample.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                samples.append(sample(unit, pid))
        host = [time.time_ns() // 1000, *processors_us(), *map(waited_us, ("memory", "io"))]
        said = {"units": samples, "host": host, "links": links()}
        if path:
            # While a balancer starts, nobody answers.
            with contextlib.suppress(OSError, ValueError, KeyError):
                said["servers"] = servers(path)
        if not told.empty():
            said["metrics"] = [told.get() for _ in range(told.qsize())]
        print(json.dumps(said), flush=True)
        tick += interval_s * (1 + int((time.monotonic() - tick) / interval_s))
        time.sleep(max(0.0, tick - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1:])
