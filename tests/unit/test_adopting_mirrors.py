"""Mirrors that are taken over from somebody else: what is refused, where the flow begins, who runs in the end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kedge.deploy.deploy_steps import step_lines, steps
from kedge.deploy.mirror_positions import Taken, parse_position, refusal, taken
from kedge.deploy.occupying import occupying
from kedge.plan.hosts import Inventory
from kedge.services.mirror.adopting import adopting_hosts, adopting_json, adoptions, mirrors_adopted
from kedge.services.planning import make_plan
from plugins.modules import kafka_mirror_positions, kedge_occupied, kedge_predecessor
from plugins.modules.kafka_other_mirrors import other_mirrors
from tests.planned import METRICS, mirrors
from tests.rest_inventories import of_rule

UNIT = {"host": "mm1", "unit": "theirs.service"}
COMMANDS = {
    "host": "mm2",
    "holder": "/srv/theirs.properties",
    "stop": ["stop", "it"],
    "start": ["start", "it"],
}
CLASSIC = {"group": "theirs", "processes": [UNIT]}
WORKERS = {"offsets_topic": "mm2-offsets.leaf.internal", "processes": [UNIT]}


def inventory(
    entry: Any, kind: str = "classic", flow: dict[str, Any] | None = None, name: str = "metrics"
) -> Inventory:
    version = "3.9.2" if kind == "classic" else "4.3.1"
    return mirrors(2, adopt={name: entry}, kind=kind, version=version, flow=flow)


def document(entry: dict[str, Any] = CLASSIC, **more: Any) -> dict[str, Any]:
    given = inventory(entry, **more)
    return make_plan(given).to_json() | {"adopting": adopting_json(given)}


@pytest.mark.parametrize(
    ("entry", "kind", "flow", "name", "said", "fix"),
    [
        ({"processes": [UNIT]}, "classic", {}, "metrics.group", "group and offsets_topic are both missing", "group.id"),
        (CLASSIC | {"processes": []}, "classic", {}, "metrics.processes", "", ""),
        (CLASSIC, "mirror_maker_2", {}, "metrics", "names group, of a classic one, and mirror_maker_kind is mirror_maker_2",
         "take it over with mirror_maker_kind: classic and mirror_maker_version: 3.9.2; docs/mirror.md"),
        (WORKERS, "classic", {}, "metrics", "names offsets_topic, of a MirrorMaker 2, and mirror_maker_kind is classic",
         "take it over with mirror_maker_kind: mirror_maker_2; docs/mirror.md"),
        (CLASSIC | {"group": "mirror-maker-metrics"}, "classic", {}, "metrics.group", "which flow metrics uses itself", "one of its own"),
        (CLASSIC, "classic", {"consumer_settings": {"group.id": "theirs"}}, "metrics.group", "which flow metrics uses itself", "take it out"),
        (WORKERS, "mirror_maker_2", {"settings": {"offset.storage.topic": "mm2-offsets.leaf.internal"}}, "metrics.offsets_topic",
         "which flow metrics uses itself", "take it out"),
        (WORKERS | {"group": "theirs"}, "mirror_maker_2", {}, "metrics.group", "group and offsets_topic are both set", "offsets_topic of a MirrorMaker 2"),
        (CLASSIC | {"processes": [UNIT | {"host": "mm9"}]}, "classic", {}, "metrics.processes[0].host", "'mm9', which is no host", "inventory"),
        (CLASSIC | {"processes": [UNIT | {"unit": "mirror-maker@metrics-0.service"}]}, "classic", {}, "metrics.processes[0].unit",
         "a process of Kedge's", "its predecessor"),
        (CLASSIC | {"processes": [UNIT, UNIT]}, "classic", {}, "metrics.processes[1]", "the process of mirror_maker_adopt.metrics.processes[0] too", "once"),
        (CLASSIC | {"processes": [UNIT | {"stop": ["x"]}]}, "classic", {}, "metrics.processes[0].stop", "beside unit", "unit alone"),
        (CLASSIC | {"offset_reset": "none"}, "classic", {}, "metrics.offset_reset", "'none'", "latest"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_taken_over_is_an_error(
    entry: Any, kind: str, flow: dict[str, Any], name: str, said: str, fix: str
) -> None:
    errors = of_rule(make_plan(inventory(entry, kind, flow)), "inventory.variable", "error")
    assert {e.where.partition(": ")[2] for e in errors} == {f"mirror_maker_adopt.{name}"}
    assert said in errors[0].message
    assert fix in errors[0].fix


def test_an_entry_of_a_flow_that_is_not_planned_names_those_that_are() -> None:
    (error,) = of_rule(make_plan(inventory(CLASSIC, name="metric")), "inventory.variable", "error")
    assert (error.where, error.fix) == (
        "mirror_maker: mirror_maker_adopt.metric",
        "use one of metrics, of mirror_maker_flows",
    )


@pytest.mark.parametrize("kind", ["classic", "mirror_maker_2"])
def test_what_is_taken_over_goes_with_the_plan_and_leaves_its_settings_alone(kind: str) -> None:
    entry = CLASSIC if kind == "classic" else WORKERS
    given = inventory(entry | {"processes": [UNIT, COMMANDS]}, kind)
    assert not make_plan(given).has_errors
    (one,) = adopting_json(given)
    assert one["processes"] == [UNIT, COMMANDS]
    assert one["into"] == "mirror-maker-metrics"
    assert (one["group"], one["own_offsets"]) == (
        ("theirs", "") if kind == "classic" else ("", "mm2-offsets.metrics.internal")
    )
    without = mirrors(2, kind=kind, version="3.9.2" if kind == "classic" else "4.3.1")
    assert make_plan(given).to_json()["hosts"] == make_plan(without).to_json()["hosts"]


def test_two_flows_may_take_over_from_one_mirror_each_with_its_topics() -> None:
    flows = {name: METRICS | {"topics": [f"{name}[.].*"]} for name in ("logs", "metrics", "others")}
    adopt = {"logs": CLASSIC, "metrics": CLASSIC, "others": CLASSIC | {"group": "another"}}
    given = mirrors(2, flows=flows, adopt=adopt)
    assert not of_rule(make_plan(given), "inventory.variable", "error")
    beside = {one["flow"]: one["beside"] for one in adopting_json(given)}
    assert beside == {"logs": ["metrics[.].*"], "metrics": ["logs[.].*"], "others": []}


@pytest.mark.process
def test_a_process_that_is_taken_over_is_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = document(CLASSIC | {"processes": [UNIT, COMMANDS]})
    (mirror,) = occupying(plan, "mm1")
    assert mirror["adopts"] == [UNIT]
    for name in ("ROOT", "ETC"):
        monkeypatch.setattr(kedge_occupied, name, tmp_path)
    words = ["java", "-Xmx1g", "kafka.tools.MirrorMaker", "--consumer.config", "/srv/theirs.properties"]
    monkeypatch.setattr(kedge_occupied, "processes", lambda: ["7"])
    monkeypatch.setattr(kedge_occupied, "words_of", lambda _: words)
    monkeypatch.setattr(kedge_occupied, "unit_of", lambda _: "theirs.service")
    monkeypatch.setattr(kedge_occupied, "belongs", lambda named, _: named["unit"] == "theirs.service")
    assert list(kedge_occupied.in_the_way(mirror, ["mirror-maker"])) == []
    mirror["adopts"] = [UNIT | {"unit": "others.service"}]
    (said,) = kedge_occupied.in_the_way(mirror, ["mirror-maker"])
    assert "Kedge did not start it" in said


def test_the_plan_says_from_what_an_instance_takes_over_and_that_all_stop_first() -> None:
    plan = document(CLASSIC | {"processes": [UNIT, UNIT | {"unit": "second.service"}]})
    assert set(mirrors_adopted(plan, "mm2")) == set()
    assert {named["unit"] for named in mirrors_adopted(plan, "mm1").values()} == {"theirs.service"}
    states = {
        "mm1": {"mirror_maker": {"instances": {"metrics-0": {"state": "adopt"}}}},
        "mm2": {"mirror_maker": {"instances": {"metrics-1": {"state": "new"}}}},
    }
    said = step_lines(steps(states))
    assert said[0] == (
        "1. mirror_maker: stop what mirrors now on all hosts, go on at its positions: mm1 metrics-0"
    )
    assert said[2] == "2. mirror_maker: start: mm2 metrics-1"


RAN = {"name": "theirs.service", "there": True, "runs": True, "mains": ["kafka.tools.MirrorMaker"]}
ENDED = RAN | {"runs": False, "mains": []}


def answered(*of_hosts: dict[str, Any], entry: dict[str, Any] = CLASSIC, **more: Any) -> dict[str, Any]:
    plan = document(entry, **more)
    asked = adopting_hosts(plan)
    assert [(one["host"], one["processes"]) for one in asked] == [("mm1", [UNIT]), ("mm2", [])]
    quiet: dict[str, Any] = {"processes": [], "ours": [], "taking": False}
    found = [{"item": one} | quiet | answer for one, answer in zip(asked, of_hosts, strict=True)]
    return adoptions(plan, found)["metrics"]


@pytest.mark.parametrize(
    ("of_hosts", "due"),
    [
        (({"processes": [RAN]}, {}), True),
        (({"processes": [ENDED]}, {}), True),  # stopped by hand, and nothing of ours runs yet
        (({"processes": [ENDED]}, {"ours": ["metrics-1"]}), False),  # taken over
        (({"processes": [ENDED], "taking": True}, {"ours": ["metrics-1"]}), True),  # killed in between
    ],
)
def test_a_mirror_is_taken_over_once(of_hosts: Any, due: bool) -> None:
    found = answered(*of_hosts)
    assert (found["due"], found["wrong"], found["unknown"]) == (due, [], [])


@pytest.mark.parametrize(
    ("of_hosts", "said"),
    [
        (({"processes": [RAN]}, {"ours": ["metrics-1"]}),
         "mm1 theirs.service and mm2 mirror-maker@metrics-1 run together and copy every record twice"),
        (({"processes": [ENDED | {"there": False}]}, {}), "mm1 has no unit theirs.service"),
        (({"processes": [RAN | {"mains": ["org.apache.kafka.connect.mirror.MirrorMaker"]}]}, {}),
         "theirs.service of mm1 is a MirrorMaker of the kind mirror_maker_2, and mirror_maker_adopt.metrics names "
         "positions of classic"),
    ],
)  # fmt: skip
def test_what_runs_otherwise_than_named_is_refused(of_hosts: Any, said: str) -> None:
    (wrong,) = answered(*of_hosts)["wrong"]
    assert said in wrong


def test_a_host_that_does_not_answer_leaves_it_open_and_starts_nothing() -> None:
    plan = document()
    asked = adopting_hosts(plan)
    found = adoptions(plan, [{"item": one, "msg": "no route", "unreachable": True} for one in asked])[
        "metrics"
    ]
    assert found["due"] is False
    assert found["unknown"] == [f"{h} does not say what runs there: no route" for h in ("mm1", "mm2")]


A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
ENDS = {A0: (10, 100), A1: (0, 50)}


@pytest.mark.parametrize(
    ("theirs", "ours", "reset", "expected"),
    [
        ({A0: 40, A1: 50}, {}, "", Taken({A0: 40, A1: 50}, behind=60)),
        # Ours is of a take over that failed: the later one counts, whosever it is.
        ({A0: 40, A1: 50}, {A0: 30, A1: 20}, "", Taken({A0: 40, A1: 50}, behind=60)),
        ({A0: 40, A1: 10}, {A0: 60, A1: 50}, "", Taken({A0: 60, A1: 50}, behind=40)),
        # What retention has removed meanwhile nobody has.
        ({A0: 3, A1: 50}, {}, "", Taken({A0: 10, A1: 50}, behind=90)),
        # A position beyond the end is of a topic that was made anew.
        ({A0: 101, A1: 50}, {}, "", Taken({A1: 50}, unknown=("a-0",))),
        ({A1: 50}, {}, "", Taken({A1: 50}, unknown=("a-0",))),
        ({A1: 50}, {}, "earliest", Taken({A0: 10, A1: 50}, behind=90)),
        ({A1: 50}, {}, "latest", Taken({A0: 100, A1: 50})),
        # Seen before the stop: what came since is not left out.
        ({A1: 50}, {A0: 90}, "latest", Taken({A0: 90, A1: 50}, behind=10)),
        ({A0: 40, A1: 50, B0: 7}, {}, "", Taken({A0: 40, A1: 50}, 60, uncovered=("b",))),
        ({A0: 40, A1: 50, ("deleted", 0): 7}, {}, "", Taken({A0: 40, A1: 50}, 60)),
    ],
)
def test_a_flow_begins_where_neither_leaves_a_gap_nor_copies_again(
    theirs: Any, ours: Any, reset: str, expected: Taken
) -> None:
    assert taken(theirs, ours, ENDS, ["a", "b"], reset) == expected


def test_a_partition_without_records_needs_no_position() -> None:
    assert taken({A1: 50}, {}, {A0: (7, 7), A1: (0, 50)}, ["a"]) == Taken({A1: 50})


def test_a_topic_that_nobody_is_to_mirror_is_named_or_refused() -> None:
    assert taken({B0: 7}, {}, {}, ["b"], leave_out=["b"]).uncovered == ()
    said = refusal(taken({B0: 7}, {}, {}, ["b"]), "metrics", "group theirs")
    assert said.startswith("group theirs has positions of b, which no topics of flow metrics match")
    assert "mirror_maker_adopt.metrics.leave_out" in said
    said = refusal(taken({A1: 50}, {}, ENDS, ["a"]), "metrics", "group theirs")
    assert said.startswith("group theirs has no position of a-0, which have records")
    assert "Set mirror_maker_adopt.metrics.offset_reset" in said
    assert refusal(taken({A0: 40, A1: 50}, {}, ENDS, ["a"]), "metrics", "group theirs") == ""


def test_of_an_offsets_topic_the_positions_of_the_source_count() -> None:
    key = json.dumps(["MirrorSourceConnector", {"cluster": "leaf", "partition": 0, "topic": "a"}]).encode()
    assert parse_position(key, b'{"offset": 4}', "leaf") == {A0: 5}
    assert parse_position(key, b'{"offset": 4}', "west") == {}


@pytest.mark.parametrize(
    ("own", "refused"), [({}, False), ({A0: 40}, False), ({A0: 39}, True), ({B0: 1}, False)]
)
def test_earlier_positions_in_the_topic_of_a_flow_of_mirror_maker_2_are_refused(
    own: Any, refused: bool
) -> None:
    mirror = object.__new__(kafka_mirror_positions.Mirror)
    mirror.params, mirror.servers = (
        {"own_offsets": "mm2-offsets.metrics.internal", "flow": "metrics"},
        "agg:9092",
    )
    mirror.read = lambda *_: own  # type: ignore[method-assign]
    said = mirror.hidden({A0: 40})
    assert bool(said) is refused
    if refused:
        assert "topic mm2-offsets.metrics.internal of agg:9092 has earlier positions" in said
        assert "delete the topic" in said


def described(read: list[str], *client_ids: str) -> SimpleNamespace:
    """A stub of what a cluster tells of a group."""
    topics = [SimpleNamespace(topic=topic) for topic in read]
    held = SimpleNamespace(topic_partitions=topics)
    return SimpleNamespace(
        members=[SimpleNamespace(client_id=name, host="/10.0.0.9", assignment=held) for name in client_ids]
    )


@pytest.mark.parametrize(
    ("group", "warned"),
    [
        (described(["a", "b", "z"], "theirs-0", "theirs-1"), True),
        (described(["a"], "theirs-0"), False),
        (described(["a", "b"], "theirs-0", "spark"), False),
        (described(["a", "b"], "consumer-theirs-1"), False),
        (described(["a", "b"]), False),
    ],
    ids=["a mirror", "some of the topics", "another client beside", "a consumer", "no member"],
)
def test_a_group_that_reads_all_of_a_flow_as_a_mirror_does_is_warned_of(
    group: SimpleNamespace, warned: bool
) -> None:
    topics, flows = ["a", "b", "c", "__offsets"], {"metrics": {"topics": ["[ab]", "__.*"], "target": "agg"}}
    found = other_mirrors({"theirs": group, "empty": described([])}, topics, flows, ["mirror-maker-metrics"])
    assert [(one["flow"], one["group"]) for one in found] == [("metrics", "theirs")] * warned
    if warned:
        assert found[0]["members"] == ["theirs-0 on 10.0.0.9", "theirs-1 on 10.0.0.9"]
    assert other_mirrors({"theirs": group}, topics, flows, ["theirs"]) == []
    assert other_mirrors({"theirs": group}, ["c"], flows, []) == []


class Units:
    """A stub of a host's units, and of commands."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.up, self.did, self.refused = {"theirs.service"}, list[str](), set[str]()
        monkeypatch.setattr(kedge_predecessor, "ROOT", folder)
        monkeypatch.setattr(kedge_predecessor, "POLL_SECONDS", 0.001)
        monkeypatch.setattr(kedge_predecessor, "run", self.run)
        monkeypatch.setattr(kedge_predecessor.predecessor, "run", self.run)
        self.mark = folder / ".metrics.predecessor"

    def run(self, *words: str, **_: float) -> subprocess.CompletedProcess[str]:
        what, unit = words[1], words[-1]
        if what == "list-units":
            names = "mirror-maker@metrics-0.service loaded\nmirror-maker@metrics-eu-1.service loaded\n"
            return subprocess.CompletedProcess(words, 0, names, "")
        if what == "show":
            return subprocess.CompletedProcess(
                words, 0, "loaded\n" if unit == "theirs.service" else "not-found\n", ""
            )
        if what == "is-active":
            return subprocess.CompletedProcess(words, 0, "active\n" if unit in self.up else "inactive\n", "")
        self.did.append(f"{what} {unit}")
        if f"{what} {unit}" in self.refused:
            return subprocess.CompletedProcess(words, 1, "", "refused")
        if what == "start":
            self.up.add(unit)
        if what == "stop":
            self.up.discard(unit)
        return subprocess.CompletedProcess(words, 0, "", "")


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Units:
    return Units(tmp_path, monkeypatch)


