"""A balancer and the proxies behind it change together: HAProxy before and between, and what it is asked first."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from ansible.module_utils import releases

from kedge.services.planning import make_plan
from plugins.module_utils.haproxy import keep_down, servers, taken_out
from plugins.module_utils.haproxy_trial import Trial, trial, unseen
from plugins.modules import kedge_instance
from tests.awaiting import await_that
from tests.balancers import (
    Running,
    Speech,
    StandIn,
    changed,
    files_of,
    free_port,
    placed,
    planned_balancer,
    running,
)
from tests.instance_units import instance_unit
from tests.rest_inventories import of_rule, rest

SERVERS = ("rest1:8082", "rest1:8083")
BRIDGE = {"distribution": "strimzi", "version": "0.33.1"}
USERS = {"users": {"anna": "secret-1"}}
LOGIN = (("anna", "secret-1"),)


def balancer(**role: Any) -> dict[str, Any]:
    return planned_balancer(rest(1, groups={"rest_balancer": ("lb1",)}, instances_per_host=2, **role))


class Site:
    """Two stand-ins, and a folder for each release of the balancer before them."""

    def __init__(self, folder: Path, speech: Speech) -> None:
        self.folder, self.port = folder, free_port()
        self.proxies = [StandIn(speech) for _ in SERVERS]
        self.ports = dict(zip(SERVERS, (p.server_port for p in self.proxies), strict=True))

    def release(self, name: str, planned: Mapping[str, Any], *, changing: bool = False) -> Path:
        """Write a release of the balancer as it is staged, its servers on loopback; return its folder."""
        made = self.folder / name
        made.mkdir(exist_ok=True)
        for path, text in files_of(planned, changing=changing).items():
            (made / path).parent.mkdir(exist_ok=True)
            here = path == "haproxy.cfg"
            (made / path).write_text(placed(text, self.ports, self.port, self.folder) if here else text)
        for secret in made.glob("*.map"):
            secret.write_text("check Basic YW5uYTpzZWNyZXQtMQ==\n")
        return made

    def text(self, release: Path) -> str:
        """Return the file of a release as HAProxy reads it once the release is active."""
        return (release / "haproxy.cfg").read_text().replace("/etc/rest-balancer/haproxy/", f"{release}/")

    def trial(self, release: Path, seconds: float = 4) -> Trial:
        probe = {"socket": str(self.folder / "admin.sock"), "backend": "rest"}
        return trial(release, probe, Path("/etc/rest-balancer/haproxy"), seconds)

    def refusal(self, release: Path, seconds: float = 4) -> str | None:
        return self.trial(release, seconds).refusal


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(tmp_path, getattr(request, "param", Speech()))
    yield made
    for proxy in made.proxies:
        proxy.stop()


def all_up(balancer: Running) -> bool:
    return all(status.startswith("UP") for status in balancer.statuses().values())


@pytest.mark.process
@pytest.mark.parametrize(
    ("site", "before", "after", "speech"),
    [
        (Speech(), {}, BRIDGE, {"distribution": "strimzi"}),
        (Speech("strimzi"), BRIDGE, {}, {"distribution": "confluent"}),
        (Speech(users=LOGIN), USERS, {}, {"users": ()}),
        (Speech(), {}, USERS, {"users": LOGIN}),
        (Speech(users=LOGIN), USERS, BRIDGE, {"users": (), "distribution": "strimzi"}),
    ],
    ids=["confluent to strimzi", "back", "users taken away", "users", "both"],
    indirect=["site"],
)
def test_proxies_change_one_by_one_behind_a_balancer_that_has_all_of_them_up(
    site: Site, before: Any, after: Any, speech: Any
) -> None:
    with running(site.text(site.release("old", balancer(**before))), site.port, site.folder) as found:
        await_that(lambda: all_up(found), "all are up")
        between = site.release("between", balancer(**after), changing=True)
        assert site.refusal(between) is None
        found.reload(site.text(between))
        for number, proxy in enumerate(site.proxies):
            # A check of each server since the last change, and every one passed.
            await_that(lambda: all(r["check_status"] != "INI" for r in rows(found)), "all are checked")
            assert all_up(found), number
            found.ask(f"set server rest/{SERVERS[number]} state maint")
            changed(proxy, **speech)
            found.ask(f"set server rest/{SERVERS[number]} state ready")
            await_that(lambda: all_up(found), "it is up again")
        final = site.release("final", balancer(**after))
        assert site.refusal(final) is None
        found.reload(site.text(final))
        await_that(lambda: all(r["check_status"] != "INI" for r in rows(found)), "all are checked")
        assert all_up(found)


def rows(found: Running) -> list[dict[str, str]]:
    return list(servers(str(found.socket), "rest").values())


@pytest.mark.process
def test_a_configuration_that_would_see_no_server_up_is_refused_with_what_it_sees(site: Site) -> None:
    with running(site.text(site.release("old", balancer())), site.port, site.folder) as found:
        await_that(lambda: all_up(found), "all are up")
        new = site.release("new", balancer(**BRIDGE))
        said = "it would take out what is up: rest1:8082 L7STS 404"
        await_that(lambda: str(site.refusal(new, seconds=2)).startswith(said), "it is refused")
        # Nobody noticed: the trial took no client and no socket of the one that runs.
        assert all_up(found)
        assert found.client.post("/topics/t", json={}).status_code == 200


@pytest.mark.process
def test_a_trial_beside_a_balancer_that_sees_nothing_may_be_the_way_out(site: Site) -> None:
    """What an older kit left: the balancer asks as bridges are asked, and no proxy is one yet."""
    with running(site.text(site.release("blind", balancer(**BRIDGE))), site.port, site.folder) as found:
        await_that(lambda: not any(s.startswith("UP") for s in found.statuses().values()), "none is up")
        same = site.release("same", balancer(**BRIDGE))
        said = "it would see no instance up: rest1:8082 L7STS 404 Not Found, rest1:8083 L7STS 404 Not Found"
        # On a busy machine a trial may end before its first checks do.
        await_that(lambda: site.refusal(same, seconds=2) == said, "it is refused")
        assert site.refusal(site.release("between", balancer(**BRIDGE), changing=True)) is None


@pytest.mark.process
def test_a_trial_of_what_haproxy_refuses_ends_with_its_words(site: Site) -> None:
    broken = site.release("broken", balancer())
    (broken / "haproxy.cfg").write_text((broken / "haproxy.cfg").read_text() + "\nnonsense\n")
    assert "nonsense" in str(site.refusal(broken))


@pytest.mark.process
def test_an_instance_that_is_ill_stays_out_while_others_change(site: Site) -> None:
    changed(site.proxies[1], ill=True)
    between = site.release("between", balancer(), changing=True)
    with running(site.text(between), site.port, site.folder) as found:
        await_that(lambda: found.status("rest1:8083").startswith("DOWN"), "it is out")
        assert found.status("rest1:8082").startswith("UP")


@pytest.mark.process
def test_a_reload_sends_nothing_to_a_server_that_was_down_before(site: Site) -> None:
    changed(site.proxies[1], ill=True)
    release = site.release("same", balancer())
    with running(site.text(release), site.port, site.folder) as found:
        await_that(lambda: found.status("rest1:8083").startswith("DOWN"), "it is down")
        found.reload(site.text(release))
        assert found.status("rest1:8083").startswith("DOWN"), "it was not checked yet"
        asked = [httpx.post(f"http://127.0.0.1:{site.port}/topics/t", json={}) for _ in range(10)]
        assert {said.status_code for said in asked} == {200}
        changed(site.proxies[1], ill=False)
        await_that(lambda: all_up(found), "it is up again")


@pytest.mark.process
def test_a_reload_keeps_nothing_where_no_server_is_up(site: Site) -> None:
    """The new configuration may ask in a way that they all know."""
    for proxy in site.proxies:
        changed(proxy, ill=True)
    with running(site.text(site.release("same", balancer())), site.port, site.folder) as found:
        await_that(lambda: not any(s.startswith("UP") for s in found.statuses().values()), "none is up")
        assert "rest1:" not in keep_down(str(found.socket), "rest").read_text()


@pytest.mark.process
def test_a_server_that_is_new_to_a_balancer_gets_no_request_while_it_is_ill(site: Site) -> None:
    both = site.release("both", balancer())
    text = site.text(both)
    changed(site.proxies[1], ill=True)
    with running(without(SERVERS[1], text), site.port, site.folder) as found:
        await_that(lambda: all_up(found), "the only one is up")
        found.reload(text, site.trial(both, 20).down)
        assert found.status(SERVERS[1]).startswith("DOWN")
        url = f"http://127.0.0.1:{site.port}/topics/t"
        assert {httpx.post(url, json={}).status_code for _ in range(6)} == {200}
        changed(site.proxies[1], ill=False)
        await_that(lambda: all_up(found), "its check passes")


@pytest.mark.process
def test_a_server_that_answers_no_check_keeps_no_configuration_out(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site.ports[SERVERS[1]] = silent.getsockname()[1]
        both = site.release("both", balancer())
        with running(without(SERVERS[1], site.text(both)), site.port, site.folder):
            tried = site.trial(both, 2)
    assert tried.refusal is None
    assert SERVERS[1] not in tried.down


def without(server: str, text: str) -> str:
    """Return a file that has no line of a server."""
    return "".join(line for line in text.splitlines(keepends=True) if server not in line)


@pytest.mark.process
@pytest.mark.parametrize("state", ["drain", "maint"])
def test_a_reload_leaves_a_server_out_that_somebody_took_out(site: Site, state: str) -> None:
    text = site.text(site.release("same", balancer()))
    with running(text, site.port, site.folder) as found:
        await_that(lambda: all_up(found), "both are up")
        found.ask(f"set server rest/rest1:8083 state {state}")
        found.reload(text)
        assert taken_out(str(found.socket), "rest") == {"rest1:8083": state}
        assert {
            httpx.post(f"http://127.0.0.1:{site.port}/topics/t", json={}).status_code for _ in range(4)
        } == {200}
        assert site.proxies[1].topics["t"] == 0
        assert site.proxies[0].topics["t"] == 4


class Balancer:
    """A balancer's folders, where a release is in force once it is linked; HAProxy is a double that reloads."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, refuses: str | None, ready: bool
    ) -> None:
        self.home = folder / "kedge" / "rest-balancer" / "haproxy"
        for release in ("old", "new"):
            (self.home / "releases" / release).mkdir(parents=True)
            (self.home / "releases" / release / "unit.service").write_text("[Service]\n")
        for marker in ("good", "started", "running"):
            (self.home / marker).write_text("old\n")
        done = subprocess.CompletedProcess([], 0, "", "")
        for name, double in {
            "ROOT": folder / "kedge",
            "SYSTEMD": folder,
            "systemctl": lambda *words: self.did.append(words[0]) or done,
        }.items():
            for module in (kedge_instance, kedge_instance.way_back):
                monkeypatch.setattr(module, name, double, raising=module is kedge_instance)
        monkeypatch.setattr(releases, "ROOT", folder / "kedge")
        monkeypatch.setattr(kedge_instance.haproxy, "has_learned", lambda _: True)
        monkeypatch.setattr(kedge_instance.haproxy, "worker", lambda _: "1")
        monkeypatch.setattr(kedge_instance.haproxy, "keep_down", self.keep_down)
        monkeypatch.setattr(kedge_instance.haproxy_trial, "trial", lambda *_: Trial(refuses, "rest1:8083"))
        self.folder = folder
        self.did: list[str] = []
        self.kept: list[str] = []
        probes = {"haproxy": {"kind": "haproxy", "socket": "/nowhere", "backend": "rest"}}
        self.instance = instance_unit(
            "haproxy",
            "new",
            unit="rest-balancer",
            service="rest_balancer",
            ready=probes,
            state="reloaded",
            ready_seconds=0.1,
        )
        self.instance.link = folder / "etc" / "haproxy"
        self.instance.put_in_force("old")
        self.did.clear()
        self.instance.journal = lambda: "last words"
        unready = "no instance is up: rest1:8082 DOWN"
        self.instance.wait_ready = lambda **_: unready if not ready and self.runs() == "new" else None

    def keep_down(self, _socket: str, _backend: str, seen: str) -> Path:
        self.kept.append(seen)
        return self.folder / "down.state"

    def runs(self) -> str | None:
        return self.instance.current()  # type: ignore[no-any-return]


