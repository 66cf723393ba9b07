"""What keeps the gate of a rolling restart closed: groups that are not stable, and lag that is not back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kedge.deploy.kafka_admin import TIMEOUT_SECONDS, admin
from kedge.deploy.mirror_positions import mirror_lag, read_positions
from kedge.evidence.canary import OWN as OF_CANARY

LOOKS_IN_A_ROW: Final = 3
#: Baselines breathe with the fetches in flight; twice as much is still the same lag.
BASELINE_FACTOR: Final = 2
#: Clients commit each five seconds by default: two commits.
WATCH_MS: Final = 12_000
#: A share of looks, in percent: a group that holds its levels may be rebalanced by its own clients.
_HELD_PERCENT: Final = 80


class Groups(NamedTuple):
    """States, lags in records, and of each partition ("topic-3") the committed offset and the end.

    ``members`` has group and client id of each member, those of canaries among them.
    """

    states: Mapping[str, str]
    lags: Mapping[str, int]
    offsets: Mapping[str, Mapping[str, tuple[int, int]]] = MappingProxyType({})
    members: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """The states and the lags in records of groups, or why there are none.

    ``began`` and ``ended`` are seconds of a clock that only grows.
    """

    began: float
    ended: float
    states: Mapping[str, str] = field(default_factory=dict)
    lags: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What a gate waits for.

    Attributes:
        kind: ``before`` an instance is touched groups have to be stable, and their lags are the baseline;
            ``after`` they have to be stable, their lag back, and what they had left to read committed;
            ``hold`` is that for a while; ``sample`` is one look, whatever it sees.
        asked: when; what was seen before that tells nothing of what an instance does now.
        seconds: how long to wait, or to hold.
        baseline: group to lag before the first instance was touched; after ``before`` that of its answer.
        baseline_ms: how long a group is stable for its baseline, where it has none yet.
        max_lag: lag that is always good enough.
        watch_ms: how long groups are watched before the first baseline, stable or not.
        commits: how many commits of a partition have to be seen by then, to wait for one after a restart.
    """

    kind: str
    asked: float
    seconds: float
    baseline: Mapping[str, int] = field(default_factory=dict)
    baseline_ms: int = 2000
    max_lag: int = 0
    watch_ms: int = WATCH_MS
    commits: int = 2


@dataclass(frozen=True, slots=True)
class GateDecision:
    """That the gate is open, with the lags of the groups, or why it stays closed.

    ``members`` are those of the last look.
    """

    lags: Mapping[str, int]
    wrong: str | None = None
    members: Sequence[tuple[str, str]] = ()


#: Where a transaction ended after the last commit, its marker is an offset that a reader need not commit.
_MARKER: Final = 1


