"""A MirrorMaker that somebody else runs is taken over under load, or given back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from tests.awaiting import await_that
from tests.e2e.playing import deployed_fleet, on_node, play, recap
from tests.kafka.mirror_site import Writer, await_all, copies, read

INVENTORY: Final = "tests/e2e/inventory_adopt_mirror"
FLEET: Final = "kedge-e2e-adopt-mirror"
HOSTS: Final = ("mirror1", "mirror2")
TOPIC, PARTITIONS = "mirrored", 8
SITE: Any = SimpleNamespace(
    source=SimpleNamespace(bootstrap_servers="10.78.18.11:9092"),
    target=SimpleNamespace(bootstrap_servers="10.78.18.12:9092"),
)
PROCESSES: Final = [{"host": host, "unit": "theirs.service"} for host in HOSTS]
#: At least so many records are there before a deploy: a flood would copy them again.
BEFORE: Final = 20_000

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("foreign"),
]

#: The same software under another unit and in another group, from another folder, and no trace of Kedge's.
THEIRS: Final = r"""set -e
name=$(ls /etc/mirror-maker)
cp -rL --preserve=mode,ownership /etc/mirror-maker/$name /srv/theirs
sed -i "s#/etc/mirror-maker/$name#/srv/theirs#g" /srv/theirs/environment
sed -i 's/^group.id=.*/group.id=theirs/; /^group.instance.id=/d' /srv/theirs/consumer.properties
cat > /etc/systemd/system/theirs.service <<'END'
[Service]
User=mirror-maker
EnvironmentFile=/srv/theirs/environment
ExecStart=/usr/bin/java $KAFKA_HEAP_OPTS $KAFKA_JVM_PERFORMANCE_OPTS $KAFKA_OPTS -cp /srv/theirs/dist/* \
  kafka.tools.MirrorMaker --consumer.config /srv/theirs/consumer.properties \
  --producer.config /srv/theirs/producer.properties --include mirrored --offset.commit.interval.ms 1000
SuccessExitStatus=143
[Install]
WantedBy=multi-user.target
END
systemctl disable --now mirror-maker@$name
rm -rf /etc/mirror-maker /var/lib/kedge/mirror-maker /etc/systemd/system/mirror-maker*
systemctl daemon-reload
systemctl enable --now theirs
"""
BROKEN: Final = "/etc/systemd/system/mirror-maker@.service.d"


def adopt(**more: Any) -> tuple[str, str]:
    entry = {"group": "theirs", "processes": PROCESSES} | more
    return "-e", json.dumps({"mirror_maker_adopt": {"leaf-agg": entry}})


def runs(host: str, unit: str) -> str:
    """Whether a unit of a host is active, and whether it starts with the host."""
    asked = f"systemctl is-active {unit}; systemctl is-enabled {unit}"
    return " ".join(on_node(FLEET, host, asked, check=False).split())


def committed(group: str) -> int:
    """Of how many partitions a group has positions."""
    client = AdminClient({"bootstrap.servers": SITE.source.bootstrap_servers})
    (answer,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return sum(p.offset >= 0 for p in answer.result(15).topic_partitions)


def twice() -> list[int]:
    """The records that are in the target more than once, by their numbers."""
    found = read(SITE.target.bootstrap_servers, TOPIC)
    return sorted(int(value.split()[1]) for value, places in found.items() if len(places) > 1)


@pytest.fixture(scope="module")
def foreign() -> Iterator[None]:
    """A fleet whose flow somebody else's processes mirror."""
    with deployed_fleet(INVENTORY):
        for host in HOSTS:
            on_node(FLEET, host, THEIRS)
        with Writer(SITE, TOPIC) as writer:
            await_that(
                lambda: committed("theirs") == PARTITIONS and writer.written > BEFORE, "their mirror mirrors"
            )
        await_all(SITE, TOPIC)
        assert copies(SITE, TOPIC) == {1}
        yield


@contextmanager
def loaded() -> Iterator[Writer]:
    """Write to the flow's topic all the while; other records than those before."""
    writer = Writer(SITE, TOPIC)
    writer.written = 1 + max(int(value.split()[1]) for value in read(SITE.source.bootstrap_servers, TOPIC))
    with writer:
        yield writer


def test_without_an_entry_a_deploy_stops_and_with_one_the_plan_names_what_it_takes_over() -> None:
    stopped = play("deploy.yml", inventory=INVENTORY)
    assert stopped.returncode != 0
    assert "of theirs.service) is of the kind of mirror-maker" in " ".join(stopped.stdout.split())
    assert all(host["changed"] == 0 for host in recap(stopped.stdout).values())
    shown = play("plan.yml", *adopt(), inventory=INVENTORY)
    assert shown.returncode == 0, shown.stdout
    assert "mirror_maker@leaf-agg-0: a deploy would take it over" in shown.stdout
    assert "from theirs.service, which runs now" in shown.stdout
    assert "mirror_maker: stop what mirrors now on all hosts, go on at its positions" in shown.stdout


@pytest.mark.parametrize(
    ("playbook", "entry", "said"),
    [
        ("plan.yml", {"group": "nobodys"}, "group nobodys has no committed position"),
        ("deploy.yml", {"group": "nobodys"}, "group nobodys has no committed position"),
        (
            "deploy.yml",
            {"processes": [*PROCESSES, {"host": "agg1", "unit": "theirs.service"}]},
            "agg1 has no unit theirs.service",
        ),
        (
            "deploy.yml",
            {"processes": PROCESSES[:1]},
            "is of the kind of mirror-maker, and Kedge did not start it",
        ),
    ],
)
def test_what_cannot_be_taken_over_is_refused_before_the_first_change(
    playbook: str, entry: dict[str, Any], said: str
) -> None:
    refused = play(playbook, *adopt(**entry), inventory=INVENTORY)
    assert refused.returncode != 0
    assert said in " ".join(refused.stdout.split())
    assert all(host["changed"] == 0 for host in recap(refused.stdout).values())
    assert {runs(host, "theirs") for host in HOSTS} == {"active enabled"}


def test_where_one_process_does_not_become_ready_all_are_given_back_and_nothing_is_lost() -> None:
    lines = r"[Service]\nExecStart=\nExecStart=/bin/false\n"
    on_node(FLEET, "mirror2", f"mkdir -p {BROKEN} && printf '{lines}' > {BROKEN}/broken.conf")
    try:
        with loaded() as writer:
            before = writer.written
            failed = play("deploy.yml", *adopt(), inventory=INVENTORY)
    finally:
        on_node(FLEET, "mirror2", f"rm -r {BROKEN} && systemctl daemon-reload")
    assert failed.returncode != 0
    said = " ".join(failed.stdout.split())
    # systemd says by chance that the start failed, or that it went well and the process is gone.
    ended = r"(its process ended|Job for mirror-maker@leaf-agg-1\.service failed)"
    assert re.search(rf"Flow leaf-agg: not taken over: mirror-maker@leaf-agg-1\.service: {ended}", said), said
    assert "What mirrored before runs again and goes on at its own positions" in said
    assert {runs(host, "theirs") for host in HOSTS} == {"active enabled"}
    ours = {host: runs(host, f"mirror-maker@leaf-agg-{n}").split() for n, host in enumerate(HOSTS)}
    assert not any({"active", "enabled"} & set(said) for said in ours.values()), ours
    await_all(SITE, TOPIC)
    # What the process that did start has copied, and nothing from before.
    assert all(number >= before for number in twice())


def test_a_mirror_of_somebody_else_is_taken_over_and_no_record_is_lost_or_flooded() -> None:
    repeated = len(twice())
    with loaded() as writer:
        before = writer.written
        done = play("deploy.yml", *adopt(), inventory=INVENTORY)
        assert done.returncode == 0, done.stdout
        written = writer.written
        await_that(lambda: writer.written > written + BEFORE, "the load goes on")
    await_all(SITE, TOPIC)
    now = twice()
    assert len(now) == repeated, (before, now[repeated:][:5], len(now))
    assert {runs(host, f"mirror-maker@leaf-agg-{n}") for n, host in enumerate(HOSTS)} == {"active enabled"}
    # Stopped and kept, for whoever wants to go back.
    assert {runs(host, "theirs") for host in HOSTS} == {"inactive disabled"}
    again = play("deploy.yml", *adopt(), inventory=INVENTORY)
    assert again.returncode == 0, again.stdout
    assert all(host["changed"] == 0 for host in recap(again.stdout).values()), again.stdout
