"""A balancer is ready when it serves: a real HAProxy with the planned file, asked as a deploy asks it."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kedge.deploy.rendering import parts_of
from kedge.services.balancer.probe import balancer_probe
from kedge.services.balancer.security import FOLDER, token
from kedge.services.planning import make_plan
from plugins.module_utils import probes
from plugins.module_utils.haproxy import worker
from plugins.module_utils.haproxy_trial import trial
from tests.awaiting import await_that
from tests.balancers import (
    Speech,
    StandIn,
    answers,
    files_of,
    free_port,
    placed,
    planned_balancer,
    running,
)
from tests.instance_units import instance_unit
from tests.kafka.certificates import make_authority, make_certificate
from tests.rest_inventories import of_rule, rest

pytestmark = pytest.mark.process

ANNA = {"anna": "secret-1"}


class Site:
    """A planned balancer, running before one stand-in, and the probe by which a deploy asks it."""

    def __init__(self, folder: Path, speech: Speech, **common: Any) -> None:
        self.proxy = StandIn(speech)
        users = dict(speech.users)
        inventory = rest(groups={"rest_balancer": ("lb1",)}, instances_per_host=1, common=common, users=users)
        self.planned = planned_balancer(inventory)
        self.folder, self.port = folder, free_port()
        ports = {"rest1:8082": self.proxy.server_port}
        text = placed(files_of(self.planned)["haproxy.cfg"], ports, self.port, folder)
        self.text = text.replace(f"{FOLDER}/", f"{folder}/")
        digest = hashlib.sha256(token("anna", ANNA["anna"]).encode()).hexdigest().upper()
        (folder / "users.list").write_text(f"{digest}\n")
        (folder / "check.map").write_text(f"check Basic {token('anna', ANNA['anna'])}\n")
        files: dict[str, list[Any]] = {}
        for setting in self.planned["settings"]:
            files.setdefault(Path(setting["file"]).name, []).append(setting)
        for name, settings in files.items():
            if held := parts_of(settings):
                (folder / name).write_text("".join(Path(file).read_text() for file in held))

    def complaint(self, password: str = ANNA["anna"], **more: Any) -> str | None:
        """Return what a deploy would complain of."""
        probe = balancer_probe(self.planned, str(self.folder / "admin.sock"), changing=False) | more
        assert probe["front"].endswith("://127.0.0.1:8080")
        probe["front"] = probe["front"].replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
        if "ca" in probe:
            probe["ca"] = probe["ca"].replace(FOLDER, str(self.folder))
        if "login" in probe:
            probe["login"] = f"{password},"
        return probes.PROBES["haproxy"](probe)

    @contextmanager
    def running(self) -> Iterator[None]:
        with running(self.text, self.port, self.folder):
            yield


def site(folder: Path, speech: Speech | None = None, **common: Any) -> Site:
    return Site(folder, speech or Speech(), **common)


def secured(folder: Path) -> dict[str, Any]:
    make_authority(folder)
    certificate, key = make_certificate(folder, "lb1")
    return {
        "rest_balancer_tls": {"certificate": str(certificate), "key": str(key)},
        "rest_balancer_users": ANNA,
    }


@pytest.mark.parametrize("closed", [False, True], ids=["open", "TLS and a login"])
def test_a_balancer_that_answers_a_client_with_an_offset_is_ready(tmp_path: Path, closed: bool) -> None:
    found = (
        site(tmp_path, Speech(users=tuple(ANNA.items())), **secured(tmp_path)) if closed else site(tmp_path)
    )
    with found.running():
        await_that(lambda: found.complaint() is None, "it is ready")
    assert found.proxy.hosts == {"lb1:8080"}


@pytest.mark.parametrize("closed", [False, True], ids=["open", "TLS"])
def test_a_bridge_names_the_balancer_with_its_scheme_as_the_place_of_a_consumer(
    tmp_path: Path, closed: bool
) -> None:
    found = site(tmp_path, Speech("strimzi"), **(secured(tmp_path) if closed else {}))
    trusted = ssl.create_default_context(cafile=tmp_path / "ca.pem") if closed else True
    scheme = "https" if closed else "http"
    with (
        found.running(),
        httpx.Client(
            base_url=f"{scheme}://localhost:{found.port}", verify=trusted, auth=(*ANNA.items(),)[0]
        ) as client,
    ):
        await_that(lambda: client.post("/consumers/g", json={}).status_code == 200, "it serves")
        place = client.post("/consumers/g", json={}).json()["base_uri"]
    assert place == f"{scheme}://localhost:{found.port}/consumers/g/instances/i"


def test_a_balancer_whose_first_check_is_under_way_is_not_ready(tmp_path: Path) -> None:
    found = site(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        found.text = found.text.replace(f":{found.proxy.server_port} ", f":{hangs.getsockname()[1]} ")
        with found.running():
            check, _ = hangs.accept()
            with check:  # it has begun, and nobody answers it
                said = str(found.complaint())
    assert said.startswith("no instance is up: rest1:8082 UP")
    assert said.endswith(", INI")


def test_a_trial_does_not_take_a_check_under_way_for_one_that_passed(tmp_path: Path) -> None:
    found = site(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        (tmp_path / "haproxy.cfg").write_text(
            found.text.replace(f":{found.proxy.server_port} ", f":{hangs.getsockname()[1]} ")
        )
        probe = {"socket": str(tmp_path / "admin.sock"), "backend": "rest"}
        said = trial(tmp_path, probe, Path(FOLDER), 1).refusal
    assert said == "it would see no instance up: rest1:8082 INI"


def test_where_no_instance_is_up_it_is_said_what_its_check_got(tmp_path: Path) -> None:
    found = site(tmp_path, Speech(ill=True))
    with found.running():
        await_that(lambda: "DOWN" in str(found.complaint()), "it is down")
        said = str(found.complaint())
    assert said.startswith("no instance is up: rest1:8082 DOWN, L7RSP 500 {")
    assert "no.such.Class" in said


def test_what_a_page_of_an_instance_holds_is_said_in_one_line_without_its_tags(tmp_path: Path) -> None:
    found = site(tmp_path, Speech(page="<html>\n<title>Error 400 Invalid SNI</title>\x1b[31m\n</html>"))
    with found.running():
        await_that(lambda: "DOWN" in str(found.complaint()), "it is down")
        assert found.complaint() == "no instance is up: rest1:8082 DOWN, L7RSP 400 Error 400 Invalid SNI?[31m"


def test_a_balancer_that_has_an_instance_up_and_refuses_clients_is_not_ready(tmp_path: Path) -> None:
    found = site(tmp_path, rest_balancer_users=ANNA)
    with found.running():
        await_that(lambda: found.complaint() is None, "it is ready for who logs in")
        said = str(found.complaint(password="another"))
        assert (
            said == "a client of lb1:8080 is not served: produce to kedge-ready: HTTP Error 401: Unauthorized"
        )
        # While logins change, some proxies know the old one and some the new one.
        assert found.complaint(password="another", changing=True) is None


def test_another_certificate_at_the_balancers_port_is_not_taken_for_it(tmp_path: Path) -> None:
    found = site(tmp_path, **secured(tmp_path))
    with found.running():
        await_that(lambda: found.complaint() is None, "it is ready")
        certificate, _ = make_certificate(tmp_path, "other")
        assert "certificate verify failed" in str(found.complaint(ca=str(certificate)))


def test_a_release_of_before_is_asked_as_it_was_then(tmp_path: Path) -> None:
    found = site(tmp_path)
    with found.running():
        old = {"kind": "haproxy", "socket": str(tmp_path / "admin.sock"), "backend": "rest"}
        await_that(lambda: probes.PROBES["haproxy"](old) is None, "an instance is up")
    assert found.proxy.hosts == {"lb1:8080"}


@pytest.mark.parametrize("serves", [True, False])
def test_a_balancer_with_nothing_up_follows_its_proxies_and_stops_no_deploy(
    monkeypatch: pytest.MonkeyPatch, serves: bool
) -> None:
    warned: list[str] = []
    monkeypatch.setattr("ansible.module_utils.haproxy.serves", lambda _: serves)
    ready = {"haproxy": {"kind": "haproxy", "socket": "/nowhere", "backend": "rest", "changing": True}}
    unit = instance_unit("haproxy", "new", warned.append, unit="rest-balancer", ready=ready, state="reloaded")
    said = unit.not_activated("it would see no instance up: rest1:8082 L7RSP 400 Invalid SNI")
    assert (said is None, bool(warned)) == (not serves, not serves)


def test_logins_of_balancer_and_instances_that_no_client_can_have_are_refused() -> None:
    def plan(own: dict[str, str], users: dict[str, str]) -> Any:
        common = {"rest_balancer_users": own}
        return make_plan(rest(groups={"rest_balancer": ("lb1",)}, common=common, users=users))

    (error,) = of_rule(plan({"anna": "secret-1"}, {"anna": "secret-2"}), "balancer.basic", "error")
    assert "nobody would be served" in error.message
    for own, users, login in (
        ({"bert": "secret-2", **ANNA}, ANNA, "anna"),
        ({}, ANNA, "anna"),
        (ANNA, {}, "anna"),
        ({}, {}, ""),
    ):
        found = plan(own, users)
        assert of_rule(found, "balancer.basic", "error") == []
        assert found.services["lb1"]["rest_balancer"][0].software["login"] == login


def test_a_balancer_whose_new_port_is_taken_goes_on_with_its_former_configuration(tmp_path: Path) -> None:
    found = site(tmp_path)
    path = str(tmp_path / "admin.sock")
    with running(found.text, found.port, tmp_path, "-W") as balancer:
        await_that(lambda: found.complaint() is None, "it is ready")
        before = worker(path)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            new = found.text.replace(f"127.0.0.1:{found.port}", f"127.0.0.1:{taken.getsockname()[1]}")
            balancer.file.write_text(new)
            os.kill(balancer.pid, signal.SIGUSR2)
            refused = "cannot bind socket"
            await_that(lambda: refused in (tmp_path / "log").read_text(), "the new one does not start")
            await_that(lambda: answers(balancer.socket) is not None, "the former one answers")
            said = found.complaint(instead_of=before)
        assert said == "the process with the former configuration still answers"
        assert found.complaint() is None
