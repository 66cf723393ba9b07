"""`python -m verify.watch.traffic RUN_DIR PARENT`: samples topics and groups of others until told to end.

Started by verify.watch alone, and again when it ended by itself: librdkafka aborts its process when a
connection breaks while groups are described (its issue 4605). It describes and asks for offsets; it joins no
group, commits nothing and writes nothing to any cluster.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, OffsetSpec

from kedge.evidence.border.untrusted import shown
from kedge.evidence.watch_options import WatchedCluster, WatchError, WatchSpec, read_watch
from kedge.evidence.writing import EvidenceWriter, rows_to_columns, write_json
from verify.process import Ending, SteadyClock, die_with_parent, leave
from verify.watch.choice import MOST_NAMED, Choice, Described, Left, choose
from verify.watch.end_offsets import end_columns
from verify.watch.groups import ownership_columns, state_columns, state_name, to_sample
from verify.watch.ownership import GroupSample, Ownership, Partition
from verify.watch.timer import ANSWER_S, SampleTimer, Watcher

#: Files of the run's folder: what is watched, and how it stands.
CHOSEN: Final = "watch-chosen.json"
STANDS: Final = "watch-stands.json"
_CLIENT: Final = "kedge-watch"
#: No more than this is lost when librdkafka aborts.
_ROTATE_S: Final = 1.0
#: Groups that are described with one request, and how long all of it may take before the watch begins.
_AT_ONCE: Final = 100
_CHOICE_S: Final = 45.0
_LOOK_S: Final = 0.2
#: Leaders that moved are looked up after a failure, and topics that grew after so long.
_LOOK_UP_S: Final = 30.0
_UNCOMMITTED: Final = -1001

_NO_LEADER: Final = -1
_IN_TIME: Final = {"request_timeout": ANSWER_S}
#: What is asked, in the order in which answers are taken.
_ORDER: Final = ("ends", "states", "state", "commits")
#: A group whose listed state stays the same is described so often, for members that came and went meanwhile.
_DESCRIBE_S: Final = 10.0
#: Where a cluster has more groups than this, those watched are described each time: its list would cost more.
_MOST_LISTED: Final = 1000
_AT_REST: Final = ("Stable", "Empty")

#: What was asked, and of whom: a broker or a group.
_Key = tuple[str, str]


def main(run_dir: Path, parent: int) -> int:
    """Choose what is watched unless that was chosen before, then sample; 0 when it ended in order."""
    ending = Ending()
    die_with_parent(parent)
    try:
        spec = read_watch(run_dir)
    except WatchError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    admins = {name: _admin(cluster) for name, cluster in spec.clusters.items()}
    path = run_dir / CHOSEN
    if not path.exists():
        write_json(path, chosen_of(spec, admins))
    chosen = json.loads(path.read_text(encoding="utf-8"))
    before = stands_of(run_dir)
    watchers = [
        ClusterWatcher(name, admin, chosen, spec.options.interval_s, run_dir / "evidence", before)
        for name, admin in admins.items()
    ]
    for watcher in watchers:
        watcher.start()
    while not ending and not any(watcher.failure for watcher in watchers):
        write_json(run_dir / STANDS, {k: v for watcher in watchers for k, v in watcher.stands().items()})
        time.sleep(_LOOK_S)
    for watcher in watchers:
        watcher.stop()
    return 0


class ClusterWatcher(Watcher):
    """Samples one cluster's watched topics and groups every ``interval_s`` until stopped.

    Each tick asks each broker for the ends of the partitions that it leads and for the states of its groups,
    and for each group what it has committed. A group is described when its state is not what it was, while it
    is not at rest, and every ten seconds. A broker that answers late delays no other's answer: nothing more
    is asked of it until it has answered. What was not answered leaves no row; ``at_us`` is the moment of an
    answer.
    """

    def __init__(
        self,
        cluster: str,
        admin: AdminClient,
        chosen: Mapping[str, Any],
        interval_s: float,
        evidence: Path,
        before: Mapping[str, Any],
    ) -> None:
        self._cluster, self._admin = cluster, admin
        self._topics = {one["topic"] for one in chosen["topics"] if one["cluster"] == cluster}
        #: The group's own name by its label, which the tables have.
        self._groups = {
            label: about["group"] for label, about in chosen["groups"].items() if about["cluster"] == cluster
        }
        self._writers = {
            table: EvidenceWriter(evidence, table, f"{_CLIENT}-{cluster}", _ROTATE_S)
            for table in ("end_offsets", "group_offsets", "group_states", "assignments")
        }
        self._led: dict[int, dict[TopicPartition, OffsetSpec]] = {}
        self._asked: dict[_Key, Any] = {}
        #: The answer to a list asks too, in a thread of the client.
        self._asking = threading.RLock()
        self._answered: SimpleQueue[tuple[_Key, int]] = SimpleQueue()
        self._ends: dict[Partition, int] = {}
        #: Partitions in which a group was seen, by label: it stays there while it has no members.
        self._places: dict[str, set[Partition]] = {label: set() for label in self._groups}
        self._ownership = {label: Ownership() for label in self._groups}
        #: By label: state and lag as they were last told; None before.
        self._stands: dict[str, dict[str, Any]] = {
            label: dict(before.get(label, {"state": None, "lag": None})) for label in self._groups
        }
        #: By label: how the group was described last, and when it is described again at the latest.
        self._seen: dict[str, GroupSample] = {}
        self._describe: dict[str, float] = dict.fromkeys(self._groups, 0.0)
        self._listing = True
        #: A list is as late as its latest broker, and what the others said in it is then no longer so.
        self._late = False
        self._look_up = 0.0
        self._clock = SteadyClock()
        self._timer = SampleTimer(f"watch-{cluster}", interval_s, self._sample)

    def stop(self) -> None:
        """End sampling and put all on disk; raises what ended the thread before its time."""
        self._timer.stop(2 * ANSWER_S)
        self._take()
        for writer in self._writers.values():
            writer.close()
        if self.failure:
            raise self.failure

    def stands(self) -> dict[str, dict[str, Any]]:
        """Return state and lag of each group at its last sample."""
        return dict(self._stands)

    def _sample(self) -> None:
        self._take()
        if time.monotonic() >= self._look_up:
            self._refresh()
        for leader, wanted in self._led.items():
            self._ask(("ends", str(leader)), partial(self._admin.list_offsets, wanted, **_IN_TIME))
        self._late = ("states", "") in self._asked
        if self._listing and self._groups:
            self._ask(("states", ""), self._list)
        commits = self._admin.list_consumer_group_offsets
        for label, group in self._groups.items():
            self._ask(("commits", label), partial(commits, [ConsumerGroupTopicPartitions(group)], **_IN_TIME))
            if self._late or not self._listing:
                self._describe_group(label)
        for writer in self._writers.values():
            writer.tick()

    def _ask(self, key: _Key, ask: Callable[[], Mapping[Any, Future[Any]]]) -> None:
        """Ask unless the answer to the last time is due still."""
        with self._asking:
            if key not in self._asked:
                answers = self._asked[key] = ask()
                next(iter(answers.values())).add_done_callback(
                    lambda _: self._answered.put((key, self._clock.now_us()))
                )

    def _list(self) -> dict[str, Future[Any]]:
        listed: Future[Any] = self._admin.list_consumer_groups(**_IN_TIME)
        # At once, and not at the next tick: what a description tells is then as late as its own answer alone.
        listed.add_done_callback(self._describe_those_that_moved)
        return {"": listed}

    def _describe_those_that_moved(self, listed: Future[Any]) -> None:
        try:
            states = {} if listed.exception() else _states_of(listed.result())
            for label, group in self._groups.items():
                state, before = states.get(group), self._seen.get(label)
                moved = before is None or state != before.state or state not in _AT_REST
                if moved or time.monotonic() >= self._describe[label]:
                    self._describe_group(label)
        except Exception as error:  # a future drops what its callbacks raise
            self._timer.failure = error

    def _describe_group(self, label: str) -> None:
        self._describe[label] = time.monotonic() + _DESCRIBE_S
        about = partial(self._admin.describe_consumer_groups, [self._groups[label]], **_IN_TIME)
        self._ask(("state", label), about)

    def _take(self) -> None:
        """Write down what was answered since the last time, ends first: commits stand beside them."""
        told = [self._answered.get() for _ in range(self._answered.qsize())]
        for (kind, name), at_us in sorted(told, key=lambda one: _ORDER.index(one[0][0])):
            with self._asking:
                answers = self._asked.pop((kind, name))
            try:
                found = {asked: answer.result(ANSWER_S) for asked, answer in answers.items()}
            except (KafkaException, TimeoutError) as error:
                why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
                what = {"ends": f"broker {name}", "states": "groups"}.get(kind, f"group {shown(name)}")
                self._timer.complain(f"cluster {self._cluster}: no sample of {what}: {why}")
                self._look_up = 0.0
                continue
            match kind:
                case "ends":
                    self._note_ends(found, at_us)
                case "states":
                    self._note_states(found[""], at_us)
                case "state":
                    self._note_state(name, to_sample(next(iter(found.values()))), at_us)
                case _:
                    self._note_commits(name, next(iter(found.values())), at_us)

    def _refresh(self) -> None:
        """Look up leaders, which librdkafka's own requests go on asking when others have taken over."""
        self._look_up = time.monotonic() + _LOOK_UP_S
        try:
            found = self._admin.list_topics(timeout=ANSWER_S).topics
        except KafkaException as error:
            self._timer.complain(f"cluster {self._cluster}: no sample: {error.args[0].str()}")
            self._look_up = 0.0
            return
        self._led = {}
        for topic in self._topics:
            # Of one that was deleted meanwhile, the last sample is where its evidence ends.
            for number, partition in (found[topic].partitions if topic in found else {}).items():
                led = self._led.setdefault(partition.leader, {})
                led[TopicPartition(topic, number)] = OffsetSpec.latest()
        self._led.pop(_NO_LEADER, None)

    def _note_ends(self, found: Mapping[TopicPartition, Any], at_us: int) -> None:
        ends = {(place.topic, place.partition): answer.offset for place, answer in found.items()}
        self._ends |= ends
        self._writers["end_offsets"].append(end_columns(self._cluster, ends, at_us))

    def _note_commits(self, label: str, found: Any, at_us: int) -> None:
        self._places[label] |= self._ownership[label].owners.keys()
        commits = dict.fromkeys(self._places[label], _UNCOMMITTED)
        commits |= {(tp.topic, tp.partition): tp.offset for tp in found.topic_partitions if tp.error is None}
        rows: list[dict[str, Any]] = [
            {
                "group": label,
                "topic": topic,
                "partition": number,
                "at_us": at_us,
                "committed": offset if offset >= 0 else None,
                "end_offset": self._ends.get((topic, number)),
            }
            for (topic, number), offset in sorted(commits.items())
            if topic in self._topics
        ]
        if rows:
            self._writers["group_offsets"].append(rows_to_columns("group_offsets", rows))
        behind = [
            max(0, row["end_offset"] - row["committed"])
            for row in rows
            if row["end_offset"] is not None and row["committed"] is not None
        ]
        self._stands[label] = {**self._stands[label], "lag": sum(behind)}

    def _note_states(self, listed: Any, at_us: int) -> None:
        """Write down the states of a list that came in time: members are those of the last description."""
        self._listing = len(listed.valid) <= _MOST_LISTED
        if self._late:
            return
        states = _states_of(listed)
        for label, group in self._groups.items():
            before, state = self._seen.get(label), states.get(group)
            # Of one that the list lacks, or has without a state, its description tells.
            if before is not None and state is not None and state != "Unknown":
                self._stands[label] = {**self._stands[label], "state": state}
                row = state_columns(label, before._replace(state=state), at_us)
                self._writers["group_states"].append(row)

    def _note_state(self, label: str, sample: GroupSample, at_us: int) -> None:
        self._seen[label] = sample
        self._stands[label] = {**self._stands[label], "state": sample.state}
        self._writers["group_states"].append(state_columns(label, sample, at_us))
        if found := self._ownership[label].seen(sample):
            self._writers["assignments"].append(ownership_columns(label, found, at_us))


