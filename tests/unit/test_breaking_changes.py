"""What clients notice of a deploy: found before a host is touched, refused unless it was allowed by name."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.breaking_changes import FIRST, notices, refusal
from kedge.deploy.deploy_steps import Step, step_lines
from kedge.deploy.drift import describe
from kedge.deploy.rendering import render_instance
from kedge.plan.hosts import Inventory
from kedge.plan.running import Notice
from kedge.services.mirror.notices import notices_beside, notices_unknown, others_of_flows
from kedge.services.planning import make_plan
from kedge.services.rest.notices import KEPT_PORT
from lab.bench.hosts.__main__ import played, write_inventory
from plugins.action.kedge_drift import comparison
from plugins.filter.kedge import noticed_refusal
from tests.compared import Compare, compared, sealed
from tests.planned import CLUSTERS, METRICS, mirrors
from tests.rest_inventories import rest
from tests.unit.test_sizing_broker import OURS, brokers

USERS = {"anna": "secret-1"}
TLS = {"certificate": "/srv/a.pem", "key": "/srv/a.key", "ca": "/srv/ca.pem"}
BALANCER_TLS = {"certificate": "/srv/a.pem", "key": "/srv/a.key"}


def instance(service: str, host: str, **variables: Any) -> dict[str, Any]:
    inventory = rest(1, groups={"rest_balancer": ("lb1",)}, common=variables)
    found = make_plan(inventory).to_json()["hosts"][host]["services"][service]["instances"]
    return dict(found[0])


@pytest.fixture(params=[True, False], ids=["rows", "texts"])
def compare(request: pytest.FixtureRequest, tmp_path: Path) -> Compare:
    """What a host answers whose release has rows, and one whose release is of Kedge 0.1."""
    return compared(tmp_path, rows=request.param)


def balancer(compare: Compare, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Which names a change of the balancer's variables needs."""
    was, is_ = (instance("rest_balancer", "lb1", **given) for given in (before, after))
    return [
        notice.name
        for notice in notices(compare("rest-balancer", was, is_), "rest-balancer", [sealed(is_)[0]])
    ]


def test_nothing_is_noticed_where_only_settings_change(compare: Compare) -> None:
    assert balancer(compare, {}, {"kafka_rest_instances_per_host": 2}) == []
    assert balancer(compare, {"rest_balancer_users": USERS}, {}) == []


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ({}, {"rest_balancer_port": 9000}, "balancer_port"),
        ({}, {"rest_balancer_tls": BALANCER_TLS}, "tls"),
        ({"rest_balancer_tls": BALANCER_TLS}, {}, "tls"),
        ({}, {"rest_balancer_users": USERS}, "login"),
        ({"rest_balancer_users": {**USERS, "bert": "secret-2"}}, {"rest_balancer_users": USERS}, "login"),
        ({"rest_balancer_users": USERS}, {"rest_balancer_users": {"anna": "secret-2"}}, "login"),
    ],
    ids=["port", "TLS", "no TLS", "login", "one login less", "another password"],
)
def test_what_clients_notice_of_a_balancer(compare: Compare, before: Any, after: Any, name: str) -> None:
    assert balancer(compare, before, after) == [name]


def test_a_port_that_somebody_changed_on_the_host_is_noticed_when_it_is_put_back(tmp_path: Path) -> None:
    edited = compared(tmp_path, rows=True, edited=("haproxy.cfg", ":8080", ":9000"))
    assert balancer(edited, {}, {}) == ["balancer_port"]


def test_a_login_more_at_the_balancer_is_not_noticed(compare: Compare) -> None:
    two = {"rest_balancer_users": {**USERS, "bert": "secret-2"}}
    assert balancer(compare, {"rest_balancer_users": USERS}, two) == []