def test_a_configuration_that_its_trial_refuses_never_goes_into_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Balancer(tmp_path, monkeypatch, "it would see no instance up: rest1:8082 L7STS 404", ready=True)
    said = str(found.instance.run())
    assert said.startswith("it would see no instance up: rest1:8082 L7STS 404. Its new configuration was not")
    assert found.runs() == "old"
    assert "reload" not in found.did


def test_a_balancer_that_does_not_run_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Balancer(tmp_path, monkeypatch, "it would see no instance up", ready=True)
    monkeypatch.setattr(kedge_instance, "systemctl", lambda *_: SimpleNamespace(returncode=3))
    assert found.instance.blind("new") is None


def test_a_reload_that_sees_no_server_up_all_the_same_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Balancer(tmp_path, monkeypatch, None, ready=False)
    said = str(found.instance.run())
    assert said.startswith("no instance is up: rest1:8082 DOWN; the previous release old is back and running")
    assert found.runs() == "old"
    assert found.did.count("reload") == 2
    assert found.kept == ["rest1:8083", ""], "the former configuration was not tried"
    assert "stop" not in found.did


UP = {"status": "UP", "check_status": "L7OK"}
DOWN = {"status": "DOWN", "check_status": "L7STS", "check_code": "404", "last_chk": ""}


