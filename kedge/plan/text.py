"""The plan as a person reads it: every setting with its reason, the findings, what two plans differ in."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from kedge.evidence.release import VERSION
from kedge.plan.compact_names import compact, fold
from kedge.plan.findings import Finding
from kedge.plan.jvm_flags import maximum_heap_mib
from kedge.plan.plan import Plan, PlannedInstance
from kedge.plan.settings import Basis, Setting
from kedge.plan.settings import apart as differences
from kedge.plan.sources import Source, cited, keys, parts

_COLUMNS: Final = 100
_COMPARED: Final = 4
#: Batches of a rollout that are shown unless all is asked for.
_BATCHES: Final = 8
_SEVERITIES: Final = ("error", "warning", "note")


def brief(plan: Plan) -> str:
    """Return the plan on a screen: errors and warnings, then what is planned, a line each, without settings.

    With errors, what :func:`text` returns.
    """
    if plan.has_errors:
        return text(plan)
    severe = tuple(f for f in plan.findings if f.severity != "note")
    lines = [*list(findings(severe))[:-1], _counts(plan.findings), ""]
    for service in dict.fromkeys(name for of_host in plan.services.values() for name in of_host):
        of = {host: services[service] for host, services in plan.services.items() if service in services}
        settings = [s for instances in of.values() for instance in instances for s in instance.settings]
        restarts = plan.restart_batches.get(service)
        lines += _line(
            service,
            fold(of),
            "; ".join([_count(sum(map(len, of.values())), "instance", "instances"), *_memory(settings)]),
            settings,
            f"restarts in {_count(len(restarts.batches), 'batch', 'batches')}" if restarts else "",
        )
    for cluster, topics in plan.topics.items():
        lines += _line("topics", f"of {cluster}", fold(topics), [s for of in topics.values() for s in of])
    if plan.clients:
        lines += _line("clients", "", fold(plan.clients), [s for of in plan.clients.values() for s in of])
    return "\n".join(
        [
            *lines,
            "",
            "notes, and each setting with its reason: --all, or --host HOST (plan.yml: -v)",
            "one setting: kedge explain KEY -i INVENTORY",
            f"planned by Kedge {VERSION}",
        ]
    )


def _memory(settings: Collection[Setting]) -> Iterator[str]:
    """Yield the heap and the memory limit of each instance, as a range where they differ."""
    heaps = [maximum_heap_mib(s.value) for s in settings if s.key.endswith(("HEAP_OPTS", "JAVA_OPTS"))]
    limits = [int(s.value[:-1]) for s in settings if s.key == "MemoryMax" and s.value[:-1].isdigit()]
    for what, found in (("heap", [mib for mib in heaps if mib]), ("memory limit", limits)):
        if found:
            least, most = f"{min(found):,}", f"{max(found):,}"
            each = " each" if len(found) > 1 else ""
            yield f"{what} {least if least == most else f'{least} to {most}'} MiB{each}"


def _line(name: str, where: str, what: str, settings: Collection[Setting], more: str = "") -> list[str]:
    yours = sum(s.by == "person" for s in settings)
    count = f"{len(settings):,} settings" + (f", {yours:,} of them yours" if yours else "")
    return wrapped(f"{name} {where}".rstrip() + f": {'; '.join(filter(None, (what, count, more)))}", 0)


def _count(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"


def of_hosts(plan: Plan, hosts: Collection[str]) -> Plan:
    """Return the plan of some hosts alone; the findings stay, for many are about more than a host."""
    return replace(
        plan,
        services={host: services for host, services in plan.services.items() if host in hosts},
        topics={},
        clients={},
        rollouts={host: of for host, of in plan.rollouts.items() if host in hosts},
        restart_batches={},
    )


def text(plan: Plan, *, full: bool = False) -> str:
    """Return the plan: per host, instance and file each setting above its reason, then the findings.

    With errors, and unless ``full``, only those are returned, so that they stand out, and what nothing reads:
    a misspelt variable is often why another one is missing.
    Unless ``full``, an instance that is like an earlier one of its service but for its name is said to be so.
    With it, the titles and addresses of all sources stand before the findings.
    """
    if plan.has_errors and not full:
        errors = tuple(f for f in plan.findings if f.severity == "error" or f.unread)
        left_out = "only errors and unread keys are shown; --full shows the whole plan (plan.yml: -v)"
        counts = _counts(plan.findings)
        return "\n".join([*list(findings(errors))[:-1], counts, left_out])
    lines: list[str] = []
    shown: dict[tuple[str, str], list[tuple[str, PlannedInstance]]] = {}
    for host, services in plan.services.items():
        for service, instances in services.items():
            same: dict[str, list[str]] = {}  # title of the instance that they are like -> names
            for instance in instances:
                before = shown.setdefault((service, instance.name.rstrip("0123456789")), [])
                other, apart = ("", None) if full else _nearest(host, service, instance, before)
                title = f"{host}  {service}@{instance.name}"
                if apart is None:
                    before.append((host, instance))
                    lines += ["", title, *_settings(instance.settings)]
                elif apart:
                    lines += ["", f"{title}  as {other}, but for", *_settings(apart)]
                else:
                    same.setdefault(other, []).append(instance.name)
            for other, names in same.items():
                lines += ["", f"{host}  {service}@{fold(names)}  as {other}"]
    for cluster, topics in plan.topics.items():
        for topic, settings in topics.items():
            lines += ["", f"topic {topic} on {cluster}", *_settings(settings)]
    for client, settings in plan.clients.items():
        lines += ["", f"client {client}", *_settings(settings)]
    lines += _rollouts(plan)
    lines += [line for service in plan.restart_batches for line in _batches(plan, service, full=full)]
    if full:
        lines += ["", *_sources(plan)]
    lines += ["", f"planned by Kedge {VERSION}"]
    return "\n".join([*lines, "", *findings(plan.findings)]).lstrip("\n")


def _rollouts(plan: Plan) -> list[str]:
    """Return what the rollouts of each service wait for, once for all its hosts where it is the same."""
    hosts: dict[tuple[str, tuple[Setting, ...]], list[str]] = {}
    for host, of_host in plan.rollouts.items():
        for service, settings in of_host.items():
            hosts.setdefault((service, settings), []).append(host)
    return [
        line
        for (service, settings), same in hosts.items()
        for line in ("", f"{fold(same)}  a rollout of {service}", *_settings(settings))
    ]


def resting_on(plan: Plan, wanted: Collection[Basis]) -> str:
    """Return the settings that rest on one of these, each once with its places and reason; then how many."""
    places: dict[tuple[str, Setting], list[str]] = {}
    every = list(plan.settings())
    for where, s in every:
        if s.basis in wanted:
            name = f"{s.file.rpartition('/')[2]}  {s.key}={'***' if s.hidden else s.value}".lstrip()
            # Files of different instances are the same setting; all that is printed tells them apart.
            places.setdefault((name, replace(s, file="", value="")), []).append(where)
    lines: list[str] = []
    for (name, s), wheres in places.items():
        lines += [compact(wheres), f"    {name}", *wrapped(_reason(s), 8)]
    for basis in wanted:
        count = sum(s.basis == basis for _, s in every)
        lines.append(f"{basis}: {count} of {len(every)} settings, {count / max(1, len(every)):.1%}")
    return "\n".join(lines)


def _sources(plan: Plan) -> Iterator[str]:
    """Yield title and address of every source that the plan cites, after the words that cite it."""
    every = {s.source for _, s in plan.settings()}
    words: dict[str, set[str]] = {}
    for part in {part for source in every for part in parts(source)}:
        for key in keys(part):
            words.setdefault(key, set()).add(part)
    yield "sources"
    for key, source in cited(every).items():
        yield f"  {'; '.join(_names(source, words[key]))}  ({key})"
        yield from wrapped("; ".join(filter(None, (source.title, source.by, source.version))), 8)
        yield f"        {source.address}"


def _names(source: Source, words: Collection[str]) -> list[str]:
    """Return the names by which words of a plan call a source, without their sections."""
    called = [a for a in source.aliases if any(w == a or w.startswith(f"{a}, ") for w in words)]
    return called or sorted(words)


def _batches(plan: Plan, service: str, *, full: bool) -> Iterator[str]:
    """Yield how many instances of a service restart at once and why, and which hosts go together."""
    found = plan.restart_batches[service]
    yield from ("", f"{service}  in a rollout, an instance of each host of a batch at a time")
    yield from _settings(found.settings)
    for host, number in found.ahead.items():
        names = fold(instance.name for instance in plan.services[host][service][:number])
        yield f"    first   {host}: {names}, before all others"
    shown = len(found.batches) if full else _BATCHES
    for place, hosts in enumerate(found.batches[:shown], 1):
        of_hosts = {tuple(i.name for i in _behind(plan, service, host)) for host in hosts}
        alike = next(iter(of_hosts)) if len(of_hosts) == 1 else ()
        each = (
            f"{fold(alike)} one after the other" if len(alike) > 1 else fold(alike) or "one after the other"
        )
        yield f"    batch {place}  {fold(hosts)}: {each}"
    if (more := len(found.batches) - shown) > 0:
        yield f"    {more} more batches; --full shows all of them (plan.yml: -v)"


def _behind(plan: Plan, service: str, host: str) -> tuple[PlannedInstance, ...]:
    """Return the instances of a host that restart after those that go first."""
    return plan.services[host][service][plan.restart_batches[service].ahead.get(host, 0) :]


def _nearest(
    host: str, service: str, instance: PlannedInstance, before: list[tuple[str, PlannedInstance]]
) -> tuple[str, tuple[Setting, ...] | None]:
    """Return which of the first few that were shown an instance is most like, and in what they differ."""
    found: tuple[str, tuple[Setting, ...] | None] = ("", None)
    for like_host, like in before[:_COMPARED]:
        apart = _apart(host, instance, like_host, like)
        if apart is not None and (found[1] is None or len(apart) < len(found[1])):
            found = (f"{like_host} {service}@{like.name}", apart)
    return found


def _apart(
    host: str, instance: PlannedInstance, like_host: str, like: PlannedInstance
) -> tuple[Setting, ...] | None:
    """Return the settings in which an instance differs from another beyond its names; None where most do."""
    theirs = {_named(s, like_host, like) for s in like.settings}
    mine = [(s, _named(s, host, instance)) for s in instance.settings]
    apart = tuple(s for s, named in mine if named not in theirs)
    missing = {named[:2] for named in theirs} - {named[:2] for _, named in mine}
    return None if missing or len(apart) > len(mine) // 2 else apart


def _named(s: Setting, host: str, instance: PlannedInstance) -> tuple[str, str, str]:
    return _impersonal(s.file, host, instance.name), s.key, _impersonal(s.value, host, instance.name)


def _printed(s: Setting | None, host: str, instance: str) -> str | None:
    if s is None:
        return None
    return "***" if s.hidden else _impersonal(s.value, host, instance)


def _impersonal(value: str, host: str, instance: str) -> str:
    """Return a value with HOST and INSTANCE where it has the names of its own place."""
    for name, stands_for in ((host, "HOST"), (instance, "INSTANCE")):
        if name in value:
            value = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", stands_for, value)
    return value


def findings(found: tuple[Finding, ...]) -> Iterator[str]:
    """Return the findings as lines, the severe ones first, and their number last."""
    for severity in _SEVERITIES:
        for f in found:
            if f.severity == severity:
                yield f"{severity}: {f.where} ({f.rule})"
                # Some variables are words, and no sentence may spell them otherwise.
                yield from wrapped(_sentence(f.message, capital=f.rule != "inventory.variable"), 4)
                if f.fix:
                    yield from wrapped(f"Fix: {_sentence(f.fix, capital=False)}", 4)
    yield _counts(found)


def _counts(found: Collection[Finding]) -> str:
    return ", ".join(_count(sum(f.severity == s for f in found), s, f"{s}s") for s in _SEVERITIES)


def difference(plan: Plan, other: Plan, name: str, other_name: str) -> str:
    """Return the settings in which two plans differ, each once for all its places."""
    places: dict[tuple[str, str, str, str], list[str]] = {}
    mine, theirs = _flat(plan), _flat(other)
    of_mine, of_theirs = {where for where, _, _ in mine}, {where for where, _, _ in theirs}
    for where, file, key in dict.fromkeys([*mine, *theirs]):
        if where not in of_mine or where not in of_theirs:
            continue  # the whole instance is in one of the plans only
        a, b = mine.get((where, file, key)), theirs.get((where, file, key))
        if (a.value if a else None) != (b.value if b else None):
            said = _differently(*(_printed(one, where.host, where.name) for one in (a, b)))
            places.setdefault((file.rpartition("/")[2], key, *said), []).append(str(where))
    lines = []
    for (file, key, mine_says, other_says), wheres in places.items():
        lines += [compact(wheres), f"    {file}  {key}"]
        lines += wrapped(f"{name}: {mine_says}", 8) + wrapped(f"{other_name}: {other_says}", 8)
    alone = 0
    for label, only in ((name, of_mine - of_theirs), (other_name, of_theirs - of_mine)):
        if only:
            alone += len(only)
            ordered = (where for where, _, _ in [*mine, *theirs] if where in only)
            lines += [compact(map(str, ordered)), f"    only in the plan {label}"]
    if not lines:
        return f"{name} and {other_name} are the same plan"
    count = f"{len(places)} settings differ between {name} and {other_name}"
    return "\n".join([*lines, count + (f", and {alone} instances are in one of them only" if alone else "")])


def _differently(here: str | None, there: str | None) -> tuple[str, str]:
    """Return two values, of long lists of flags only what is not in both."""
    if here is None or there is None or len(here.split()) < 3:
        return ("(not set)" if here is None else here, "(not set)" if there is None else there)
    return differences(here, there)


class _At(NamedTuple):
    """A place of a plan that has settings: an instance of a host, or what else is planned."""

    host: str
    of: str
    name: str

    def __str__(self) -> str:
        return f"{self.host} {self.of}@{self.name}"


def _flat(plan: Plan) -> dict[tuple[_At, str, str], Setting]:
    places = [
        (_At(host, service, instance.name), instance.settings)
        for host, services in plan.services.items()
        for service, instances in services.items()
        for instance in instances
    ]
    places += [
        (_At(c, "topic", name), settings) for c, of in plan.topics.items() for name, settings in of.items()
    ]
    places += [(_At(h, "rollout", name), s) for h, of in plan.rollouts.items() for name, s in of.items()]
    places += [(_At("clients", "client", name), settings) for name, settings in plan.clients.items()]
    return {(where, s.file, s.key): s for where, settings in places for s in settings}


def _settings(settings: tuple[Setting, ...]) -> Iterator[str]:
    file = ""
    for (of, reason), same in groupby(settings, lambda s: (s.file, _reason(s))):
        if of != file:
            file = of
            yield f"  {file}"
        for s in same:
            mark = "   (yours)" if s.by == "person" else ""
            yield f"    {s.key}={'***' if s.hidden else s.value}{mark}"
        yield from wrapped(reason, 8)


def _reason(s: Setting) -> str:
    return f"{_sentence(s.because)} [{s.rule}; {s.basis}; {s.source}]"


def _sentence(words: str, *, capital: bool = True) -> str:
    first = words[:1].upper() if capital and words[:1].isalpha() and " " in words[:20] else words[:1]
    # A key or a flag at the beginning keeps its own spelling.
    if "." in words.split(" ", 1)[0] or "_" in words.split(" ", 1)[0] or words[:1] == "-":
        first = words[:1]
    return f"{first}{words[1:]}{'' if words.endswith(('.', '?', '!')) else '.'}"


def wrapped(words: str, indent: int) -> list[str]:
    """Return words as lines of a plan, indented; a word longer than a line stays whole."""
    pad = " " * indent
    return textwrap.wrap(
        words,
        _COLUMNS,
        initial_indent=pad,
        subsequent_indent=pad,
        break_long_words=False,
        break_on_hyphens=False,
    )
