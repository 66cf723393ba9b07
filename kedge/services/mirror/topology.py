"""The flows of a MirrorMaker 2's file together: what copies nothing, and what copies its own copies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Final

from kedge.evidence.nearest import nearest
from kedge.plan.findings import Finding, Subject
from kedge.plan.inventory.clusters import same_cluster

#: A value that is not known yet.
LATER: Final = "${later}"
_IDENTITY: Final = "IdentityReplicationPolicy"
#: Before .bootstrap.servers, what is a client's or a worker's and no cluster's name.
NO_CLUSTER: Final = ("source", "target", "consumer", "producer", "admin", "source.cluster", "target.cluster")

#: What nobody compiles; Python does not know all that Java has.
_OF_JAVA_TOO: Final = ("nothing to repeat", "multiple repeat", "missing )", "unbalanced", "unterminated char")
#: What is never done with an interval below 0, and the default.
_NEVER: Final = {
    "refresh.topics.interval.seconds": (
        "never looks for new topics and partitions, and copies only those that exist when it starts",
        "10 minutes",
    ),
    "sync.group.offsets.interval.seconds": ("never moves the offsets of a group", "a minute"),
    "emit.checkpoints.interval.seconds": ("never translates the offsets of a group", "a minute"),
}


def check_topology(values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is wrong with the flows that a file describes; ``values`` are all of its keys."""
    clusters = [name for name in re.split(r"[,\s]+", values.get("clusters", "")) if name]
    yield from _undeclared(values, clusters)
    yield from _unparted(values)
    flows = [(a, b) for a, b in permutations(clusters, 2) if _is(values, f"{a}->{b}.enabled", "true")]
    if not flows and LATER not in [values.get(f"{a}->{b}.enabled") for a, b in permutations(clusters, 2)]:
        some = next(iter(permutations(clusters, 2)), ("SOURCE", "TARGET"))
        keys = [key for key in values if "->" in key] or ["clusters"]
        fix = f"write {'->'.join(some)}.enabled = true"
        yield _error("no flow is enabled: it copies nothing", fix, keys[0])
    for source, target in flows:
        yield from _flow(values, source, target)
    for source, target in flows:
        if source < target and (target, source) in flows:
            yield from _circle(values, source, target)