def _states_of(listed: Any) -> dict[str, str]:
    """Return the state of each listed group, in Kafka's words."""
    return {one.group_id: state_name(one.state) for one in listed.valid}


def _admin(cluster: WatchedCluster) -> AdminClient:
    own = {"client.id": _CLIENT, "log_level": 0, "bootstrap.servers": cluster.bootstrap_servers}
    return AdminClient({**own, **cluster.client})


def chosen_of(spec: WatchSpec, admins: Mapping[str, AdminClient]) -> dict[str, Any]:
    """Return what is watched, as run.json has it: topics, groups by label, and what is not."""
    members = {
        service: [at for host in hosts for at in _addresses(host)] for service, hosts in spec.members.items()
    }
    choices: dict[str, Choice] = {}
    left: list[dict[str, str]] = []
    for name, cluster in spec.clusters.items():
        try:
            choices[name] = choice_of(spec, cluster, admins[name], members)
        except (KafkaException, TimeoutError) as error:
            why = error.args[0].str() if isinstance(error, KafkaException) else "it does not answer"
            left.append({"cluster": name, "kind": "cluster", "name": name, "why": why})
    twice = [group for choice in choices.values() for group in choice.groups]
    groups = {
        (group if twice.count(group) == 1 else f"{name}/{group}"): {
            "cluster": name,
            "group": group,
            "topics": topics,
            "protocol": protocol,
            "services": services,
        }
        for name, choice in choices.items()
        for group, (topics, protocol, services) in choice.groups.items()
    }
    asked = {*spec.options.topics, *spec.options.groups}
    rest = [(name, one) for name, choice in choices.items() for one in choice.left]
    # What did not answer, and what a person named, makes the verdict unknown: it is never cut off.
    left += [{**one._asdict(), "cluster": ""} for _, one in rest if one.name in asked]
    found = _every(choices, "topics") | _every(choices, "groups") | {one["name"] for one in left}
    left += [
        {"cluster": "", "kind": option.removesuffix("s"), "name": missing, "why": "no cluster has it"}
        for option in ("topics", "groups")
        for missing in getattr(spec.options, option)
        if missing not in found
    ]
    left += [{"cluster": name, **one._asdict()} for name, one in rest if one.name not in asked]
    return {
        "topics": [
            {"cluster": name, "topic": topic, "partitions": count}
            for name, choice in choices.items()
            for topic, count in choice.topics.items()
        ],
        "groups": groups,
        "not_watched": [{**one, "name": shown(one["name"])} for one in left[:MOST_NAMED]],
        "not_watched_more": max(0, len(left) - MOST_NAMED),
    }


