"""How a watch asks for the states of groups: by one list, and by descriptions of those that moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from tests.awaiting import await_that
from verify.watch.traffic import ClusterWatcher

STABLE = ConsumerGroupState.STABLE
CHOSEN = {"topics": [], "groups": {"g": {"cluster": "c", "group": "g"}, "h": {"cluster": "c", "group": "h"}}}


def done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


class Cluster:
    """An admin client of a cluster that answers at once, but for lists that ``lists`` does not answer."""

    def __init__(self, listed: Callable[[], Future[Any]]) -> None:
        self._listed = listed
        self.lists = 0
        self.described: list[str] = []

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={})

    def list_consumer_groups(self, **_: Any) -> Future[Any]:
        self.lists += 1
        return self._listed()

    def list_consumer_group_offsets(self, asked: Any, **_: Any) -> dict[Any, Future[Any]]:
        return {asked[0].group_id: done(SimpleNamespace(topic_partitions=[]))}

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> dict[str, Future[Any]]:
        self.described += groups
        about = SimpleNamespace(state=STABLE, type=None, partition_assignor="range", members=[])
        return {group: done(about) for group in groups}


class Refusing(Cluster):
    """A client that takes no description."""

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> dict[str, Future[Any]]:
        raise TypeError(groups)


def listing(*groups: tuple[str, Any], beside: int = 0) -> Future[Any]:
    every = [*groups, *((f"other-{n}", STABLE) for n in range(beside))]
    return done(SimpleNamespace(valid=[SimpleNamespace(group_id=name, state=state) for name, state in every]))


@contextmanager
def watching(cluster: Cluster, folder: Path) -> Iterator[ClusterWatcher]:
    watcher = ClusterWatcher("c", cast("AdminClient", cluster), CHOSEN, 0.01, folder, {})
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.stop()


def test_groups_that_stay_stable_are_described_once_and_listed_each_time(tmp_path: Path) -> None:
    cluster = Cluster(lambda: listing(("g", STABLE), ("h", STABLE)))
    with watching(cluster, tmp_path) as watcher:
        await_that(lambda: cluster.lists > 20, "it asks on", 20)
        assert watcher.stands()["g"]["state"] == "Stable"
    assert sorted(cluster.described) == ["g", "h"]


@pytest.mark.parametrize(
    "listed",
    [
        Future,
        lambda: listing(("g", STABLE), ("h", ConsumerGroupState.PREPARING_REBALANCING)),
        lambda: listing(("g", STABLE), ("h", ConsumerGroupState.UNKNOWN)),
        lambda: listing(("g", STABLE)),
        lambda: listing(("g", STABLE), ("h", STABLE), beside=1000),
    ],
    ids=[
        "a broker does not answer",
        "it rebalances",
        "its state has no name",
        "it is not listed",
        "too many",
    ],
)
def test_a_group_of_which_the_list_does_not_tell_is_described_each_time(
    listed: Callable[[], Future[Any]], tmp_path: Path
) -> None:
    cluster = Cluster(listed)
    with watching(cluster, tmp_path):
        await_that(lambda: cluster.described.count("h") > 5, "it is described again and again", 20)


def test_of_a_list_that_comes_late_the_descriptions_hold(tmp_path: Path) -> None:
    late: Future[Any] = Future()
    cluster = Cluster(lambda: late if cluster.lists == 1 else Future())
    with watching(cluster, tmp_path) as watcher:
        await_that(lambda: cluster.described.count("g") > 3, "it is described meanwhile", 20)
        late.set_result(listing(("g", ConsumerGroupState.PREPARING_REBALANCING), ("h", STABLE)).result())
        await_that(lambda: cluster.lists == 2, "the list was taken", 20)
        assert watcher.stands()["g"]["state"] == "Stable"
    states = pq.read_table(tmp_path / "group_states").column("state").to_pylist()
    assert {*states} == {"Stable"}


def test_a_description_that_cannot_be_asked_for_ends_the_watcher(tmp_path: Path) -> None:
    cluster = Refusing(lambda: listing(("g", STABLE)))
    watcher = ClusterWatcher("c", cast("AdminClient", cluster), CHOSEN, 0.01, tmp_path, {})
    watcher.start()
    await_that(lambda: watcher.failure is not None, "its failure is reported", 20)
    with pytest.raises(TypeError):
        watcher.stop()