@pytest.mark.parametrize(
    ("found", "in_force", "said"),
    [
        ({"a": UP, "b": UP}, {"a": UP, "b": UP}, None),
        ({"a": UP, "b": DOWN}, {"a": UP, "b": DOWN}, None),
        ({"a": UP, "b": DOWN}, {"a": UP, "b": UP}, "it would take out what is up: b L7STS 404"),
        ({"a": UP}, {"a": UP, "b": UP}, None),
        ({"c": UP}, {"a": UP}, None),
        ({"c": DOWN}, {"a": UP}, "it would see no instance up: c L7STS 404"),
        ({"a": {**UP, "check_status": "INI"}}, {}, "it would see no instance up: a INI"),
    ],
)
def test_a_configuration_has_to_see_one_up_and_what_the_running_one_has_up(
    found: Any, in_force: Any, said: str | None
) -> None:
    assert unseen(found, in_force) == said


def test_two_clusters_behind_one_balancer_are_refused_with_the_fix() -> None:
    inventory = rest(2, groups={"rest_balancer": ("lb1",)})
    inventory.hosts["rest2"]["kafka_rest_cluster"] = "agg"  # type: ignore[index]
    (error,) = of_rule(make_plan(inventory), "balancer.cluster", "error")
    assert error.where == "rest2 kafka_rest"
    assert "kafka_rest_cluster is agg, and leaf on rest1" in error.message
    assert "one kafka_rest_cluster" in error.fix
    alone = rest(2)
    alone.hosts["rest2"]["kafka_rest_cluster"] = "agg"  # type: ignore[index]
    assert of_rule(make_plan(alone), "balancer.cluster") == []
