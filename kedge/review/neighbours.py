"""Judges what stands around the processes: HAProxy before REST proxies, and the kernel of a host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from kedge.plan.findings import Finding, Subject
from kedge.plan.hosts import Inventory
from kedge.plan.settings import Setting
from kedge.review.as_inventory import ARCHIVE, FileReader, ReviewedMachine
from kedge.review.haproxy_file import VERSION, Section, check_file, check_risks, same, sections_of
from kedge.review.judging import Judgement, ReviewedKey, has_document
from kedge.review.kinds import SIGNS, FileFindings
from kedge.review.processes import HOST, TITLES
from kedge.review.reading import Value, comes_later
from kedge.services.balancer.service import REST_BALANCER
from kedge.services.host.kernel import TAKES, effective, wrong_values
from kedge.services.planning import make_plan
from kedge.services.rest.service import KAFKA_REST

#: By its name, or the port of a server, a backend is one of REST proxies.
_REST: Final = re.compile(r"rest|bridge", re.IGNORECASE)
_PORTS: Final = re.compile(r":808[2-9]\b")
#: What a consumer's requests have in common: its address, a header, a cookie.
_STICKY_BALANCE: Final = ("source", "hdr", "hash")
#: The request that makes a consumer has another path, and no parameter that the others have.
_NOT_STICKY: Final = re.compile(r"on\s+(path|url|uri|base)\b")
_LOOKED: Final = ("balance, timeouts, limits and checks",)
#: More settings than a person writes: what sysctl -a says.
_WRITTEN: Final = 200
#: The proxies that are taken to be behind a balancer.
_PROXY: Final = next(iter(SIGNS))


def judge_balancer(
    part: FileFindings, machine: ReviewedMachine, beside: Iterable[FileFindings] = ()
) -> Judgement | str:
    """Return what there is to say of a HAProxy before REST proxies; why it says nothing of them, else.

    What ``beside`` it is of HAProxy may have its backends.
    """
    sections = list(sections_of(part.values[""].text, part.where))
    serving = [s for s in sections if s.kind in ("backend", "listen") and s.servers]
    # Who asks about a file with one backend asks about that.
    backends = [s for s in serving if _is_rest(s)] or (serving if len(serving) == 1 else [])
    if not backends:
        return "HAProxy, of whose backends none has the name or a port of REST proxies"
    servers = sum(backend.server_count for backend in backends)
    sticky = all(_sticks(backend) for backend in backends)
    inventory = _behind_balancer(machine, sticky=sticky)
    # Consumers need it, how many there may be; who has none says so.
    some = {"consumers": 1, **(machine.workload or {})}
    clients = _behind_balancer(replace(machine, workload=some), sticky=sticky, proxies=max(2, servers))
    planned, documented = make_plan(inventory), make_plan(inventory, "documented")
    here, there = ({s.key: s for s in _of(plan, REST_BALANCER.name)} for plan in (planned, documented))
    rows = [
        _row(s, _said(sections, backends, key), there.get(key))
        for key, s in here.items()
        if _comparable(key) and not s.hidden
    ]
    without = replace(clients, groups={KAFKA_REST.name: (HOST,), "all": (HOST,)})
    findings = [f for f in make_plan(without).findings if f.rule == "rest.stickiness"] if servers > 1 else []
    place = next((p for backend in backends for _, p in backend.lines), part.where)
    named = {s.name for one in (part, *beside) for s in sections_of(one.values[""].text, "")
             if s.kind in ("backend", "listen")}  # fmt: skip
    refused = list(check_file(sections, named))
    # A line that HAProxy refuses is wrong once.
    risks = [f for f in check_risks(sections, backends) if f.where not in {one.where for one in refused}]
    found = [
        *refused,
        *risks,
        *(replace(f, where=place) for f in findings),
    ]
    why = f"{servers} server{'' if servers == 1 else 's'} in {', '.join(b.name for b in backends)}"
    return Judgement(
        TITLES["haproxy"], part.where, VERSION, why, tuple(found), tuple(rows), (), looked=_LOOKED
    )


def _behind_balancer(machine: ReviewedMachine, *, sticky: bool, proxies: int = 2) -> Inventory:
    variables: dict[str, Any] = {
        "host_cores": machine.cores,
        "host_memory_mib": machine.memory_mib,
        "kafka_clusters": {"today": {"version": "4.3.1", "bootstrap_servers": "today:9092"}},
        "kafka_rest_distribution": _PROXY,
        "kafka_rest_version": SIGNS[_PROXY].versions[0],
        "kafka_rest_cluster": "today",
        **ARCHIVE,
        "kafka_rest_instances_per_host": proxies,
        "kafka_rest_workload": dict(machine.workload or {}),
        "kafka_rest_balancer": {"url": "http://today:80", "sticky": sticky},
    }
    groups = {KAFKA_REST.name: (HOST,), REST_BALANCER.name: (HOST,), "all": (HOST,)}
    return Inventory({HOST: variables}, groups, reader=FileReader())


def _of(plan: Any, service: str) -> tuple[Setting, ...]:
    return tuple(s for one in plan.services.get(HOST, {}).get(service, ()) for s in one.settings)


def _comparable(key: str) -> bool:
    begins = (
        "timeout",
        "retries",
        "maxconn",
        "default-server",
        "tune.",
        "hard-stop",
        "stick-table",
    )
    return key.startswith(begins)


def _row(s: Setting, today: Value | None, documented: Setting | None) -> ReviewedKey:
    return ReviewedKey(
        "haproxy.cfg",
        s.key,
        s.value if today and same(today.text, s.value) else today.text if today else None,
        today.place if today else "",
        documented.value if has_document(documented) else None,
        s.value,
        s.rule,
        s.because,
        s.basis,
        s.source,
    )


def _said(sections: list[Section], backends: list[Section], key: str) -> Value | None:
    """Return what the file says of a planned key: of the backend, else of the defaults, else of global."""
    begin = tuple(key.split())
    if key == "health uri":
        begin = ("option", "httpchk")
    elif key == "default-server check":
        return _checks(backends)
    elif key.startswith("stick-table "):
        table = next((v for b in backends if (v := b.of("stick-table"))), None)
        words = table.text.split() if table else []
        word = begin[1]
        return Value(words[words.index(word) + 1], table.place) if table and word in words[:-1] else None
    fronts = [s for s in sections if s.kind in ("frontend", "listen")]
    wide = [
        s for s in sections if s.kind == ("global" if key in ("maxconn", "hard-stop-after") else "defaults")
    ]
    wide = wide or [s for s in sections if s.kind == "global" and key.startswith("tune.")]
    if key.startswith("tune."):
        wide = [s for s in sections if s.kind == "global"]
    return next((v for s in (*backends, *fronts, *reversed(wide)) if (v := s.of(*begin))), None)


def _checks(backends: list[Section]) -> Value | None:
    """Return how servers are asked: inter, fall and rise of the first one that says check."""
    for backend in backends:
        for words, place in backend.lines:
            if words[0] in ("server", "server-template", "default-server") and "check" in words:
                pairs = pairwise(words)
                said = [f"{a} {b}" for a, b in pairs if a in ("inter", "fall", "rise")]
                return Value(" ".join(said) or "check", place)
    return None


def _is_rest(section: Section) -> bool:
    return bool(_REST.search(section.name) or any(_PORTS.search(" ".join(w)) for w, _ in section.servers))


def _sticks(section: Section) -> bool:
    balance, stick = section.of("balance"), section.of("stick")
    if section.of("cookie"):
        names = [words[words.index("cookie") + 1] for words, _ in section.servers if "cookie" in words[:-1]]
        return len(names) == len({*names})
    sticks = stick is not None and not _NOT_STICKY.match(stick.text)
    return sticks or bool(balance and balance.text.startswith(_STICKY_BALANCE))


def judge_kernel(part: FileFindings, machine: ReviewedMachine) -> Judgement:
    """Return what there is to say of a host's kernel settings, as those of a host with REST proxies."""
    # A dash before a key lets sysctl go on where there is none.
    values = {key.removeprefix("-").replace("/", "."): value for key, value in part.values.items()}
    variables = dict(_behind_balancer(machine, sticky=True).hosts[HOST])
    written = {key: value.text for key, value in values.items()} if len(values) <= _WRITTEN else {}
    groups = {KAFKA_REST.name: (HOST,), "all": (HOST,)}
    plan = make_plan(Inventory({HOST: variables}, groups))
    own = make_plan(Inventory({HOST: variables | {"host_tuning_settings": written}}, groups))
    rows = [_kernel_row(s, values) for s in _of(plan, "host_tuning") if "." in s.key and s.key != _RESERVED]
    before = {(f.rule, f.message) for f in plan.findings}
    found = [f for f in own.findings if f.rule.startswith("host.") and (f.rule, f.message) not in before]
    if _COMMAND in values:
        what = "a line that begins with sysctl sets nothing: files of sysctl have KEY = VALUE alone"
        found.append(
            Finding("error", "host.own", "", what, "write its KEY = VALUE", Subject(keys=(_COMMAND,)))
        )
    settled = {key: value.text for key, value in values.items() if not comes_later(value.text)}
    refused = list(wrong_values(settled, {s.key: s.value for s in _of(plan, "host_tuning")}))
    found = [*refused, *(f for f in found if not (f.subject and set(f.subject.keys) & TAKES.keys()))]
    places = tuple(replace(f, where=_place(f, values, part.where)) for f in found if f.severity != "note")
    places = (*part.findings, *places)
    return Judgement(
        TITLES["sysctl"],
        part.where,
        "any",
        "as on a host with REST proxies",
        places,
        tuple(rows),
        (),
        looked=("its keys and their values",),
    )


#: What a line of a script begins with.
_COMMAND: Final = "sysctl"
#: What it should hold follows from the ports that Kedge gives its services.
_RESERVED: Final = "net.ipv4.ip_local_reserved_ports"


def _kernel_row(s: Setting, values: Mapping[str, Value]) -> ReviewedKey:
    today = values.get(s.key)
    current = " ".join(today.text.split()) if today else None
    planned = effective(s.key, current, s.value) if current is not None else s.value
    row = _row(s, Value(current or "", today.place) if today else None, s)
    return replace(row, file="sysctl", planned=planned)


def _place(finding: Finding, values: Mapping[str, Value], where: str) -> str:
    keys = finding.subject.keys if finding.subject else ()
    return next((values[key].place for key in keys if key in values), where)
