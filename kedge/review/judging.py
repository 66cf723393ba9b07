"""Judges a process as it runs: by the plan with its values and the plan without them, and nothing of its own.

What the plan says of a person's values it says here too: a finding that is there with today's values and not
without them is theirs. So no rule of a plan is written twice.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache, cached_property, partial
from typing import Any, Final, TypeGuard

from pydantic.fields import FieldInfo

from kedge.evidence.nearest import one_slip
from kedge.evidence.secrets import holds_secret
from kedge.keys.catalogue import every_key
from kedge.plan.findings import Finding, Severity, Subject, with_names
from kedge.plan.inventory.secrets import Known
from kedge.plan.jvm_flags import SHARE, maximum_heap_mib
from kedge.plan.plan import Plan
from kedge.plan.plan_secrets import on_command_line
from kedge.plan.settings import Advice, Basis, Setting
from kedge.plan.variable_messages import renamed
from kedge.plan.variables import Asked, Strict
from kedge.plan.version_numbers import numbers
from kedge.review.as_inventory import (
    PRODUCER,
    SERVICE_OF,
    FileReader,
    ReviewedMachine,
    inventory_of,
    memory_limit,
    own_values,
    shown_value,
    started_with,
    unset_values,
    versions_of,
)
from kedge.review.connecting import check_connections, check_ports
from kedge.review.kinds import NEWEST, meant_for_image, variable_of
from kedge.review.processes import FLOW, HOST, TITLES, UNIT, RunningProcess, clusters_of
from kedge.review.reading import Value, comes_later
from kedge.review.unit_limits import check_limits, limit_name, limit_size
from kedge.services.mirror.keys import holding
from kedge.services.mirror.topology import LATER, check_topology
from kedge.services.mirror.variables import MirrorFlow
from kedge.services.planning import make_plan
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.variables import RestWorkload
from kedge.services.streams.variables import StreamsApp

#: Rules that say where Kedge puts something, and who is who: nothing to hold today's values against.
_LAYOUT: Final = re.compile(
    r"\.(identity|listeners|cluster|logs?(\..*)?|logging|own|group|flow|offset|member|migration|policy|reporter|ready|state)$"
    r"|^(rest|streams)\.(jmx|metrics|log.*|options|schema_registry)$|^rollout\.|^streams\.standbys$"
)
_STAND_IN: Final = re.compile(rf"\b({HOST}|{FLOW})\b", re.IGNORECASE)
#: Keys of MirrorMaker 2 in dedicated mode, which connectors and their operators leave to Connect.
_DEDICATED: Final = re.compile(r"dedicated\.mode\.|listeners$|(offset|status|config)\.storage\.")
#: Findings of keys, whatever their values are.
_KEYS: Final = ("rest.keys", "keys.unknown", "clients.refused")
#: Findings of what surrounds a process, which a review does not see: how gates reach its cluster.
_BEYOND: Final = ("client.mechanism",)
#: Of its host: a limit of its own is held against it in kedge/review/unit_limits.py.
_OF_HOST: Final = ("host.memory", "streams.memory.room")
#: Findings of what it is, that the plan without its values has as well.
_OF_ITSELF: Final = ("mirror.consumer.offset", "mirror.version", "streams.state", "streams.version")
_NEUTRAL: Final = 10
#: Of a key that an application may have for itself: as like another as a slip of the pen makes it.
_LIKE: Final = 0.9
#: Keys that name what reads more keys.
_PLUGINS: Final = ("kafka.rest.resource.extension.class", "rest.servlet.initializor.classes")


@dataclass(frozen=True, slots=True)
class ReviewedKey:
    """One key: today's value beside the documented and the planned one; None where there is none.

    ``because``, ``rule``, ``basis`` and ``source`` are those of the planned value; ``needs`` are the options
    without which it is made from an assumption.
    """

    file: str
    key: str
    today: str | None
    place: str
    documented: str | None
    planned: str | None
    rule: str
    because: str
    basis: Basis
    source: str
    needs: tuple[str, ...] = ()
    #: What holds if it is not set.
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A number that was not given: the option, what it is, and the keys that it decides."""

    option: str
    what: str
    decides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a review says of one process."""

    title: str
    where: str
    version: str
    version_why: str
    findings: tuple[Finding, ...]
    rows: tuple[ReviewedKey, ...]
    asks: tuple[Ask, ...]
    instances: int = 1
    #: What was looked at, and what was not there to be looked at.
    looked: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    #: Whether one process carries the workload, so that the values are those of one.
    alone: bool = True
    #: An earlier process, and how many of its findings of a severity this one has as well.
    repeated: tuple[tuple[str, Severity, int], ...] = ()


def judge(
    process: RunningProcess, machine: ReviewedMachine, asked: frozenset[str] = frozenset()
) -> Judgement:
    """Return what there is to say of a process; ``asked`` are the options that a person gave."""
    if process.cores and "--cores" not in asked:
        machine, asked = replace(machine, cores=process.cores), asked | {"--cores"}
    shared = any(SHARE.search(value.text) for value in process.environment.values())
    if shared and (limit := memory_limit(process)) and "--memory-mib" not in asked:
        machine, asked = replace(machine, memory_mib=limit), asked | {"--memory-mib"}
    version, why = versions_of(process)
    own = own_values(process)
    plans = _Plans(process, version, machine, memory_known="--memory-mib" in asked)
    planned, documented = plans.without("measured"), plans.without("documented")
    # Of a configuration that was not given nobody knows what it sets.
    asks = () if process.lacks else tuple(_asks(process, version, machine, asked, planned))
    unset = unset_values(process, version, {key: value.text for key, value in own.items()})
    rows = tuple(row for row in _rows(process, own, planned, documented, asks, unset)
                 if row.today is not None or not process.lacks)  # fmt: skip
    plugged = any(key in own for key in _PLUGINS)
    found = [_unread(f, process, plugged=plugged) for f in [*_findings(plans, own), *_shown(own)]]
    found = [_of_image(_commented(f, own), process) for f in found]
    # Nobody knows which defaults hold: of a configuration elsewhere, or of one that an application completes.
    if process.lacks or (process.kind == "streams" and "application.id" not in process.values):
        said = {*own, *started_with(process)}
        found = [f for f in found if f.subject is None or not f.subject.keys or _keys_of(f, said)]
    limits = _settings(planned, process.kind)
    least = plans.least_heap_mib(own) if memory_limit(process) else 0
    found += check_limits(process, limits, least_heap=least)
    found += [*_missing(process), *check_connections(process)]
    if process.kind == "mm2" and not process.lacks:
        texts = {key: value.text for key, value in process.values.items() if not comes_later(value.text)}
        # What is put in later is there, and nothing more is known of it; a template's names are names.
        names = clusters_of(process)
        if "clusters" not in texts and all(f"{name}.bootstrap.servers" in process.values for name in names):
            texts |= {"clusters": ", ".join(names)} if names else {}
        if "clusters" in texts or "clusters" not in process.values:
            found += check_topology({key: texts.get(key, LATER) for key in process.values})
    placed = [_placed(process, own, f) for f in _ordered(found)]
    # One line, and one thing to do about it, are one finding.
    placed = list({(f.where, f.fix or f.message): f for f in reversed(placed)}.values())[::-1]
    return Judgement(
        _title(process),
        process.where,
        version,
        why,
        tuple(_ordered([*on_command_lines(process), *process.findings, *check_ports(process), *placed])),
        rows,
        asks,
        plans.processes if machine.workload else 1,
        *_seen(process),
        alone=plans.alone_carries,
    )


def _seen(process: RunningProcess) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which sides of a process the files show, and which they do not."""
    sides = {
        "its keys, their values and pairs of them": {**process.values, **process.producer},
        "flags of its JVM": [
            key for key in (*process.environment, *started_with(process)) if key.endswith(("OPTS", "OPTIONS"))
        ],
        "limits of its unit or container": process.unit,
    }
    return tuple(side for side, there in sides.items() if there), tuple(
        side for side, there in sides.items() if not there
    )