def _every(choices: Mapping[str, Choice], what: str) -> set[str]:
    return {name for choice in choices.values() for name in getattr(choice, what)}


def choice_of(
    spec: WatchSpec, cluster: WatchedCluster, admin: AdminClient, members: Mapping[str, Iterable[str]]
) -> Choice:
    """Return what is watched of a cluster; raises KafkaException or TimeoutError where it is silent."""
    deadline = time.monotonic() + _CHOICE_S
    topics = {
        name: len(found.partitions)
        for name, found in admin.list_topics(timeout=ANSWER_S).topics.items()
        if found.error is None and found.partitions
    }
    listing = admin.list_consumer_groups(request_timeout=ANSWER_S).result(2 * ANSWER_S)
    # Those that are named go first: of thousands not all may be described in time.
    first = [*spec.options.groups, *cluster.groups]
    names = sorted((one.group_id for one in listing.valid), key=lambda name: (name not in first, name))
    groups: dict[str, Described] = {}
    refused: dict[str, str] = {}
    for begin in range(0, len(names), _AT_ONCE):
        some = names[begin : begin + _AT_ONCE]
        if time.monotonic() > deadline:
            refused |= dict.fromkeys(
                some, f"the cluster has {len(names)} groups, and describing them took too long"
            )
            continue
        for name, answer in admin.describe_consumer_groups(some, request_timeout=ANSWER_S).items():
            try:
                found = answer.result(2 * ANSWER_S)
            except KafkaException as error:
                refused[name] = f"it cannot be described: {error.args[0].str()}"
                continue
            if found.state.name == "DEAD":
                refused[name] = "it is no consumer group, such as a share group"
            else:
                groups[name] = _described(found)
    for name in [name for name, found in groups.items() if not found.topics]:
        # It has no members now, or none that joined: what it committed tells what it reads.
        if time.monotonic() > deadline:
            break
        groups[name] = groups[name]._replace(topics=_committed(admin, name))
    choice = choose(cluster, spec.options, members, topics, groups, refused)
    if listing.errors:
        choice.left.append(Left("cluster", cluster.bootstrap_servers, "a broker did not list its groups"))
    return choice


def _committed(admin: AdminClient, group: str) -> frozenset[str]:
    asked = [ConsumerGroupTopicPartitions(group)]
    try:
        found = admin.list_consumer_group_offsets(asked, **_IN_TIME)[group].result(2 * ANSWER_S)
    except (KafkaException, TimeoutError):
        return frozenset()
    return frozenset(tp.topic for tp in found.topic_partitions if tp.error is None)


def _described(found: ConsumerGroupDescription) -> Described:
    return Described(
        "consumer" if found.type.name == "CONSUMER" else "classic",
        frozenset(member.host.removeprefix("/") for member in found.members),
        frozenset(tp.topic for member in found.members for tp in member.assignment.topic_partitions),
    )


def _addresses(host: str) -> list[str]:
    """Return a host and the addresses that brokers may see it with."""
    try:
        return [host, *{str(found[4][0]) for found in socket.getaddrinfo(host, None)}]
    except OSError:
        return [host]


def stands_of(run_dir: Path) -> dict[str, dict[str, Any]]:
    """Return state and lag of each watched group as they were last told; nothing before."""
    try:
        return dict(json.loads((run_dir / STANDS).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), int(sys.argv[2])))