@pytest.mark.parametrize("lost", [{"carl": "secret-3"}, {"anna": "secret-9", "bert": "secret-2"}])
def test_a_login_that_goes_is_noticed_beside_one_that_comes(tmp_path: Path, lost: dict[str, str]) -> None:
    more = {"rest_balancer_users": {**lost, "dora": "secret-4"}}
    compare = compared(tmp_path, rows=True)
    assert balancer(compare, {"rest_balancer_users": USERS}, more) == ["login"]


@pytest.mark.parametrize(
    ("variables", "had", "balanced", "names"),
    [
        ({}, ["kafka-rest.properties"], True, []),
        ({"kafka_rest_users": USERS}, ["kafka-rest.properties"], True, ["login"]),
        ({"kafka_rest_users": USERS}, ["users.properties"], True, []),
        ({}, ["users.properties"], True, []),
        ({"kafka_rest_tls": TLS}, [], True, [KEPT_PORT]),
        ({"kafka_rest_tls": TLS}, [], False, ["tls"]),
        ({}, ["listener.pem"], False, ["tls"]),
    ],
)
def test_what_clients_notice_of_a_proxy(
    variables: Any, had: list[str], balanced: bool, names: list[str]
) -> None:
    one = instance("kafka_rest", "rest1", **variables)
    answer = {"instances": [{"current": "1", "in_force": had}], "diff": []}
    assert [n.name for n in notices(answer, "kafka-rest", [one], balanced=balanced)] == names
    new = {"instances": [{"current": None, "in_force": []}], "diff": []}
    assert notices(new, "kafka-rest", [one], balanced=balanced) == []


STRIMZI = {"kafka_rest_distribution": "strimzi", "kafka_rest_version": "0.33.1"}


def reached(servers: str) -> dict[str, Any]:
    return {"kafka_clusters": {"leaf": {**CLUSTERS["leaf"], "bootstrap_servers": servers}}}


@pytest.mark.parametrize("software", [{}, STRIMZI])
@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({}, {"kafka_rest_cluster": "agg"}, ["cluster"]),
        (reached("a:9092,b:9092"), reached("b:9092,c:9092"), []),
        (reached("a:9092"), reached("a:9093"), []),
        (reached("[fd00::1]:9092"), reached("[fd00::2]:9092"), ["cluster"]),
    ],
)
def test_proxies_that_move_to_another_cluster_are_noticed(
    compare: Compare,
    software: dict[str, Any],
    before: dict[str, Any],
    after: dict[str, Any],
    names: list[str],
) -> None:
    was, is_ = (instance("kafka_rest", "rest1", **software, **given) for given in (before, after))
    answer = compare("kafka-rest", was, is_)
    assert [n.name for n in notices(answer, "kafka-rest", [is_], balanced=True)] == names


def broker(compare: Compare, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Which notices a change of the variables of cluster leaf's brokers has at leaf1."""
    was, is_ = (of_leaf1(**given) for given in (before, after))
    return [notice.name for notice in notices(compare("kafka-broker", was, is_), "kafka-broker", [is_])]


def of_leaf1(hosts: int = 3, added: bool | None = None, **variables: Any) -> dict[str, Any]:
    inventory = brokers([f"leaf{n}" for n in range(1, hosts + 1)], **variables)
    every = {host: dict(its) for host, its in inventory.hosts.items()}
    if added is not None:
        every[f"leaf{hosts}"] |= {"kafka_broker_controller": added}
    found = make_plan(Inventory(every, inventory.groups)).to_json()["hosts"]["leaf1"]["services"]
    return dict(found["kafka_broker"]["instances"][0])


def secured(**security: Any) -> dict[str, Any]:
    users = {"broker": "secret-9", "kedge": "secret-8"}
    login = {"protocol": "SASL_PLAINTEXT", "user": "kedge", "password": "secret-8", "users": users}
    return {"kafka_clusters": {"leaf": OURS["leaf"] | {"security": login | security}}}


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({}, {"kafka_broker_settings": {"num.io.threads": 12}}, []),
        ({}, {"hosts": 4}, ["broker_quorum"]),
        ({"hosts": 1}, {"hosts": 3}, ["broker_quorum"]),
        ({}, {"hosts": 4, "added": False}, []),
        ({}, {"kafka_broker_port": 9192}, ["broker_port"]),
        ({"hosts": 1}, {"hosts": 1, "kafka_broker_id": 7}, ["broker_identity", "broker_quorum"]),
        ({}, secured(), ["brokers_security"]),
        (secured(), {}, ["brokers_security"]),
        (secured(), secured(mechanism="SCRAM-SHA-256"), ["brokers_security"]),
        ({"hosts": 1}, {"hosts": 1} | secured(), ["cluster_security"]),
        ({}, {"kafka_broker_settings": {"inter.broker.listener.name": "INTERNAL"}}, ["brokers_security"]),
    ],
    ids=[
        "settings",
        "a controller more",
        "from one to three",
        "a broker more",
        "port",
        "id",
        "logins",
        "no logins",
        "mechanism",
        "logins of an only broker",
        "the listener between brokers",
    ],
)
def test_what_a_cluster_would_lose_by_a_change_of_its_brokers(
    compare: Compare, before: dict[str, Any], after: dict[str, Any], names: list[str]
) -> None:
    assert broker(compare, before, after) == names


