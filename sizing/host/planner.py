"""Rules for the machine: kernel settings for what runs on it, and room for all of it in its memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from evidence.nearest import nearest
from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.messages import wrong_variable
from sizing.core.plan import Part, PlannedInstance
from sizing.core.service import PlannedInstances, Service
from sizing.core.settings import Advice, Basis, Choice, Sheet
from sizing.core.variables import role_variables
from sizing.host.variables import HostTuning, host_facts
from sizing.keys.values import is_whole

SERVICE: Final = "host_tuning"
_SYSCTL: Final = "/etc/sysctl.d/60-kedge.conf"
_LIMITS: Final = "/etc/security/limits.d/60-kedge.conf"

_HIGH_LOAD: Final = "Jetty 9.4 documentation, High Load"
_FACTS: Final = "host tuning facts"
_KAFKA: Final = "Kafka documentation, Hardware and OS"
_MAX_BUFFER: Final = 16_777_216
#: The kernel keeps these sizes as ints, and refuses larger ones.
_MOST_BUFFER: Final = 2**31 - 1
_RESERVE_MIB: Final = 512
_JMX_FLAG: Final = re.compile(r"-Dcom\.sun\.management\.jmxremote\.(?:rmi\.)?port=(\d+)")
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
#: Settings of the kernel that are nearly called so and are others.
_BESIDE: Final = ("net.ipv4.tcp_mem",)
_LIKE: Final = 0.93
#: Kernel settings that pages still name: what became of them (ip-sysctl of the kernel).
_DROPPED: Final = {
    "net.ipv4.tcp_tw_recycle": "Linux has it no more since 4.12, and sysctl ends with an error",
    "net.ipv4.tcp_fack": "the kernel keeps the name and does nothing with it",
    "net.ipv4.tcp_low_latency": "the kernel keeps the name and does nothing with it",
}


def plan_hosts(
    inventory: Inventory, planned_services: PlannedInstances, services: Sequence[Service], advice: Advice
) -> Part:
    """Plan the kernel of every host that has a service or makes load.

    A wanted value is never meant to lower what the host has: the role sets ``effective(key, now, wanted)``.
    """
    busy = {host for service in services if service.many_connections for host in service.hosts(inventory)}
    links = _bandwidth_delays(inventory, services)
    planned: dict[str, dict[str, tuple[PlannedInstance, ...]]] = {}
    findings: list[Finding] = []
    without_instances = {
        host
        for service in services
        if service.plan is None and not service.everywhere
        for host in service.hosts(inventory)
    }
    single = {service.name: service.kernel_of(inventory) for service in services}
    for host in sorted({*planned_services, *without_instances}):
        variables = role_variables(HostTuning, SERVICE, host, inventory.hosts[host])
        if isinstance(variables, list):
            findings += variables
            continue
        of_host = planned_services.get(host, {})
        sheet = Sheet(f"{host} {SERVICE}", advice, variables.settings)
        _buffers(sheet, links.get(host), busy=host in busy)
        if host in busy:
            _high_load(sheet)
        for service in services:
            if service.name in of_host or (service.plan is None and host in service.hosts(inventory)):
                for need in (*service.kernel, *single[service.name].get(host, ())):
                    sheet.put(_LIMITS if need.limit else _SYSCTL, need.key, need.rule, need.choice)
        ports = ports_of(of_host, services)
        if ports and (host in busy or host in links):
            sheet.put(
                _SYSCTL,
                "net.ipv4.ip_local_reserved_ports",
                "host.ports",
                Choice(
                    _ranges(ports),
                    "the ports of this host's services: the kernel gives them to no outgoing connection",
                    _FACTS,
                    "derived",
                ),
            )
        for key in sheet.rest_of_own(_SYSCTL, "host.own"):
            near = nearest(key, PLANNED, _LIKE)
            if "." not in key:
                findings.append(_no_sysctl(host, key))
            elif near and key not in (*PLANNED, *_BESIDE):
                sheet.warning(
                    "host.own", f"{key} is nearly called as another setting", f"did you mean {near}?"
                )
            elif key in _DROPPED:
                sheet.warning("host.dropped", f"{key}: {_DROPPED[key]}", f"take {key} out")
        findings += sheet.findings
        if sheet.settings:
            planned[host] = {SERVICE: (PlannedInstance("host", sheet.by_file()),)}
    findings += room(inventory, planned_services, services)
    return Part(services=planned, findings=tuple(findings))


def effective(key: str, current: str, wanted: str) -> str:
    """Return the value that a host shall have: the larger of what it has and what is wanted, part by part.

    A port range becomes the wider one, reserved ports are united, and a congestion control other than reno
    stays.
    """
    if key.endswith("ip_local_reserved_ports"):
        return _ranges(_expand(current) | _expand(wanted))
    if key.endswith("congestion_control"):
        return wanted if current in ("", "reno") else current
    now, then = current.split(), wanted.split()
    if len(now) != len(then) or not all(is_whole(part) for part in now + then):
        return wanted
    pairs = [(int(a), int(b)) for a, b in zip(now, then, strict=True)]
    if key.endswith("ip_local_port_range"):
        return f"{min(pairs[0])} {max(pairs[1])}"
    return " ".join(str(max(pair)) for pair in pairs)


#: A metrics agent among JVM flags: -javaagent:JAR=ADDRESS:PORT:FILE.
_AGENT: Final = re.compile(r"-javaagent:[^=\s]+=[^=\s]*?:(\d+):/")


def ports_of(
    of_host: Mapping[str, tuple[PlannedInstance, ...]], services: Iterable[Service]
) -> frozenset[int]:
    """Return every port on which the planned services of a host listen."""
    others = {service.name: service.ports.others for service in services if service.ports}
    found = set()
    for name, instances in of_host.items():
        for instance in instances:
            if instance.port:
                found.add(instance.port)
            found |= jmx_ports(instance)
            agents = (_AGENT.search(s.value) for s in instance.settings if "-javaagent:" in s.value)
            found |= {int(agent[1]) for agent in agents if agent}
            if name in others:
                found |= set(others[name](instance))
    return frozenset(found)


def jmx_ports(instance: PlannedInstance) -> set[int]:
    """Return the ports that a person's own values open for JMX, by the start script's variable or a flag."""
    own = [s for s in instance.settings if s.by == "person"]
    said = [s.value for s in own if s.key == "JMX_PORT"]
    said += [port for s in own if s.key.endswith("_OPTS") for port in _JMX_FLAG.findall(s.value)]
    return {int(port) for port in said if port.isdecimal()}


def room(
    inventory: Inventory, planned_services: PlannedInstances, services: Iterable[Service]
) -> list[Finding]:
    """Find hosts whose services together may take more memory than the host has."""
    variables = {service.name: service.memory for service in services if service.memory}
    found = []
    for host, of_host in planned_services.items():
        facts = host_facts(host, inventory.hosts[host])
        if isinstance(facts, list):
            continue
        needs = {
            service: [mib for instance in instances if (mib := needed_mib(instance))]
            for service, instances in of_host.items()
        }
        total = sum(map(sum, needs.values()))
        parts = ", ".join(
            f"{service} {len(each)} x {max(each)} MiB" for service, each in needs.items() if each
        )
        if total > facts.memory_mib:
            found.append(
                Finding(
                    "error",
                    "host.memory",
                    f"{host}: host_memory_mib",
                    f"host_memory_mib is {facts.memory_mib}, and the services of the host may take {total} "
                    f"MiB: {parts}",
                    "move a service to another host, plan fewer instances or a smaller workload, "
                    + "".join(
                        f"set a smaller {variables[service]}, " for service in needs if service in variables
                    )
                    + "or correct host_memory_mib",
                )
            )
        elif total > facts.memory_mib - _RESERVE_MIB:
            found.append(
                Finding(
                    "warning",
                    "host.memory",
                    f"{host}: host_memory_mib",
                    f"the services of the host may take {total} of its {facts.memory_mib} MiB ({parts}), "
                    f"which leaves less than {_RESERVE_MIB} to the system and its page cache",
                    "plan fewer instances or a smaller workload, or give the host more memory",
                )
            )
    return found


def needed_mib(instance: PlannedInstance) -> int:
    """Return the memory that the unit of an instance may take, in MiB; 0 when the plan sets it no limit."""
    value = instance.value("MemoryMax") or instance.value("MemoryLow")
    match = re.fullmatch(r"(\d+)([KMGT]?)", value)
    if match is None:
        return 0
    scale = {"": 1 / 1024 / 1024, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
    return int(int(match[1]) * scale[match[2]])


def _high_load(sheet: Sheet) -> None:
    def put(key: str, rule: str, value: str | int, because: str) -> None:
        sheet.put(_SYSCTL, key, f"host.{rule}", Choice(value, because, _HIGH_LOAD, "documented"))

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
        _SYSCTL,
        "net.ipv4.tcp_congestion_control",
        "host.congestion",
        Choice("cubic", "the page's choice among the kernel's", _HIGH_LOAD, "documented"),
        Choice(
            None,
            "cubic is the kernel's default already, and would downgrade a host on bbr",
            _FACTS,
            "documented",
        ),
    )
    sheet.note(
        "host.obsolete",
        f"net.ipv4.tcp_tw_recycle=1 ({_HIGH_LOAD}) is not planned: Linux has it no more since 4.12, and "
        "sysctl would end with an error",
        "",
    )


def _buffers(sheet: Sheet, link: tuple[int, str] | None, *, busy: bool) -> None:
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
            _SYSCTL, key, rule, Choice(value, f"buffers may grow to {size} bytes: {because}", source, basis)
        )


def _bandwidth_delays(inventory: Inventory, services: Iterable[Service]) -> dict[str, tuple[int, str]]:
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


def _no_sysctl(host: str, key: str) -> Finding:
    return wrong_variable(
        f"{SERVICE}_settings.{key}",
        host,
        "is no kernel setting",
        "write its full name, such as net.core.somaxconn",
    )


def _ranges(ports: frozenset[int]) -> str:
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
