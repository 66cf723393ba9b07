"""A deploy, a way back, a rollback and a repair on real folders, killed at each step: the next deploy goes on or back."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plugins.modules import kedge_release
from tests.kills import Kill, killed_at
from tests.unit.test_former import UNIT, Host


class Steps(list[str]):
    """What a stub of systemd was told: each is a step, and it starts a process with what it has read."""

    def __init__(self, host: Deployed) -> None:
        super().__init__()
        self.host = host

    def append(self, word: str) -> None:
        if self.host.kill:
            self.host.kill.step()
        super().append(word)
        if word == "daemon-reload":
            self.host.read = self.host.unit()
        elif word == "stop":
            self.host.runs = None
        elif word == "start":
            self.host.runs = (self.host.text(), self.host.read)


class Deployed(Host):
    """A host with one instance, deployed as the modules do it; a stub of systemd."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, monkeypatch)
        self.kill: Kill | None = None
        self.read = ""
        self.runs: tuple[str, str] | None = None
        self.did = Steps(self)
        self.ids: dict[str, str] = {}
        monkeypatch.setattr(kedge_release, "SYSTEMD", folder / "systemd")
        monkeypatch.setattr(kedge_release, "ETC", folder / "etc")
        monkeypatch.setattr(kedge_release, "KEY", folder / "kedge" / ".release-key")
        monkeypatch.setattr(kedge_release, "is_active", lambda *_: self.runs is not None)

    @property
    def link(self) -> Path:
        return self.folder / "etc" / "kafka-rest" / "8082"

    def unit(self) -> str:
        file = self.folder / "systemd" / "kafka-rest@.service"
        return file.read_text() if file.exists() else ""

    def text(self) -> str:
        return (self.link / "kafka-rest.properties").read_text()

    def run_command(self, words: list[str], **_: Any) -> tuple[int, str, str]:
        if words[1] in ("daemon-reload", "enable"):
            self.did.append(words[1])
        return 0, "yes" if words[1] == "show" and self.read != self.unit() else "", ""

    def deploy(self, value: str, comment: str = "Why", *, fails: bool = False) -> str | None:
        """Deploy an inventory that plans a value; its release needs a unit of its own."""
        files = {"kafka-rest.properties": f"# {comment}\nvalue={value}\n", "unit.service": UNIT.format(value)}
        params = {
            "unit": "kafka-rest",
            "units": {"kafka-rest@.service": files["unit.service"]},
            "instances": [{"name": "8082", "files": files, "links": {"dist": str(self.folder)}}],
            "secrets": {},
            "controls": {},
            "adopts": {},
            "keep_releases": 1,
            "kit": "0.2.0",
        }
        module = SimpleNamespace(params=params, check_mode=False, run_command=self.run_command)
        (staged,) = kedge_release.stage_all(module, os.getgid())["instances"]
        self.ids[value] = staged["release"]
        if staged["pending"] or not staged["active"]:
            return self.switch(staged["release"], fails=staged["release"] if fails else "")
        return None

    def serves(self, value: str, comment: str = "Why") -> None:
        """Assert that a value is what runs, under its own unit, and that all notes say so."""
        assert self.runs is not None
        assert self.text() == f"# {comment}\nvalue={value}\n"
        assert self.runs[0].splitlines()[1] == f"value={value}"
        assert self.unit() == self.read == self.runs[1] == UNIT.format(value)
        for marker in ("good", "running"):
            assert (self.home / marker).read_text().strip() == self.ids[value]
        assert (self.link / ".probe").read_text() == '{"kind": "none"}'


pytestmark = pytest.mark.slow

SCENARIOS: dict[str, Callable[[Deployed], Any]] = {
    "deploy": lambda host: host.deploy("two"),
    "way back": lambda host: host.deploy("two", fails=True),
    "rollback": lambda host: host.switch(host.ids["zero"], "former"),
    "away from what failed its soak": lambda host: host.switch(host.ids["zero"], "back"),
    "other comments": lambda host: host.deploy("one", "Another reason"),
    "edited by hand": lambda host: host.deploy("one"),
}


@pytest.mark.parametrize("then", ["forwards", "back", "a release that fails"])
@pytest.mark.parametrize(
    "scenario",
    # 300 s for all of them: those of a deploy and its way back are for each change, the others for the night.
    [pytest.param(one, marks=pytest.mark.long if n > 1 else ()) for n, one in enumerate(SCENARIOS)],
)
def test_a_deploy_after_a_kill_at_any_step_serves_what_is_planned(
    scenario: str, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the power stays on
    for at in count():
        folder = tmp_path / str(at)
        folder.mkdir()
        host = Deployed(folder, monkeypatch)
        host.deploy("zero")
        host.deploy("one")
        host.serves("one")
        if scenario == "edited by hand":
            (host.link / "kafka-rest.properties").write_text("# Why\nvalue=by hand\n")
        with killed_at(folder, at) as host.kill:
            SCENARIOS[scenario](host)
        killed, host.kill = host.kill.killed, None
        # Whatever starts now, by itself or with the host, finds a whole release and a whole unit.
        assert host.text().endswith("\n")
        assert host.unit() in {UNIT.format(one) for one in ("zero", "one", "two")}
        value = "two" if then == "forwards" else "one"
        if then == "a release that fails":
            assert "is back and running" in str(host.deploy("three", fails=True))
            assert host.runs is not None
            assert host.runs[1] == host.unit() == host.read
        assert host.deploy(value) is None
        host.serves(value)
        host.did.clear()
        assert host.deploy(value) is None
        assert list(host.did) == []
        if not killed:
            break
    assert at > 5