PREPARING = {"settings": {"agg.exactly.once.source.support": "preparing"}}


def worker(flow: dict[str, Any]) -> dict[str, Any]:
    """A worker of MirrorMaker 2 of flow metrics, as the plan's JSON has it."""
    plan = make_plan(mirrors(1, flow, kind="mirror_maker_2", version="4.3.1"))
    return dict(plan.to_json()["hosts"]["mm1"]["services"]["mirror_maker"]["instances"][0])


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"exactly_once": True}, ["turns exactly_once on"]),
        ({"exactly_once": True}, {}, ["turns exactly_once off"]),
        ({}, {"latency_budget_ms": 9000}, []),
        ({"exactly_once": True}, {"exactly_once": True, "latency_budget_ms": 9000}, []),
        # Kafka's own way: every worker prepares first.
        ({}, PREPARING, []),
        (PREPARING, {"exactly_once": True}, []),
    ],
)
def test_a_flow_that_runs_cannot_change_exactly_once_worker_by_worker(
    compare: Compare, before: dict[str, Any], after: dict[str, Any], said: list[str]
) -> None:
    was, is_ = worker(before), worker(after)
    answer = compare("mirror-maker", was, is_)
    found = notices(answer, "mirror-maker", [is_])
    assert [notice.said.partition(" (")[0] for notice in found] == said
    assert ("systemctl stop" in refusal({"mm1 mirror_maker": found}, [])) is bool(said)
    assert "allow=" not in refusal({"mm1 mirror_maker": found}, [])
    answer["instances"][0] |= {"active": False}
    assert notices(answer, "mirror-maker", [is_]) == []


def test_a_change_that_would_harm_the_cluster_is_not_offered_by_name() -> None:
    notice = Notice("leaf", "broker_quorum", "has the controllers 1, 2, 3 in place of 1")
    said = refusal({"leaf1 kafka_broker": [notice]}, ["login"])
    assert "set kafka_broker_controller: false on added hosts" in said
    assert "allow=" not in said


LOGIN = Notice("8082", "login", "asks for a login (kafka_rest_users)")


def test_what_nobody_allowed_is_refused_with_what_clients_do_first_and_what_to_type() -> None:
    said = refusal({"rest1 kafka_rest": [LOGIN], "rest2 kafka_rest": [LOGIN]}, [])
    assert said == (
        "Clients would notice: rest1 kafka_rest@8082, rest2 kafka_rest@8082 asks for a login (kafka_rest_users). "
        "Give clients the login first: a proxy or balancer that asks for none ignores it, "
        "then run the playbook again with -e allow=login"
    )
    assert refusal({"rest1 kafka_rest": [LOGIN]}, ["login"]) == ""
    assert "-e allow=login,tls" in refusal({"rest1 kafka_rest": [LOGIN]}, ["tls"])