def _missing(process: RunningProcess) -> Iterator[Finding]:
    """Yield what the process does not start without, where the file is there that would have it."""
    named, brokers, proxy = process.values, "bootstrap.servers", DISTRIBUTIONS.get(process.kind)
    if process.lacking:
        needs: list[str] = []
    elif proxy and proxy.clients and not proxy.keys.prefix and named and brokers not in named:
        old = "zookeeper.connect" in named and numbers(versions_of(process)[0]) < (8,)
        needs = [] if old else [brokers]
        if old and process.version == NEWEST:
            what = f"zookeeper.connect alone is read up to 7.9, and {NEWEST} is newer: it does not start"
            write, keys = (
                f"write {brokers}, with two or more brokers",
                Subject(keys=("zookeeper.connect",), named=(brokers,)),
            )
            yield Finding("warning", "review.missing", process.where, what, write, keys)
    elif process.kind == "classic":
        files = (named if "zookeeper.connect" not in named else {}, process.producer)
        needs = [brokers] if any(file and brokers not in file for file in files) else []
        needs = needs if "metadata.broker.list" not in process.producer else []
    else:
        needs = []
    brokers = f"{proxy.keys.prefix if proxy else ''}{brokers}"
    clients = process.kind in ("classic", "consumer", "producer", "streams")
    for file, of in ((named, ""), (process.producer, ".producer_settings")) if proxy or clients else ():
        if brokers in file and not file[brokers].text.strip():
            what, fix = f"{brokers} is empty: it does not start", f"write {brokers}, with two or more brokers"
            yield Finding("error", "review.missing", process.where, what, fix, Subject(of, (brokers,)))
    for key in needs:
        yield Finding(
            "error",
            "review.missing",
            process.where,
            f"{key} is not set: it does not start",
            f"write {key}, with two or more brokers",
            Subject(keys=(key,)),
        )