class Progress:
    """Since when partitions have records that their groups do not commit."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str], tuple[int, int]] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._moved: Counter[tuple[str, str]] = Counter()
        self._usual: dict[str, set[str]] = {}

    def see(self, offsets: Mapping[str, Mapping[str, tuple[int, int]]], at: float) -> None:
        """Take in what was read at a time."""
        read = {(group, name): pair for group, pairs in offsets.items() for name, pair in pairs.items()}
        for key, (committed, end) in read.items():
            before, before_end = self._offsets.get(key, (committed, end))
            if committed != before:
                self._moved[key] += 1
            if committed != before or committed >= end:
                self._since.pop(key, None)
            elif end > before_end and end - committed > _MARKER:
                self._since.setdefault(key, at)
        self._offsets = read

    def take_as_usual(self, groups: Iterable[str], commits: int) -> None:
        """Have the partitions that saw so many commits until now be those that a group is expected to commit.

        Twice in a few seconds is a habit, and once may be the hour's. What moves later does not count: a
        rebalance commits too.
        """
        for group in groups:
            often = {name for (of, name), moves in self._moved.items() if of == group and moves >= commits}
            self._usual.setdefault(group, often)

    def stands(self, until: float) -> dict[str, list[str]]:
        """Return the partitions whose commits stand, and whose ends grew before a time."""
        found: dict[str, list[str]] = {}
        for (group, name), since in sorted(self._since.items()):
            if since <= until and name in self._usual.get(group, ()) and (group, name) in self._offsets:
                found.setdefault(group, []).append(name)
        return found


def look(client: Any, names: Sequence[str]) -> Groups:
    """Return the state, lag and offsets of each group that has members, or is named, and all members.

    Groups of canaries take turns: one that had members has none a moment later, as it should be.
    """
    listed = client.list_consumer_groups().result(TIMEOUT_SECONDS)
    if listed.errors:
        raise listed.errors[0]
    groups = list(names) or [g.group_id for g in listed.valid]
    states, members = {}, []
    described = client.describe_consumer_groups(groups) if groups else {}
    for name, answer in described.items():
        group = answer.result(TIMEOUT_SECONDS)
        members += [(name, str(member.client_id)) for member in group.members]
        if name in names or (group.members and not OF_CANARY.fullmatch(name)):
            states[name] = group.state.name
    offsets = {name: offsets_of(client, name) for name in states}
    lags = {
        name: sum(max(0, end - max(0, committed)) for committed, end in pairs.values())
        for name, pairs in offsets.items()
    }
    return Groups(states, lags, offsets, members)


def offsets_of(client: Any, group: str) -> dict[str, tuple[int, int]]:
    """Return the committed offset and the end of each partition for which a group has committed."""
    wish = [ConsumerGroupTopicPartitions(group)]
    (answer,) = client.list_consumer_group_offsets(wish).values()
    committed = {(p.topic, p.partition): p.offset for p in answer.result(TIMEOUT_SECONDS).topic_partitions}
    wish_ends = {TopicPartition(t, p): OffsetSpec.latest() for t, p in committed}
    if not wish_ends:
        return {}
    ends = client.list_offsets(wish_ends)
    return {
        f"{tp.topic}-{tp.partition}": (committed[tp.topic, tp.partition], end.result(TIMEOUT_SECONDS).offset)
        for tp, end in ends.items()
    }


def look_at_flow(client: Any, flow: Mapping[str, Any], secrets: Mapping[str, str]) -> Groups:
    """Return the lag of a MirrorMaker 2 flow, in the form in which groups have theirs; it has no state."""
    where = {"bootstrap.servers": flow["bootstrap_servers"], **flow.get("client", {}), **secrets}
    positions = read_positions(where, flow["topic"])
    behind = mirror_lag(client, positions, flow["topics"], TIMEOUT_SECONDS)
    return Groups({flow["flow"]: "STABLE"}, {flow["flow"]: behind})


class Looker:
    """Looks at the groups of a cluster, or at a flow's positions, by one connection that stays.

    ``where`` has ``bootstrap_servers``, ``client``, ``secrets``, ``groups``, ``positions`` and
    ``positions_secrets``, as the task kafka_group_gate takes them.
    """

    def __init__(self, where: Mapping[str, Any]) -> None:
        self._where = where
        self._client: Any = None

    def __call__(self) -> Groups:
        """Return what is seen now; raises ConnectionError where no broker answers or one refuses."""
        where = self._where
        try:
            if self._client is None:
                keys = {**where.get("client", {}), **where.get("secrets", {})}
                self._client = admin(where["bootstrap_servers"], keys)
            if flow := where.get("positions"):
                return look_at_flow(self._client, flow, where.get("positions_secrets", {}))
            return look(self._client, where.get("groups", ()))
        except (KafkaException, TimeoutError) as error:
            self._client = None
            late = f"no answer within {TIMEOUT_SECONDS} s"
            why = error.args[0].str() if isinstance(error, KafkaException) else late
            message = f"{where['bootstrap_servers']}: {why}"
            raise ConnectionError(message) from error


def complaint(
    states: Mapping[str, str], lags: Mapping[str, int], baseline: Mapping[str, Any] | None, max_lag: int
) -> str | None:
    """Return why the gate stays closed, or None."""
    for group, state in sorted(states.items()):
        if state not in ("STABLE", "EMPTY"):
            return f"group {group} is {state}"
    if baseline is None:
        return None
    for group in sorted(baseline.keys() - states.keys()):
        return f"group {group} had members before and has none now"
    for group, behind in sorted(lags.items()):
        allowed = max(max_lag, BASELINE_FACTOR * int(baseline.get(group, 0)))
        if behind > allowed:
            return f"group {group} is {behind} records behind, {allowed} are allowed"
    return None


def decide(
    question: Question,
    looks: Sequence[Look],
    known: Mapping[str, int],
    now: float,
    stands: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> GateDecision | None:
    """Return what the looks, oldest first, answer to a question; None while there is nothing to say yet.

    ``known`` are baselines that were taken before; a group that has one need not be watched as long again.
    ``stands`` are partitions of groups that had records when it was asked, and have had no commit since.
    """
    fresh = [one for one in looks if one.began >= question.asked]
    if not fresh or fresh[-1].error is not None:
        return GateDecision({}, fresh[-1].error) if fresh else None
    if question.kind == "sample":
        return GateDecision(fresh[-1].lags)
    late = now - question.asked > question.seconds
    baseline = None if question.kind == "before" else question.baseline

    def wrong(one: Look) -> str | None:
        return one.error or complaint(one.states, one.lags, baseline, question.max_lag)

    standing = _standing(stands) if question.kind != "before" else None
    if question.kind == "hold":
        return _held(question, fresh, wrong, standing) if late else None
    if said := wrong(fresh[-1]) or standing:
        return GateDecision(fresh[-1].lags, f"after {question.seconds:g} s {said}") if late else None
    # A row may begin before the question where nothing was touched; what an instance does now is seen anew.
    good = _last_in_a_row(looks if question.kind == "before" else fresh, wrong)
    if len(good) < LOOKS_IN_A_ROW:
        return None
    watched = now - looks[0].began
    return (
        GateDecision(_most(good)) if question.kind == "after" else _baseline(question, good, known, watched)
    )


def _standing(stands: Mapping[str, Sequence[str]]) -> str | None:
    """Return which group commits no more, if any."""
    for group, names in stands.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"group {group} commits no more for {names[0]}{more}, whose end grows"
    return None


def _held(
    question: Question, fresh: Sequence[Look], wrong: Callable[[Look], str | None], standing: str | None
) -> GateDecision:
    """Return whether groups held their levels: they do now, and nearly always did."""
    if standing:
        return GateDecision(_most(fresh), f"in {question.seconds:g} s {standing}")
    bad = [said for one in fresh if (said := wrong(one))]
    held = len(fresh) - len(bad)
    if wrong(fresh[-1]) is None and 100 * held >= _HELD_PERCENT * len(fresh):
        return GateDecision(_most(fresh))
    return GateDecision(
        _most(fresh), f"{held} of {len(fresh)} looks in {question.seconds:g} s were good: {bad[-1]}"
    )


def _baseline(
    question: Question, good: Sequence[Look], known: Mapping[str, int], watched: float
) -> GateDecision | None:
    """Return the most that lags were while groups were stable, of those that were watched for long enough."""
    states, last = good[-1].states, good[-1].ended
    stable = last - good[0].ended
    if states.keys() - known.keys() and (
        stable < question.baseline_ms / 1000 or watched < question.watch_ms / 1000
    ):
        return None
    seen = _most(one for one in good if last - one.ended <= question.baseline_ms / 1000)
    return GateDecision({name: max(known.get(name, 0), seen.get(name, 0)) for name in states})


def _last_in_a_row(looks: Sequence[Look], wrong: Callable[[Look], str | None]) -> list[Look]:
    good: list[Look] = []
    for one in reversed(looks):
        if wrong(one) is not None:
            break
        good.append(one)
    return good[::-1]


def _most(looks: Iterable[Look]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in looks:
        for group, behind in one.lags.items():
            found[group] = max(found.get(group, 0), behind)
    return found