def _unparted(values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield names of clusters that no comma parts, which are one name for MirrorMaker 2."""
    for alias in map(str.strip, values.get("clusters", "").split(",")):
        if len(alias.split()) > 1 and f"{alias}.bootstrap.servers" not in values:
            meant = ", ".join(name for name in re.split(r"[,\s]+", values["clusters"]) if name)
            what = f"clusters has no comma in {alias}: that is one name, and no flow of these is copied"
            yield _error(what, f"write clusters = {meant}", "clusters")


def _flow(values: Mapping[str, str], source: str, target: str) -> Iterator[Finding]:
    """Yield what keeps a flow from copying, or has it copy what it wrote itself."""
    name = f"{source}->{target}"
    brokers = [f"{end}.bootstrap.servers" for end in (source, target)]
    for key in brokers:
        if not values.get(key, "").strip():
            yield _error(f"{key} is not set: MirrorMaker 2 refuses to start", f"write {key}", key,
                         f"{name}.enabled")  # fmt: skip
    one, other = (values.get(key, "") for key in brokers)
    if one and other and LATER not in (one, other) and same_cluster(one, other):
        what = f"{source} and {target} have a broker in common, so they are one cluster: {name} copies"
        again = "each record over itself" if _identity(values, name) else "its own copies again and again"
        yield _error(f"{what} {again}", "name the brokers of another cluster", brokers[1], brokers[0])
    for kind, nothing in (("topics", "copies nothing"), ("groups", "translates no group")):
        key, wanted = _of(values, name, kind)
        left_key, left_out = _of(values, name, f"{kind}.exclude")
        if key and (not wanted or re.search(r"['\"]", wanted)):
            fix = "take the quotes out: they are a part of the pattern, and no name has them" if wanted else (
                f"write {key} = .*")  # fmt: skip
            yield _error(f"{key} is {wanted or 'empty'}: {name} {nothing}", fix, key)
        yield from _unparted_patterns(key, wanted, f"{name} {nothing}")
        yield from _unparted_patterns(left_key, left_out, f"{name} leaves none of these out")
        for one, patterns in ((key, wanted), (left_key, left_out)):
            yield from _patterns(one, patterns, f"{name} {nothing}")
        if ".*" in re.split(r"[,\s]+", left_out):
            report = _error if kind == "topics" else _warning
            what = f"{left_key} excludes everything: {name} {nothing}"
            yield report(what, f"take {left_key} out", left_key)
    for key, (never, default) in _NEVER.items():
        off, value = _of(values, name, key)
        enabled = _of(values, name, "refresh.topics.enabled")[1] != "false"
        if value == "0" and key.startswith("refresh.topics") and enabled:
            what = f"{off} is 0, and no period is: its connector fails, and {name} copies nothing"
            yield _error(what, f"take {off} out, for {default}", off)
        if value.startswith("-"):
            yield _warning(f"{off} is {value}: {name} {never}", f"take {off} out, for {default}", off)
    off, value = _of(values, name, "refresh.topics.enabled")
    if value == "false":
        what = f"{off} is false: {name} copies only the topics and partitions that exist when it starts"
        yield _warning(what, f"take {off} out", off)
    yield from _offsets(values, name)
    tasks, count = _of(values, name, "tasks.max")
    if not tasks or count == "1":
        yield _warning(
            f"tasks.max {'is 1' if tasks else 'is not set, and 1 by default'}: one task copies all of "
            f"{name}, whatever number of workers there is",
            f"set {tasks or 'tasks.max'} to the partitions of the largest topic, or fewer",
            tasks or f"{name}.enabled",
            meant="tasks.max",
        )


def _unparted_patterns(key: str, text: str, nothing: str) -> Iterator[Finding]:
    """Yield patterns that no comma parts: they are one, with a blank in it, which no name has."""
    patterns = [one.strip() for one in text.split(",")]
    blank = next((one for one in patterns if len(one.split()) > 1), None)
    if blank is not None:
        of = nothing if len(patterns) == 1 else "no name is like that one"
        meant = ", ".join(" ".join(patterns).split())
        what = f"{key} has no comma in {blank}: that is one pattern, with a blank in it, and {of}"
        report = _warning if key.endswith("exclude") else _error
        yield report(what, f"write {key} = {meant}", key)


def _patterns(key: str, text: str, nothing: str) -> Iterator[Finding]:
    """Yield a pattern of a list that Java would not compile, or that is one of a shell."""
    for pattern in filter(None, re.split(r"[,\s]+", text)):
        meant = re.sub(r"(?<![.)\]\\])\*", ".*", pattern)
        fix = f"write {key} = {text.replace(pattern, meant)}" if meant != pattern else f"correct {key}"
        try:
            re.compile(pattern)
        except (OverflowError, RecursionError):
            continue  # Java says what it makes of it
        except re.error as error:
            if error.msg.startswith(_OF_JAVA_TOO):
                yield _error(f"{key} has {pattern}, which is no regular expression: its connector fails, and "
                             f"{nothing}", fix, key)  # fmt: skip
            continue
        if re.search(r"[\w-]\*$", pattern):
            what = f"{pattern[-2]}* is any number of {pattern[-2]} and nothing else"
            yield _warning(f"{key} has {pattern}, a regular expression, in which {what}", fix, key)


def _offsets(values: Mapping[str, str], name: str) -> Iterator[Finding]:
    """Yield what keeps the offsets of groups from the target."""
    sync_key, sync = _of(values, name, "sync.group.offsets.enabled")
    syncs = sync == "true"
    for key in ("emit.offset-syncs.enabled", "emit.checkpoints.enabled"):
        off, value = _of(values, name, key)
        if syncs and value == "false":
            yield _error(
                f"{off} is false, and {sync_key} true: no offset of a group can be translated",
                f"take {off} out",
                off,
                sync_key,
            )
    off, value = _of(values, name, "emit.offset-syncs.enabled")
    of_syncs = [
        key for key in values if key.removeprefix(f"{name}.").startswith(("offset-syncs.", "offset-syncs-"))
    ]
    if value == "false" and of_syncs:
        what = f"{of_syncs[0]} is set, and {off} false: its connector fails, and {name} copies nothing"
        yield _error(what, f"take {of_syncs[0]} out", of_syncs[0], off)
    asking = (_of(values, name, key)[0] for key in ("groups", "emit.checkpoints.enabled"))
    asked = next(filter(None, asking), "")
    if asked and not syncs:
        yield _warning(
            f"sync.group.offsets.enabled {'is false' if sync_key else 'is not set, and false by default'}: "
            f"offsets of groups are not moved by {name}, and a consumer that changes over begins by its "
            "auto.offset.reset",
            f"write {name}.sync.group.offsets.enabled = true, and let no consumer of such a group run at the "
            "target before",
            sync_key or asked,
        )


def _circle(values: Mapping[str, str], one: str, other: str) -> Iterator[Finding]:
    """Yield two flows that bring each other's records back: the names of topics do not tell them apart."""
    names = [f"{one}->{other}", f"{other}->{one}"]
    if not any(_identity(values, name) for name in names):
        return
    patterns = [set(re.split(r"[,\s]+", _of(values, name, "topics")[1] or ".*")) for name in names]
    if ".*" in patterns[0] | patterns[1] or patterns[0] & patterns[1]:
        keys = [k for name in names for k in (_of(values, name, "replication.policy.class")[0],) if k]
        yield _error(
            f"{names[0]} and {names[1]} copy the same topics under the same names ({_IDENTITY}): each copies "
            "the other's copies, and records go round for ever",
            "take the policy out, so that copies are told by their names, or mirror one way",
            *keys,
        )


def _undeclared(values: Mapping[str, str], clusters: list[str]) -> Iterator[Finding]:
    """Yield keys of clusters that ``clusters`` does not name: nothing reads them."""
    known = set(clusters)
    for key in values:
        pair = re.match(r"([^.]+?)->([^.]+)\.", key)
        lone = re.fullmatch(r"(.+)\.bootstrap\.servers", key)
        names = pair.groups() if pair else (lone[1],) if lone and lone[1] not in NO_CLUSTER else ()
        for name in names:
            if name not in known and not (lone and name.endswith((".consumer", ".producer", ".admin"))):
                near = nearest(name, clusters)
                yield _error(
                    f"{key} is of {name}, which clusters does not name: nothing reads it",
                    f"did you mean {near}?" if near else f"add {name} to clusters, or take {key} out",
                    key,
                )
                break


def _of(values: Mapping[str, str], flow: str, key: str) -> tuple[str, str]:
    """Return the key of a flow that holds, its own or that of all flows, with its value; '' for none."""
    name = next((name for name in (f"{flow}.{key}", key) if name in values), "")
    return name, values.get(name, "").strip()


def _is(values: Mapping[str, str], key: str, value: str) -> bool:
    return values.get(key, "").strip().lower() == value


def _identity(values: Mapping[str, str], flow: str) -> bool:
    return _of(values, flow, "replication.policy.class")[1].endswith(_IDENTITY)


def _error(message: str, fix: str, *keys: str) -> Finding:
    return Finding("error", "mirror.flows", "mm2.properties", message, fix, Subject(keys=keys))


def _warning(message: str, fix: str, *keys: str, meant: str = "") -> Finding:
    of = Subject(keys=keys, meant=meant)
    return Finding("warning", "mirror.flows", "mm2.properties", message, fix, of)