def test_what_cannot_be_done_at_a_kept_port_is_not_offered() -> None:
    said = refusal({"rest1 kafka_rest": [Notice("8082", KEPT_PORT, "speaks TLS at a port in use")]}, ["tls"])
    assert "Set kafka_rest_first_port to another port in the same deploy" in said
    assert "allow=" not in said


@pytest.mark.parametrize("kind", ["failed", "unreachable"])
def test_why_a_host_cannot_be_compared_drives_no_terminal_and_is_no_page(kind: str) -> None:
    answer = {kind: True, "msg": f"a banner\n\x1b[2Jno space{'!' * 9000}"}
    said = comparison({}, "kafka_rest", lambda: answer)["ansible_facts"]["kedge_drift"]["kafka_rest"][kind]
    assert said.startswith("\\x1b[2Jno space!")
    assert len(said) < 600


@pytest.mark.parametrize("kind", ["failed", "unreachable"])
def test_what_cannot_be_compared_is_refused_whatever_is_allowed(kind: str) -> None:
    drift = {
        "leaf1": {"kafka_broker": {kind: "no space left on device"}},
        "leaf2": {"kafka_broker": {"noticed": []}},
    }
    assert noticed_refusal(drift, "login") == (
        "leaf1 kafka_broker cannot be compared with the plan: no space left on device. "
        "Fix that, then run the playbook again"
    )


def test_what_a_notice_quotes_of_a_host_drives_no_terminal() -> None:
    text = "node.id={}\nlisteners=PLAINTEXT://leaf1:9092\n"
    files = {"before": text.format("1\x1b[2J"), "after": text.format(1)}
    header = "/etc/kafka-broker/leaf/server.properties"
    state = {"current": "a1", "active": True, "in_force": []}
    answer = {"diff": [{"before_header": header, **files}], "instances": [state]}
    (found,) = notices(answer, "kafka-broker", [{"name": "leaf", "settings": []}])
    assert found.said == r"changes its id from 1\x1b[2J to 1"


def test_a_name_that_allows_nothing_is_named() -> None:
    assert refusal({}, ["logins"]) == (f"allow=logins: write one or more of {', '.join(FIRST)}")


def test_the_plan_shows_what_clients_notice_below_each_step() -> None:
    done = [
        Step("restart", "rest1", "kafka_rest", "8082"),
        Step("reload", "lb1", "rest_balancer", "haproxy"),
    ]
    assert step_lines(done, {("lb1", "rest_balancer", "haproxy"): "listens on *:9000"}) == [
        "1. kafka_rest: restart behind the gates, one at a time or in the plan's batches: rest1 8082",
        "   clients notice: a rebalance of groups with consumers there",
        "2. rest_balancer: reload: lb1 haproxy",
        "   clients notice: listens on *:9000",
    ]
    adopted = Step("adopt", "mm1", "mirror_maker", "metrics-0")
    said = "starts while it is not known whether mm2 runs its flow"
    lines = step_lines([adopted], {("mm1", "mirror_maker", "metrics-0"): said})
    assert lines[-1] == f"   clients notice: {said}"


