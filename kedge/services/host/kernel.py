"""Settings of the kernel: queues, ports and buffers that are planned, and what a host keeps of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kedge.evidence.nearest import nearest
from kedge.keys.accepted_values import is_whole
from kedge.keys.catalogue import every_key
from kedge.plan.findings import Finding, Subject
from kedge.plan.hosts import Inventory
from kedge.plan.service import Service
from kedge.plan.settings import Basis, Choice, Sheet
from kedge.plan.variable_messages import wrong_variable
from kedge.services.host.variables import host_facts

SYSCTL: Final = "/etc/sysctl.d/60-kedge.conf"
LIMITS: Final = "/etc/security/limits.d/60-kedge.conf"
_HIGH_LOAD: Final = "Jetty 9.4 documentation, High Load"
FACTS: Final = "host tuning facts"
_KAFKA: Final = "Kafka documentation, Hardware and OS"
_MAX_BUFFER: Final = 16_777_216
#: The kernel keeps these sizes as ints, and refuses larger ones.
_MOST_BUFFER: Final = 2**31 - 1
#: Settings of which the rules know, to hold a person's own against.
PLANNED: Final = (
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
    "vm.max_map_count",
    "vm.swappiness",
)
#: Settings that are known one by one: modules, interfaces and distributions bring others with more parts.
_FAMILY: Final = re.compile(r"(?:net(?:\.core|\.ipv4)?|vm|fs)\.[\w-]+")
_OF_INTERFACES: Final = "net.ipv4.conf.all."
_LIKE: Final = 0.93
_LIKE_NAME: Final = 0.75
#: Kernel settings that pages still name: what became of them (ip-sysctl of the kernel).
_DROPPED: Final = {
    "net.ipv4.tcp_tw_recycle": "Linux removed it in 4.12, and sysctl ends with an error",
    "net.ipv4.tcp_fack": "the kernel keeps the name and does nothing with it",
    "net.ipv4.tcp_low_latency": "the kernel keeps the name and does nothing with it",
}


def put_high_load(sheet: Sheet) -> None:
    """Plan queues and ports of a host with many connections."""

    def put(key: str, rule: str, value: str | int, because: str) -> None:
        sheet.put(SYSCTL, key, f"host.{rule}", Choice(value, because, _HIGH_LOAD, "documented"))

    put(
        "net.core.somaxconn",
        "queues",
        4096,
        "the longest accept queue that a process may ask for; HAProxy and Strimzi's bridge do, kafka-rest "
        "asks for 50 whatever this says",
    )
    put("net.core.netdev_max_backlog", "queues", 16_384, "packets that wait for a processor in a burst")
    put("net.ipv4.tcp_max_syn_backlog", "queues", 8192, "connections that are being opened in a burst")
    put("net.ipv4.tcp_syncookies", "queues", 1, "a full queue of half-open connections refuses nobody")
    put(
        "net.ipv4.ip_local_port_range",
        "ports",
        "1024 65535",
        "64,512 ports for outgoing connections, so that many short ones do not run out of them",
    )
    sheet.put(
        SYSCTL,
        "net.ipv4.tcp_congestion_control",
        "host.congestion",
        Choice("cubic", "the document's choice among the kernel's", _HIGH_LOAD, "documented"),
        Choice(
            None,
            "cubic is the kernel's default already, and would downgrade a host on bbr",
            FACTS,
            "documented",
        ),
    )
    sheet.note(
        "host.obsolete",
        f"net.ipv4.tcp_tw_recycle=1 ({_HIGH_LOAD}) is not planned: Linux removed it in 4.12, and "
        "sysctl would end with an error",
        "",
    )


def put_buffers(sheet: Sheet, link: tuple[int, str] | None, *, busy: bool) -> None:
    """Plan how far a connection's buffers may grow: for many of them, or to hold what a long link holds."""
    size, because, source = _MAX_BUFFER, "so that a long way does not slow a connection down", _HIGH_LOAD
    rule = "host.buffers"
    basis: Basis = "documented"
    if link and (2 * link[0] > size or not busy):
        size, source, rule, basis = 2 * link[0], _KAFKA, "host.bandwidth_delay", "derived"
        because = (
            f"{link[1]} keep {link[0]} on their way; twice that, as half of a buffer is the kernel's own"
        )
        if size > _MOST_BUFFER:
            size, because = _MOST_BUFFER, f"{because}; no buffer of the kernel is larger"
    elif not busy:
        return
    for key, value in (
        ("net.core.rmem_max", f"{size}"),
        ("net.core.wmem_max", f"{size}"),
        ("net.ipv4.tcp_rmem", f"4096 87380 {size}"),
        ("net.ipv4.tcp_wmem", f"4096 16384 {size}"),
    ):
        sheet.put(
            SYSCTL, key, rule, Choice(value, f"buffers may grow to {size} bytes: {because}", source, basis)
        )