NAMED: list[dict[str, Any]] = [{"unit": "theirs.service"}, {"unit": "spare.service"}]


def test_what_ran_and_nothing_else_is_started_again_also_by_the_next_run(units: Units) -> None:
    assert kedge_predecessor.stopped("metrics", NAMED, 1) == []
    assert (units.up, units.did) == (set(), ["stop theirs.service"])
    assert kedge_predecessor.stopped("metrics", NAMED, 1) == []  # after a kill
    assert kedge_predecessor.started("metrics", NAMED, 1) == []
    assert (units.up, units.did[1:]) == ({"theirs.service"}, ["start theirs.service"])
    assert not units.mark.exists()


def test_one_that_does_not_stop_or_start_is_named_with_what_to_do(units: Units) -> None:
    units.refused |= {"stop theirs.service", "start theirs.service"}
    assert kedge_predecessor.stopped("metrics", NAMED, 1) == ["theirs.service cannot be stopped: refused"]
    units.up.clear()
    assert kedge_predecessor.started("metrics", NAMED, 1) == [
        "theirs.service does not start again: refused; start it by hand (`systemctl start theirs.service`)"
    ]
    assert units.mark.exists()
    units.up.add("spare.service")
    assert kedge_predecessor.awaited(NAMED[1], subprocess.CompletedProcess((), 0, "", ""), False, 0.01) == (
        "after 0.01 s it runs still"
    )