@pytest.mark.slow
def test_a_deploy_stops_before_a_host_is_touched_unless_it_was_allowed_by_name(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    hosts = json.loads((tmp_path / "hosts.yml").read_text())
    hosts["all"]["vars"] |= {"kafka_rest_users": USERS}
    (tmp_path / "hosts.yml").write_text(json.dumps(hosts))
    with pytest.raises(RuntimeError, match="again with -e allow=login"):
        played(tmp_path, ["deploy.yml"])
    calls = (tmp_path / "calls").read_text().split()
    assert "kedge_instance" not in calls
    # Hosts are asked for what was deployed, once each; what was refused is noted on none.
    assert calls.count("kedge_deployed_record") == len(hosts_of(tmp_path))
    played(tmp_path, ["deploy.yml", "-e", "allow=login"])
    assert "kedge_instance" in (tmp_path / "calls").read_text()


RUNNING = {
    "name": "metrics-0",
    "release": "0",
    "current": "1",
    "active": True,
    "pending": True,
    "in_force": ["mm2.properties"],
}
STOPPED = RUNNING | {"active": False}
NEW = STOPPED | {"current": None, "in_force": []}
TURNED = {
    "before": "# Rendered from the plan\ntasks.max=4\n",
    "after": "# Rendered from the plan\ntasks.max=4\nagg.exactly.once.source.support=enabled\n",
    "before_header": "/etc/mirror-maker/metrics-0/mm2.properties",
}


def mirroring(
    folder: Path,
    workers: dict[str, tuple[dict[str, Any], bool]],
    *words: str,
    others: Sequence[dict[str, Any]] = (),
) -> str:
    """Play a playbook on stubs of hosts, each with a worker and whether that turns exactly_once on; return what it says.

    A host without a worker takes no connection. ``others`` are processes that mm2 has besides.
    """
    write_inventory(folder, 1)
    hosts = json.loads((folder / "hosts.yml").read_text())["all"]
    away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts["children"]["mirror_maker"] = {"hosts": {h: {} if h in workers else away for h in ("mm1", "mm2")}}
    hosts["vars"] |= {
        "kafka_clusters": CLUSTERS,
        "mirror_maker_kind": "mirror_maker_2",
        "mirror_maker_version": "4.3.1",
        "mirror_maker_flows": {"metrics": METRICS | {"exactly_once": True, "processes": 2}},
    }
    (folder / "hosts.yml").write_text(json.dumps({"all": hosts}))
    answers = {
        f"{host} kedge_release": {
            "instances": [worker],
            "restart": ["metrics-0"],
            "stale": [],
            "diff": [TURNED] if turns else [],
        }
        for host, (worker, turns) in workers.items()
    }
    if others:
        answers["mm2 kedge_release"]["instances"] += others
        answers["mm2 kedge_release"]["stale"] = [one["name"] for one in others]
    says = folder / "says.json"
    says.write_text(json.dumps(answers))
    with contextlib.suppress(RuntimeError):
        played(folder, list(words), KEDGE_SAYS=str(says))
    assert "kedge_instance" not in (folder / "calls").read_text()
    return " ".join((folder / "output").read_text().split())


@pytest.mark.slow
def test_a_deploy_stops_before_a_host_is_touched_where_a_flow_that_runs_changes_exactly_once(
    tmp_path: Path,
) -> None:
    said = mirroring(tmp_path, {"mm1": (RUNNING, True), "mm2": (RUNNING, False)}, "deploy.yml")
    assert "mm1 mirror_maker@metrics-0 turns exactly_once on" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("here", "left_out", "refused"),
    [
        (
            (NEW, True),
            {"mm2": (RUNNING, True)},
            "turns exactly_once on (mirror_maker_flows) while its flow runs",
        ),
        (
            (STOPPED, True),
            {},
            "starts while it is not known whether mm2, which --limit leaves out, runs its flow as "
            "classic or with another exactly_once:",
        ),
        ((NEW, True), {"mm2": (RUNNING, False)}, ""),
        ((STOPPED, False), {}, ""),
    ],
    ids=["one with another setting runs", "it does not answer", "one with the same runs", "as it ran before"],
)
def test_a_limit_starts_no_worker_beside_one_with_another_exactly_once_that_it_leaves_out(
    tmp_path: Path,
    here: tuple[dict[str, Any], bool],
    left_out: dict[str, tuple[dict[str, Any], bool]],
    refused: str,
) -> None:
    # The tag has no host in the limit: only what is looked at before the first change is played.
    words = ("deploy.yml", "--limit", "localhost,mm1", "--tags", "kafka_rest")
    said = mirroring(tmp_path, {"mm1": here, **left_out}, *words)
    assert ("fatal: " in said) is bool(refused), said
    harm = (
        f"No host was touched. No order of steps does this without harm: mm1 mirror_maker@metrics-0 {refused}"
    )
    assert harm in said or not refused
    assert ("mm2 kedge_release" in (tmp_path / "calls").read_text()) is bool(left_out)


