"""Changes by search with a real HAProxy: from any state to any other, killed and gone on with or back, under load."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import httpx
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from kedge.deploy.deploy_steps import Step, steps
from plugins.module_utils.haproxy import servers, taken_out
from plugins.module_utils.haproxy_trial import trial
from plugins.modules import haproxy_compare, haproxy_drain
from tests.awaiting import await_that
from tests.balancers import (
    Running,
    Speech,
    StandIn,
    files_of,
    free_port,
    placed,
    planned_balancer,
    running,
)
from tests.rest_inventories import rest

pytestmark = pytest.mark.slow

LOGIN = ("anna", "secret-1")
#: Where a release of the balancer is read from once it is active.
LINK = Path("/etc/rest-balancer/haproxy")
BODY = {"records": [{"value": "a2VkZ2U="}]}


class State(NamedTuple):
    """What an inventory says of the proxies behind one balancer."""

    distribution: str = "confluent"
    logins: bool = False
    per_host: int = 2
    first_port: int = 8082
    topic: str = "kedge-ready"
    ill: int | None = None  # the place of a proxy that fails its checks until it is restarted

    @property
    def speech(self) -> Speech:
        """Return what each of its proxies answers."""
        users = (LOGIN,) if self.logins and self.distribution == "confluent" else ()
        return Speech(self.distribution, users)

    @property
    def proxies(self) -> list[str]:
        """Return its proxies, as the balancer names them."""
        return [f"rest1:{self.first_port + number}" for number in range(self.per_host)]


STATES = st.builds(
    State,
    distribution=st.sampled_from(["confluent", "strimzi"]),
    logins=st.booleans(),
    per_host=st.integers(2, 3),
    first_port=st.sampled_from([8082, 8083, 8090]),
    topic=st.sampled_from(["kedge-ready", "other-ready"]),
    ill=st.sampled_from([None, None, 0, 1]),
)


@lru_cache
def planned(state: State) -> dict[str, Any]:
    """Return the planned balancer of a state."""
    version = {"confluent": "8.3.1", "strimzi": "0.33.1"}[state.distribution]
    how: dict[str, Any] = {"users": dict([LOGIN])} if state.speech.users else {}
    how |= {"distribution": state.distribution, "version": version, "ready_topic": state.topic}
    how |= {"instances_per_host": state.per_host, "first_port": state.first_port}
    return planned_balancer(rest(1, groups={"rest_balancer": ("lb1",)}, **how))


class Site:
    """One balancer and its proxies, and what is done to them."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder, self.port = folder, free_port()
        self.sockets = folder / "run"
        self.sockets.mkdir()
        self.up = {
            name: StandIn(replace(state.speech, ill=place == state.ill))
            for place, name in enumerate(state.proxies)
        }
        self.active = self.text(state)
        self.balancer: Running | None = None
        self.releases = 0

    def text(self, state: State, *, changing: bool = False) -> str:
        """Return a balancer's file with its servers on loopback."""
        found = files_of(planned(state), changing=changing)["haproxy.cfg"]
        ports = {name: self.up[name].server_port if name in self.up else 1 for name in state.proxies}
        login = self.folder / "check.map"
        login.write_text("check Basic YW5uYTpzZWNyZXQtMQ==\n")
        return placed(found, ports, self.port, self.sockets).replace(f"{LINK}/check.map", str(login))

    def states(self, target: State) -> dict[str, Any]:
        """Return what plan.yml would find."""
        instances = {
            name: {"state": "new"}
            if name not in self.up
            else {"state": "same" if self.runs(name) == target.speech else "differs"}
            for name in target.proxies
        }
        stale = [name for name in self.up if name not in target.proxies]
        same = self.active == self.text(target)
        return {
            "rest1": {"kafka_rest": {"instances": instances, "stale": stale}},
            "lb1": {"rest_balancer": {"instances": {"haproxy": {"state": "same" if same else "differs"}}}},
        }

    def runs(self, name: str) -> Speech:
        """Return what a proxy was deployed to speak."""
        return replace(self.up[name].speech, ill=False)

    def down_first(self, left: list[Step]) -> list[Step]:
        """Return the steps as restart_batches.yml takes them: instances that are down restart first."""
        assert self.balancer is not None
        found = haproxy_compare.checked(str(self.balancer.socket), "rest", 10)
        down = [name for name, row in found.items() if haproxy_drain.is_down(row)]
        return sorted(left, key=lambda step: not (step.do == "restart" and step.instance in down))

    def take(self, step: Step, target: State) -> None:
        """Do one step, as deploy.yml does it."""
        assert self.balancer is not None
        name = step.instance
        if step.service == "rest_balancer":
            self.activate(self.text(target, changing=step.do == "serve both"))
        elif step.do == "start":
            self.up[name] = StandIn(target.speech)
        elif step.do == "drain":
            found = servers(str(self.balancer.socket), "rest")
            if name in found and haproxy_drain.carried(found, target.proxies):
                self.drain(name)
        elif step.do == "stop":
            haproxy_drain.await_former(self.module(name))
            stand_in = self.up.pop(name)
            stand_in.stop()
        else:
            found = servers(str(self.balancer.socket), "rest")
            assert haproxy_drain.refusal("drain", name, found) is None, (step, self.balancer.statuses())
            self.drain(name)
            self.up[name].speech = target.speech
            self.undrain(name)

    def drain(self, name: str) -> None:
        """Drain a server, as the module does it."""
        haproxy_drain.change(self.module(name), "drain")
        assert haproxy_drain.drain(self.module(name), name) == 0

    def undrain(self, name: str) -> None:
        """Put a server back, as the module does it."""
        haproxy_drain.change(self.module(name), "ready")
        haproxy_drain.await_up(self.module(name), "rest", name)

    def activate(self, text: str) -> None:
        """Ask a configuration what it would see, then have the balancer take it."""
        assert self.balancer is not None
        release = self.folder / f"release-{self.releases}"
        self.releases += 1
        release.mkdir()
        (release / "haproxy.cfg").write_text(text)
        probe = {"socket": str(self.balancer.socket), "backend": "rest"}
        tried = trial(release, probe, LINK, seconds=10)
        assert tried.refusal is None
        self.balancer.reload(text, tried.down)
        self.active = text
        checked(self.balancer)

    def module(self, name: str) -> Any:
        """Return what stands for the module haproxy_drain."""
        assert self.balancer is not None

        def fail_json(**said: Any) -> NoReturn:
            raise AssertionError(said)

        given = {"socket": str(self.balancer.socket), "server": f"rest/{name}", "members": []}
        return SimpleNamespace(params=given | {"drain_seconds": 1, "seconds": 20}, fail_json=fail_json)

    def close(self) -> None:
        for proxy in self.up.values():
            proxy.stop()