def _unread(finding: Finding, process: RunningProcess, *, plugged: bool) -> Finding:
    """Return a finding of a key that a plugin, or the application itself, may read as no more than a note."""
    of = finding.subject
    if finding.rule not in _KEYS or of is None:
        return finding
    if of.keys[0].startswith("zookeeper.") and process.kind in ("classic", "consumer"):
        alone = of.keys[0] == "zookeeper.connect" and "bootstrap.servers" not in process.values
        fix = f"write bootstrap.servers in place of {of.keys[0]}" if alone else f"take {of.keys[0]} out"
        return replace(finding, fix=f"{fix}: it is the old consumer's")
    similar = SequenceMatcher(None, of.keys[0], of.meant).ratio() >= _LIKE
    if of.known or similar or (of.meant and one_slip(of.keys[0], of.meant)):
        return finding
    other = "its plugin reads it" if plugged else ""
    if process.kind in ("streams", "consumer", "producer"):
        other = "the application reads it"
    if not other:
        return finding
    return replace(finding, severity="note", message=f"{finding.message}, unless {other}", fix="")


def _commented(finding: Finding, own: Mapping[str, Value]) -> Finding:
    """Say of a value with a comment behind it that the comment is a part of the value."""
    if not finding.what:
        return finding
    fix = "write the comment on a line of its own: behind a value it is a part of it"
    commented = any(re.search(r"\s#", own[key].text) for key in _keys_of(finding, own))
    return replace(finding, fix=fix) if commented else finding


def _of_image(finding: Finding, process: RunningProcess) -> Finding:
    """Return a finding of a variable that no start script reads, with the one of an image that is meant."""
    of = finding.subject
    if not (process.variables and of and of.keys and finding.rule == "rest.keys" and of.keys[0].isupper()):
        return finding
    near = meant_for_image(of.keys[0], partial(_is_key, process))
    return replace(finding, fix=f"did you mean {near}?") if near else finding