@pytest.mark.parametrize("cut", ["", '["theirs', "null", "7"])
def test_a_note_of_what_ran_that_was_cut_stops_and_starts_nothing(units: Units, cut: str) -> None:
    units.mark.write_text(cut)
    for change in (kedge_predecessor.stopped, kedge_predecessor.started):
        with pytest.raises(
            ValueError, match=r"metrics\.predecessor is empty or cut: .* Write their names there"
        ):
            change("metrics", NAMED, 1)
    assert units.did == []


def test_what_was_taken_over_does_not_start_with_the_host(units: Units) -> None:
    kedge_predecessor.stopped("metrics", NAMED, 1)
    units.refused.add("disable spare.service")
    assert kedge_predecessor.left("metrics", NAMED) == [
        "spare.service was taken over and cannot be disabled: refused"
    ]
    assert units.did[1:] == ["disable theirs.service", "disable spare.service"]
    assert not units.mark.exists()


@pytest.mark.process
def test_a_host_tells_what_is_there_and_runs(units: Units) -> None:
    first, second = (kedge_predecessor.seen(one) for one in NAMED)
    assert (first["there"], first["runs"]) == (True, True)
    assert (second["there"], second["runs"]) == (False, False)
    assert kedge_predecessor.ours("metrics") == ["metrics-0"]