def checked(balancer: Running) -> None:
    """Wait until each server was asked at least once."""
    await_that(lambda: all(row["check_status"] != "INI" for row in rows(balancer)), "all are checked")


def rows(balancer: Running) -> list[Mapping[str, str]]:
    return list(servers(str(balancer.socket), "rest").values())


@contextmanager
def asked(port: int) -> Iterator[Counter[str]]:
    """Produce all the while, a connection a request; count what is answered."""
    answers: Counter[str] = Counter()
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            try:
                said = httpx.post(f"http://127.0.0.1:{port}/topics/t", json=BODY, auth=LOGIN, timeout=20)
                answers["good" if said.status_code == 200 else f"{said.status_code} {said.text}"] += 1
            except httpx.HTTPError as error:
                answers[repr(error)] += 1
            done.wait(0.02)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        done.set()
        thread.join()


def change(before: State, after: State, killed: int | None, *, back: bool) -> None:
    """Change the site under load; where it is killed at a step, the next deploy goes on or back."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        site = Site(Path(name), before)
        try:
            with running(site.active, site.port, site.sockets) as site.balancer:
                checked(site.balancer)
                with asked(site.port) as answers:
                    deploy(site, after, killed)
                    if killed is not None:
                        deploy(site, before if back else after, None)
                assert set(answers) == {"good"}, answers
                target = before if back and killed is not None else after
                assert sorted(site.up) == sorted(target.proxies)
                assert site.active == site.text(target)
                ill = {name for name, proxy in site.up.items() if proxy.speech.ill}
                assert all(s.startswith("UP") != (n in ill) for n, s in site.balancer.statuses().items())
        finally:
            site.close()


def deploy(site: Site, target: State, killed: int | None) -> None:
    assert site.balancer is not None
    # What a killed run left drained is put back first, as the role does.
    for server in taken_out(str(site.balancer.socket), "rest"):
        site.undrain(server)
    taken = steps(site.states(target))
    event("nothing to do" if not taken else "expand, migrate, contract" if expands(taken) else "direct")
    left = list(taken)
    for _ in taken[:killed]:
        if left[0].do == "restart":
            left = site.down_first(left)
        site.take(left.pop(0), target)


def expands(taken: list[Step]) -> bool:
    return any(step.do == "serve both" for step in taken)


def found_once(test: Callable[..., None]) -> Callable[..., None]:
    """Have a test try what was asked for by name, beside what is drawn."""
    for before, after, killed, back in (
        (State(), State("strimzi"), None, False),
        (State(logins=True), State(), None, False),
        (State(logins=True), State("strimzi", per_host=3), 2, True),
        # One that is up was to be drained first, beside one that is down.
        (State(ill=1), State("strimzi"), None, False),
        (State(ill=1, per_host=3), State(logins=True, per_host=3), 3, False),
        # The balancer, which did not know it any more, gets one back that runs and is ill.
        (State(ill=1, per_host=3, first_port=8090), State(), 7, True),
    ):
        test = example(before, after, killed, back)(test)
    return test


@found_once
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(STATES, STATES, st.none() | st.integers(1, 8), st.booleans())
def test_no_request_fails_while_a_balancer_and_its_proxies_change(
    before: State, after: State, killed: int | None, back: bool
) -> None:
    change(before, after, killed, back=back)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(STATES, STATES, st.none() | st.integers(1, 8), st.booleans())
def test_no_request_fails_in_hundreds_of_changes(
    before: State, after: State, killed: int | None, back: bool
) -> None:
    change(before, after, killed, back=back)