def _title(process: RunningProcess) -> str:
    flow = f", {process.flow[0]} to {process.flow[1]}" if process.kind == "mm2" else ""
    # Who has other words for its keys runs it as connectors.
    connect = process.kind == "mm2" and process.words
    return f"{'MirrorMaker 2 on Connect' if connect else TITLES[process.kind]}{flow}"


def without_secrets_of(judgement: Judgement, known: Known) -> Judgement:
    """Return a review that shows no secret, wherever else it stands than under its own key."""
    rows = tuple(replace(r, today=known.masked(r.today)) if r.today else r for r in judgement.rows)
    found = tuple(f.rewritten(known.masked) for f in judgement.findings)
    return replace(judgement, rows=rows, findings=found)


@dataclass(frozen=True)
class _Plans:
    """The plans of a process, with its values and without them."""

    process: RunningProcess
    version: str
    machine: ReviewedMachine
    memory_known: bool

    def without(self, advice: Advice) -> Plan:
        """Return the plan of its workload on its machine, as if nothing ran there."""
        if advice == "measured":
            return self._alone if self.alone_carries else self._whole
        return self._of_nothing(advice, 1 if self.alone_carries else None)

    @cached_property
    def alone_carries(self) -> bool:
        """Whether one process carries the workload."""
        return not self._alone.has_errors

    @cached_property
    def _alone(self) -> Plan:
        return self._of_nothing("measured", 1)

    @cached_property
    def _whole(self) -> Plan:
        return self._of_nothing("measured", None)

    @cached_property
    def processes(self) -> int:
        """How many processes the plan would have for the workload on the machine."""
        return max(1, len(_instances(self._whole)))

    def _of_nothing(self, advice: Advice, processes: int | None) -> Plan:
        planned = inventory_of(self.process, self.version, {}, self.machine, alone=False, processes=processes)
        return make_plan(planned, advice)

    def with_values(self, own: Mapping[str, str]) -> Plan:
        """Return the plan of the one process with these values of its own."""
        return make_plan(inventory_of(self.process, self.version, own, self.machine, alone=True))

    def least_heap_mib(self, own: Mapping[str, Value]) -> int:
        """Return the smallest heap with which the process, with its other values, has no finding of it."""
        jvm = DISTRIBUTIONS[self.process.kind].jvm if self.process.kind in DISTRIBUTIONS else None
        if jvm is None:
            return 0
        said = {key: _masked(key, value.text) for key, value in own.items() if key not in self.process.unit}
        told = {key: text for key, text in said.items() if not comes_later(text)}
        told[jvm.heap] = "-Xmx1m"
        found = self.with_values(told).findings
        # What nothing would start with ends a plan before it comes to the heap.
        if refused := {key for f in found if f.what for key in _keys_of(f, own)}:
            found = self.with_values({key: text for key, text in told.items() if key not in refused}).findings
        heaps = (maximum_heap_mib(f.subject.value) for f in found if f.subject and jvm.heap in f.subject.keys)
        return max((mib for mib in heaps if mib), default=0)


def _findings(plans: _Plans, own: Mapping[str, Value]) -> Iterator[Finding]:
    """Yield the findings that today's values raise; of one that is put in later, those of its key alone."""
    said = {key: _masked(key, value.text) for key, value in own.items() if key not in plans.process.unit}
    # A share of a memory that nobody knows is no number.
    open_ = {key for key, text in said.items() if SHARE.search(text) and not plans.memory_known}
    told = {key: text for key, text in said.items() if not comes_later(text) and key not in open_}
    nothing = plans.with_values({})
    # What a person writes is theirs, also where it is the default; so is what his start script takes.
    theirs = {*own, *started_with(plans.process)}
    before = {_told(f) for f in nothing.findings if f.rule not in _OF_ITSELF and not _keys_of(f, theirs)}

    def raised() -> list[Finding]:
        made = plans.with_values(told).findings
        beyond = (*_BEYOND, *(_OF_HOST if memory_limit(plans.process) else ()))
        return [f for f in made if _told(f) not in before and f.rule not in beyond]

    found = raised()
    # A value that nothing would start with ends a plan before it has looked at the others.
    wrong = [f for f in found if f.what]
    if refused := {key for f in wrong for key in _keys_of(f, own)} & told.keys():
        told = {key: text for key, text in told.items() if key not in refused}
        found = raised()
    yield from found
    unread: list[Finding] = []
    if len(told) < len(said):
        later = plans.with_values(dict.fromkeys(said.keys() - told.keys(), "${later:value}"))
        unread = [f for f in later.findings if f.rule in _KEYS and _told(f) not in before]
    yield from unread
    # What is wrong with the value of a key that nothing reads does no harm.
    idle = {key for f in unread for key in _keys_of(f, own)} & refused
    yield from (f for f in wrong if not idle & set(_keys_of(f, own)))