class _Takes(NamedTuple):
    """What Linux takes of a setting: whole numbers from ``least`` to ``most``; ``default`` is its own."""

    default: str
    least: int | None = 0
    most: int = _MOST_BUFFER


#: Asked of Linux 6.18 (sysctl in a network namespace), and of its source for vm.*.
TAKES: Final = {
    "net.core.netdev_max_backlog": _Takes("1000", None),
    "net.core.rmem_max": _Takes("4194304", 1),
    "net.core.somaxconn": _Takes("4096"),
    "net.core.wmem_max": _Takes("4194304", 1),
    "net.ipv4.ip_local_port_range": _Takes("32768 60999", 1, 65_535),
    "net.ipv4.tcp_max_syn_backlog": _Takes("2048", None),
    "net.ipv4.tcp_rmem": _Takes("4096 131072 33554432", 1),
    "net.ipv4.tcp_syncookies": _Takes("1", 0, 255),
    "net.ipv4.tcp_wmem": _Takes("4096 16384 4194304", 1),
    "vm.max_map_count": _Takes("65530"),
    "vm.swappiness": _Takes("60", 0, 200),
}
#: As the kernel reads one: decimal, hexadecimal, or octal.
_NUMBER: Final = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,8}|0*[0-9]{1,10})", re.ASCII)


def wrong_values(values: Mapping[str, str], planned: Mapping[str, str]) -> Iterator[Finding]:
    """Yield values that the kernel refuses, and sizes that do not ascend; ``planned`` is what to write."""
    for key, takes in TAKES.items():
        if key not in values:
            continue
        # What stands behind as many numbers as it takes is left out.
        said = values[key].split()[: len(takes.default.split())] or ["empty"]
        read = [int(one, 16 if "x" in one.lower() else 10) for one in said if _NUMBER.fullmatch(one)]
        ascends = read == sorted(read)
        least = -takes.most - 1 if takes.least is None else takes.least
        what = f"{key} is {' '.join(values[key].split()) or 'empty'}, and"
        fix = f"write {key} = {planned.get(key) or takes.default}"
        if len(read) < len(said) or not all(least <= one <= takes.most for one in read):
            start = "" if takes.least is None else f" from {least}"
            what = f"{what} the kernel takes whole numbers{start} up to {takes.most}: it refuses it"
            yield Finding("error", "host.own", "", what, fix, Subject(keys=(key,)))
        elif not ascends and key.endswith("port_range"):
            what = f"{what} its first port is above its last: the kernel refuses it"
            yield Finding("error", "host.own", "", what, fix, Subject(keys=(key,)))
        elif not ascends:
            what = f"{what} is least, default and most of a buffer, which do not ascend: the kernel takes it"
            yield Finding("warning", "host.own", "", what, fix, Subject(keys=(key,)))