@pytest.mark.slow
def test_a_limited_plan_shows_beside_which_worker_one_must_not_start(tmp_path: Path) -> None:
    workers = {"mm1": (STOPPED, True), "mm2": (RUNNING, True)}
    said = mirroring(tmp_path, workers, "plan.yml", "--limit", "localhost,mm1")
    assert (
        "start: mm1 metrics-0 clients notice: turns exactly_once on (mirror_maker_flows) while its flow runs on "
        "mm2, which --limit leaves out" in said
    )


CLASSIC = RUNNING | {"in_force": ["consumer.properties"]}
BOTH_KINDS = "metrics-0 starts mirror_maker_2 (mirror_maker_kind) while classic mirrors its flow on mm2"


def beside(
    answer: Mapping[str, Any], instances: Sequence[Mapping[str, Any]], starting: Sequence[Mapping[str, Any]]
) -> list[Notice]:
    return notices_beside("mm2", answer, notices(answer, "mirror-maker", instances), starting)


def test_a_worker_does_not_start_beside_the_other_kind_on_a_host_that_a_limit_leaves_out() -> None:
    classic = {"instances": [CLASSIC], "diff": []}
    starting = [worker({})]
    said = refusal({"mm1 mirror_maker": beside(classic, starting, starting)}, [])
    assert BOTH_KINDS in said
    assert "Stop the mirrors on all hosts (systemctl stop mirror-maker.target), then run" in said
    classic["instances"][0] = CLASSIC | {"active": False}
    assert beside(classic, starting, starting) == []


@pytest.mark.slow
def test_a_worker_does_not_start_beside_a_classic_process_of_another_number(tmp_path: Path) -> None:
    workers = {"mm1": (NEW, True), "mm2": (NEW, True)}
    words = ("deploy.yml", "--limit", "localhost,mm1", "--tags", "kafka_rest")
    said = mirroring(tmp_path, workers, *words, others=[CLASSIC | {"name": "metrics-1"}])
    assert f"No order of steps does this without harm: mm1 mirror_maker@{BOTH_KINDS}" in said


def test_a_worker_does_not_start_beside_one_of_another_number_with_another_exactly_once() -> None:
    starting = [worker({"exactly_once": True})]
    others = list(others_of_flows(["metrics-1", "metrics-eu-1", "metrics-1b", "metrics"], starting))
    assert [one["name"] for one in others] == ["metrics-1"]
    turned = TURNED | {"before_header": "/etc/mirror-maker/metrics-1/mm2.properties"}
    answer = {"instances": [NEW, RUNNING | {"name": "metrics-1"}], "diff": [turned]}
    found = beside(answer, [*starting, *others], starting)
    assert [(one.instance, one.name) for one in found] == [("metrics-0", "mirror_exactly_once")]


@pytest.mark.parametrize(("had", "refused"), [("", True), ("clusters=leaf, agg\n", False)])
def test_a_worker_that_was_classic_does_not_start_while_a_host_left_out_does_not_answer(
    had: str, refused: bool
) -> None:
    one = worker({})
    after = render_instance("mirror-maker", one)["mm2.properties"]
    diff = {"before": had, "after": after, "before_header": "/etc/mirror-maker/metrics-0/mm2.properties"}
    answer = {"instances": [STOPPED], "diff": [diff], "stale": []}
    compared = describe(answer, "mirror-maker", [one])["instances"]
    assert compared["metrics-0"]["state"] == "off"
    assert bool(notices_unknown("mm2", "no route", compared)) is refused


def hosts_of(path: Path) -> set[str]:
    nodes = json.loads((path / "hosts.yml").read_text())["all"]["children"]
    return {host for group in nodes.values() for host in group.get("hosts", {})}