def _told(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.message


def _masked(key: str, text: str) -> str:
    """Return a value that a plan may hold: one as long as a password where it is one."""
    return "*" * _NEUTRAL if (shown := shown_value(key, text)) == "***" else shown


def _shown(own: Mapping[str, Value]) -> Iterator[Finding]:
    for key, value in own.items():
        if on_command_line(key) and holds_secret(value.text):
            yield Finding(
                "error",
                "secret.shown",
                key,
                f"a secret stands in {key}, and so in the list of processes, which everybody may read",
                "put it into a file that only the process's user may read",
                Subject(keys=(key,)),
            )


def on_command_lines(process: RunningProcess) -> Iterator[Finding]:
    """Yield a secret of a command line: a system property or an option, whoever starts the process."""
    for command in process.commands:
        if holds_secret(command.text):
            yield Finding(
                "error",
                "secret.shown",
                command.place,
                "a secret stands on its command line, so in the list of processes, which everybody may read",
                "put it into a file that only the process's user may read, and name that",
            )


def _ordered(found: Sequence[Finding]) -> list[Finding]:
    once = {(f.rule, f.message): f for f in found}
    return [f for severity in ("error", "warning", "note") for f in once.values() if f.severity == severity]


def _placed(process: RunningProcess, own: Mapping[str, Value], finding: Finding) -> Finding:
    """Return a finding at the place of the key that it is about, by the name that its person has for it."""
    if finding.subject is None:
        return replace(finding, where=process.where)
    about = next(iter(_keys_of(finding, own)), None)
    name = finding.subject.keys[0] if finding.subject.keys else FileReader().name(finding.subject.variable)
    named = renamed(finding, name)
    placed = replace(named, where=own[about].place if about is not None else process.where)
    of = finding.subject
    words = {key: _worded(process, key) for key in (*of.keys, of.meant, *of.named) if key}
    own_words = {key: _as_variable(process, key) or word for key, word in words.items()}
    message, fix = with_names(placed.message, words), with_names(placed.fix, own_words)
    subject = replace(finding.subject, keys=tuple(_named(process, key) for key in finding.subject.keys))
    return replace(placed, message=message, fix=fix, subject=subject)


def _as_variable(process: RunningProcess, key: str) -> str:
    """Return the variable of an image that sets a key; empty where its person has no such variables."""
    return variable_of(process.variables, key) if process.variables and _is_key(process, key) else ""


def _is_key(process: RunningProcess, key: str) -> bool:
    """Return whether a REST proxy, or a client inside it, has a key."""
    of_client = key.startswith(("admin.", "client.", "consumer.", "producer."))
    return of_client or any(key in every_key(one) for one in DISTRIBUTIONS[process.kind].keys.components)


def _worded(process: RunningProcess, key: str) -> str:
    """Return the name that the files of a process have for a key, by what it begins with."""
    words = dict(reversed(process.words))
    begins = (one for one in words if key == one or (key.startswith(one) and key[len(one)].isalnum()))
    begin = max(begins, key=len, default="")
    return f"{words.get(begin, '')}{key.removeprefix(begin)}"


def _keys_of(finding: Finding, own: Container[str]) -> list[str]:
    """Return the keys of a person that a finding is about; those of a mirror's producer are marked."""
    of = finding.subject or Subject()
    marked = [f"{PRODUCER}{key}" for key in of.keys] if of.variable.endswith(".producer_settings") else []
    return [key for key in (*marked, *of.keys) if key in own]


def _instances(plan: Plan) -> list[Any]:
    names = dict.fromkeys(service.name for service in SERVICE_OF.values())
    return [one for name in names for one in plan.services.get(HOST, {}).get(name, ())]


def _settings(plan: Plan, kind: str) -> dict[str, Setting]:
    """Return the settings of the first instance, by the names that today's values have."""
    found = {}
    settings = _instances(plan)[0].settings if _instances(plan) else ()
    if kind in ("consumer", "producer"):
        settings = tuple(s for s in plan.clients.get("today", ()) if kind in s.file)
    for s in settings:
        producer = kind == "classic" and s.file.endswith("producer.properties")
        found[f"{PRODUCER}{s.key}" if producer else s.key] = s
    return found


def _rows(
    process: RunningProcess,
    own: Mapping[str, Value],
    planned: Plan,
    documented: Plan,
    asks: Sequence[Ask],
    unset: Mapping[str, str],
) -> Iterator[ReviewedKey]:
    here, there = _settings(planned, process.kind), _settings(documented, process.kind)
    for key in dict.fromkeys([*here, *there]):
        s = here.get(key) or there[key]
        value = own.get(_held(process, key))
        if value and key.endswith("replication.factor") and value.text.strip() == _LEFT_TO_BROKERS:
            continue
        if _LAYOUT.search(s.rule) or s.copied or s.hidden:
            continue
        if process.words and value is None and _DEDICATED.match(key):
            continue
        if key in UNIT and process.limits and not process.limits.of(key):
            continue

        def sized(text: str | None, key: str = key) -> str | None:
            return limit_size(process, text) if text and key == "MemoryMax" else text

        today = shown_value(key, value.text) if value else None
        yield ReviewedKey(
            s.file.rpartition("/")[2],
            _named(process, key),
            sized(today),
            value.place if value else "",
            sized(_without_stand_ins(there[key].value, today) if has_document(there.get(key)) else None),
            sized(_without_stand_ins(here[key].value, today) if key in here else None),
            s.rule,
            s.because,
            s.basis,
            s.source,
            tuple(ask.option for ask in asks if set(_pair(_named(process, key))) & set(ask.decides)),
            unset.get(bare := key.removeprefix(PRODUCER), unset.get(f"{process.flow[1]}.{bare}")),
        )


def has_document(setting: Setting | None) -> TypeGuard[Setting]:
    """Return whether a document has the value of a plan by documents, in which others are estimates."""
    return setting is not None and setting.basis == "documented"


#: A number of replicas that leaves it to the brokers.
_LEFT_TO_BROKERS: Final = "-1"


def _without_stand_ins(planned: str, today: str | None) -> str:
    """Return a planned value without the names that stand in for a host, and for what runs on it.

    What a person has instead of such a name is as good.
    """
    words = planned.split()
    if not any(map(_STAND_IN.search, words)):
        return planned
    if len(words) == 1:
        return (
            re.sub(_STAND_IN, "HOST", planned.replace(f"{FLOW}-{HOST}", "NAME-HOST"))
            if today is None
            else today
        )
    kept = []
    for word in words:
        option = re.split(r"[:=]", word)[0]
        own = [one for one in (today or "").split() if re.split(r"[:=]", one)[0] == option]
        kept += own if _STAND_IN.search(word) else [word]
    return " ".join(kept)


def _asks(
    process: RunningProcess, version: str, machine: ReviewedMachine, asked: frozenset[str], planned: Plan
) -> Iterator[Ask]:
    """Yield what was not given, each with the keys whose planned value it changes."""
    as_it_is = _settings(planned, process.kind)

    @cache
    def settings(**workload: Any) -> dict[str, Setting]:
        return on(replace(machine, workload={**(machine.workload or {}), **workload}))

    def on(other: ReviewedMachine) -> dict[str, Setting]:
        return _settings(make_plan(inventory_of(process, version, {}, other, alone=False)), process.kind)

    wide, large = replace(machine, cores=64), replace(machine, memory_mib=262_144)
    alternatives = [("--cores", "cores of the host", as_it_is, partial(on, wide))]
    alternatives += [("--memory-mib", "memory of the host, in MiB", as_it_is, partial(on, large))]
    if process.kind == "streams":
        store = {"name": "one", "kind": "key_value", "partitions": 2000, "keys": 10**9, "record_bytes": 1000}
        what = "the stores of the application, each with its partitions"
        stored = replace(machine, workload={**(machine.workload or {}), "stores": [store]})
        alternatives.append(("streams_app_stores of an inventory", what, as_it_is, partial(on, stored)))
    for number, what, value in _other_values(process.kind):
        # Some numbers say nothing without another one.
        beside = {name: one for name, one in value.items() if name != number}
        before = settings(**beside) if beside else as_it_is
        alternatives.append((f"--workload {number}=", what, before, partial(settings, **value)))
    for option, what, before, after in alternatives:
        if option.rstrip("=") not in asked and (decides := _differing(before, after())):
            named = [_named(process, key) for key in decides
                     if not (key in UNIT and process.limits and not process.limits.of(key))]  # fmt: skip
            yield Ask(option, what, tuple(named))


def _named(process: RunningProcess, key: str) -> str:
    """Return what the files of a process call a key, or a limit."""
    if key in UNIT:
        return limit_name(process, key)
    return FileReader().name(_worded(process, _held(process, key).removeprefix(PRODUCER)))


def _held(process: RunningProcess, key: str) -> str:
    """Return the key of a process's file that holds where the plan has ``key``."""
    return holding(key, process.values, *process.flow) if process.kind == "mm2" else key


#: Keys that say something together alone: the first rests on the time that the second gives.
PAIRS: Final[Mapping[str, str]] = {
    "fetch.min.bytes": "consumer.request.timeout.ms",
    "consumer.fetch.min.bytes": "consumer.fetch.max.wait.ms",
}


def _pair(key: str) -> tuple[str, ...]:
    return (key, PAIRS[key]) if key in PAIRS else (key,)


def _differing(before: Mapping[str, Setting], after: Mapping[str, Setting]) -> tuple[str, ...]:
    """Return the keys whose values differ between two plans; none where one of them has errors alone."""
    both = {**before, **after}
    if not before or not after:
        return ()
    value = {key: [of[key].value if key in of else None for of in (before, after)] for key in both}
    keys = [key for key, (one, other) in value.items() if one != other and not _LAYOUT.search(both[key].rule)]
    return tuple(dict.fromkeys(key.removeprefix(PRODUCER) for key in keys))


@cache
def model_of(kind: str) -> type[Strict]:
    """Return the model of what a process of this kind has to carry."""
    if kind in ("classic", "mm2", "consumer", "producer"):
        return MirrorFlow
    return StreamsApp if kind == "streams" else RestWorkload


@cache
def _asked(model: type[Strict]) -> tuple[tuple[str, FieldInfo, Asked], ...]:
    """Return the numbers that a person may say of a workload, each with how a review tries it."""
    return tuple(
        (name, field, mark)
        for name, field in model.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Asked)
    )


def numbers_of(model: type[Strict]) -> list[str]:
    """Return the numbers that a person may say of a workload."""
    return [name for name, _, _ in _asked(model)]


def _other_values(kind: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each number of the workload with what it is, and another value than its default."""
    for name, field, mark in _asked(model_of(kind)):
        default = field.default if isinstance(field.default, int | float) else None
        other = mark.other or (int(default * _NEUTRAL) if default else 100)
        yield name, (field.description or name).rstrip("."), {name: other, **mark.beside}