def take_own(sheet: Sheet, host: str) -> list[Finding]:
    """Take over a person's own settings, and warn of those that are misspelt or gone; return what is none."""
    findings = []
    keys = sheet.rest_of_own(SYSCTL, "host.own")
    own = {s.key: s.value for s in sheet.settings if s.file == SYSCTL and s.basis == "yours"}
    for found in wrong_values(own, {}):
        report = sheet.error if found.severity == "error" else sheet.warning
        report(found.rule, found.message, found.fix, *(found.subject or Subject()).keys)
    for key in keys:
        if "." not in key:
            findings.append(
                wrong_variable(
                    "host_tuning_settings",
                    host,
                    "is no kernel setting",
                    "write its full name, such as net.core.somaxconn",
                    key,
                )
            )
        elif key in _DROPPED:
            sheet.warning("host.dropped", f"{key}: {_DROPPED[key]}", f"take {key} out", key)
        elif near := _meant(key):
            sheet.warning("host.own", f"no list of Linux's settings has {key}", f"did you mean {near}?", key)
        elif _FAMILY.fullmatch(key) and key not in every_key("linux"):
            what = f"neither a kernel of 6.18, nor the documentation of 6.1, nor the manual has {key}"
            sheet.warning(
                "host.own", what, f"take {key} out, unless the host's sysctl {key} has a value", key
            )
    return findings


def _meant(key: str) -> str | None:
    """Return the setting that one which Linux has not is probably meant to be."""
    known = every_key("linux")
    if key in known:
        return None
    if not _FAMILY.fullmatch(key):
        return nearest(key, PLANNED, _LIKE)
    family, _, name = key.rpartition(".")
    if f"{_OF_INTERFACES}{name}" in known:
        return f"{_OF_INTERFACES}{name}"
    elsewhere = [one for one in known if one.endswith(f".{name}")]
    if len(elsewhere) == 1:
        return elsewhere[0]
    near = nearest(
        name, sorted(one.rpartition(".")[2] for one in known if one.rpartition(".")[0] == family), _LIKE_NAME
    )
    return f"{family}.{near}" if near else nearest(key, sorted(known), _LIKE_NAME)


def bandwidth_delays(inventory: Inventory, services: Iterable[Service]) -> dict[str, tuple[int, str]]:
    """Return for each host with a long fast link the bytes that it keeps on their way, and why."""
    found: dict[str, tuple[int, str]] = {}
    for service in services:
        for link in service.links(inventory):
            if link.bytes > found.get(link.host, (0, ""))[0]:
                found[link.host] = (link.bytes, link.because)
    for host in inventory.hosts:
        facts = host_facts(host, inventory.hosts[host])
        if isinstance(facts, list) or facts.link_mbit_per_s is None or facts.round_trip_ms is None:
            continue
        bytes_ = int(facts.link_mbit_per_s * 1e6 / 8 * facts.round_trip_ms / 1000)
        if bytes_ > found.get(host, (0, ""))[0]:
            found[host] = (bytes_, f"{facts.round_trip_ms:g} ms at {facts.link_mbit_per_s} Mbit/s")
    return found


def effective(key: str, current: str, wanted: str) -> str:
    """Return the value that a host shall have: the larger of what it has and what is wanted, part by part.

    A port range becomes the wider one, reserved ports are united, and a congestion control other than reno
    stays.
    """
    if key.endswith("ip_local_reserved_ports"):
        return port_ranges(_expand(current) | _expand(wanted))
    if key.endswith("congestion_control"):
        return wanted if current in ("", "reno") else current
    now, then = current.split(), wanted.split()
    if len(now) != len(then) or not all(is_whole(part) for part in now + then):
        return wanted
    pairs = [(int(a), int(b)) for a, b in zip(now, then, strict=True)]
    if key.endswith("ip_local_port_range"):
        return f"{min(pairs[0])} {max(pairs[1])}"
    return " ".join(str(max(pair)) for pair in pairs)


def port_ranges(ports: frozenset[int]) -> str:
    """Return ports as the kernel writes them: 8082-8085,9092."""
    runs: list[list[int]] = []
    for port in sorted(ports):
        if runs and port == runs[-1][1] + 1:
            runs[-1][1] = port
        else:
            runs.append([port, port])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _expand(ranges: str) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, ranges.replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)
