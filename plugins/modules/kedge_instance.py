#!/usr/bin/python
"""Starts or restarts instances with a staged release, and puts the previous one back where that fails."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_instance
short_description: Put staged releases in force and see the instances become ready
description:
  - Stops an instance if it runs, puts its release in force, starts it and waits until it does its job.
  - An instance that does not become ready gets the previous release back, is started with it, and the task
    fails with the last lines of its journal.
  - Several instances of one call are started side by side; a rolling restart names one at a time.
  - Killed is a trial of a crash, the process ended by SIGKILL. The unit has to bring it back by itself, with
    the release that ran; nothing is put back where it does not.
options:
  unit: {type: str, required: true, description: "Name of the template unit, without @."}
  service: {type: str, required: true, description: "Name of the service in the evidence."}
  instances: {type: list, elements: dict, required: true, description: "name, release."}
  ready:
    type: dict
    default: {}
    description: "Instance name to probe: kind (a key of PROBES) and what it needs."
  secrets: {type: dict, default: {}, description: "What stands for each mark in the probes; never shown."}
  members:
    type: list
    elements: dict
    default: []
    description:
      - Members of groups (group, name). Those that a REST proxy has are deleted through it before it stops.
  foreign: {type: str, default: "", description: "A release whose unit holds this text is no way back."}
  controls: {type: dict, default: {}, description: "Instance name to who runs it, where that is not systemd."}
  adopts:
    type: dict
    default: {}
    description:
      - Instance name to the predecessor whose port it takes over (port, and unit or holder, stop, start).
      - One that holds the port is stopped in its place. It is started again where the instance does not
        become ready, and its unit is disabled where it does.
  at_once:
    type: int
    default: 0
    description:
      - How many start side by side, in their order; 0 for all. The others follow when those are ready, and
        are left alone where one of those is not. The time to become ready is that of each.
  ready_seconds:
    type: int
    default: 60
    description:
      - How long an instance may take to become ready.
      - One that does not answer yet and goes on printing has not failed. It gets up to three times as long.
  state:
    type: str
    choices: [started, restarted, reloaded, former, back, held, killed, stopped, absent]
    default: started
    description:
      - C(held) touches nothing; it fails where an instance ended since it was started, or is not ready.
      - C(former) is a restart with a former release, with the unit and the probe that it had; of a balancer a
        reload. C(back) is the same away from a release that failed its soak, to which no rollback leads.
      - What becomes true. C(reloaded) has a running process take its release; where the unit changed, or no
        process runs, it is restarted. A balancer whose new configuration sees no server up, or loses one
        that is up, keeps the one that it has. C(stopped) keeps its releases, for who starts it again.
author: Kedge
"""

EXAMPLES = r"""
- name: Restart one instance with its staged release
  kedge_instance:
    unit: kafka-rest
    service: kafka_rest
    instances: [{name: "8082", release: "{{ staged.instances[0].release }}"}]
    ready: {"8082": {kind: http_produce, url: http://rest1:8082, topic: kedge-ready}}
    ready_seconds: 60
    state: restarted
"""

RETURN = r"""
kedge_actions:
  description: What was done to each instance, and when, for the evidence of a run.
  returned: always
  type: list
  elements: dict
"""

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible.module_utils import atomic_files, haproxy, haproxy_trial, reload, takeover, way_back
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_processes import not_own
from ansible.module_utils.journal import last_lines, last_printed_us
from ansible.module_utils.node_lock import ROOT, held
from ansible.module_utils.probes import (
    MOST_TIMES,
    PROBE_SECONDS,
    PROBES,
    SILENCE_SECONDS,
    Starting,
    main_pid,
    systemctl,
)
from ansible.module_utils.releases import PROBE, SYSTEMD, is_last, is_own, marked, text_of
from ansible.module_utils.rest_members import delete_members
from ansible.module_utils.service_control import FAILED, act, is_active, now_us, warden_state
from ansible.module_utils.takeover import PREDECESSOR

#: What holds for the others where an instance fails, and what to do; what holds for it stands before that.
NEXT = "No instance after it was touched. Fix what its journal names, then run the playbook again"
#: The file of a release that says where a package looks for what the release has.
PLACES = ".package_links"
STATES = ["started", "restarted", "reloaded", "former", "back", "held", "killed", "stopped", "absent"]
#: Those that give an instance a release which another plan made.
FORMER = ("former", "back")


class InstanceUnit:
    """One instance of a service on this host, and what was done to it."""

    def __init__(self, module: AnsibleModule, name: str, release: str | None) -> None:
        self.module = module
        self.name = name
        self.release = release
        self.unit = f"{module.params['unit']}@{name}.service"
        self.control = module.params["controls"].get(name, {})
        self.home = ROOT / module.params["unit"] / name
        self.link = Path("/etc") / module.params["unit"] / name
        self.actions: list[dict[str, Any]] = []
        #: Of a balancer: the state of servers that the trial of a release found down, for its reload.
        self.seen_down = ""
        self.former: str | None = None  # the release that it ran before, where that was another one
        self.probe = dict(module.params["ready"].get(name, {}))
        if "login" in self.probe:
            self.probe["login"] = module.params["secrets"][self.probe["login"]]
        adopted = module.params["adopts"].get(name)
        self.takeover = takeover.Takeover(self, adopted) if adopted else None

    def act(self, action: str, started_us: int, ok: bool) -> None:
        """Record an action, as a row of the evidence table ``actions`` less the host."""
        row = {"service": self.module.params["service"], "instance": self.name, "action": action}
        self.actions.append(row | {"started_us": started_us, "ended_us": now_us(), "ok": ok})

    def current(self) -> str | None:
        """Return the release in force."""
        return self.link.resolve().name if self.link.is_symlink() and self.link.exists() else None

    def put_in_force(self, release: str) -> None:
        """Point the one link at a release, in one step, and tell systemd where its limits changed."""
        self.link.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.link(self.link, self.home / "releases" / release)
        self._link_package()
        if self._link_dropins():
            systemctl("daemon-reload")

    def _link_package(self) -> None:
        """Have a package read the release's files from its own places; what it brought stays beside them."""
        for place, target in self._places_of(self.link).items():
            path = Path(place)
            if path.exists() and not path.is_symlink():
                brought = path.with_name(f"{path.name}.package")
                brought.unlink(missing_ok=True)
                os.link(path, brought)
            atomic_files.link(path, target)

    def _places_of(self, release: Path) -> dict[str, str]:
        """Return the places of a package to where a release has their files; raises OSError."""
        try:
            return dict(json.loads(text_of(release, PLACES) or "{}"))
        except ValueError:
            raise OSError(errno.EILSEQ, "is cut", str(release / PLACES)) from None

    def _link_dropins(self) -> bool:
        folder = SYSTEMD / f"{self.unit}.d"
        dropins = self.link / "systemd"
        if not dropins.is_dir() and not folder.is_dir():
            return False
        folder.mkdir(parents=True, exist_ok=True)
        names = [file.name for file in dropins.iterdir()] if dropins.is_dir() else []
        for name in names:
            atomic_files.link(folder / name, dropins / name)
        for link in folder.iterdir():
            # Only our own: what a person added with systemctl edit stays.
            if is_own(link, self.link) and link.name not in names:
                link.unlink()
        return True

    def stop(self) -> None:
        """Stop the process; systemd bounds how long that takes."""
        if self.module.params["members"]:
            delete_members(self.probe, self.module.params["members"])
        began = now_us()
        done = act("stop", self.unit, self.control)
        self.act("stop", began, done.returncode == 0)

    def back(self) -> str | None:
        """Go back to the former release, or go out for the predecessor; return what is wrong, if anything."""
        if not self.takeover or self.release != PREDECESSOR:
            return self.run()
        atomic_files.write(self.takeover.marker, "")
        self.stop()
        for name in ("running", "good"):
            (self.home / name).unlink(missing_ok=True)
        wrong = self.takeover.undo()
        return f"{wrong}. {NEXT}" if wrong else None

    def asked(self) -> str | None:
        """Return what the probe complains of; whoever holds the port answers it."""
        wrong: str | None = PROBES[self.probe.get("kind", "none")](self.probe | {"unit": self.unit})
        return wrong

    def start(self) -> str | None:
        """Start the process and wait until it is ready; return what went wrong, if anything."""
        began = now_us()
        # Before the start: a run that is killed after it could not say so any more.
        atomic_files.write(self.home / "started", f"{self.current()}\n")
        if not self.control:
            systemctl("reset-failed", self.unit)
        started = act("start", self.unit, self.control)
        self.act("start", began, started.returncode == 0)
        if started.returncode:
            return started.stderr.strip() or "it does not start"
        wrong = self.wait_ready()
        self.act("ready", began, wrong is None)
        return wrong

    def reload(self) -> str | None:
        """Have the process take the release in force and wait until it is ready; return what went wrong."""
        probe = self.module.params["ready"].get(self.name, {})
        deadline = time.monotonic() + self.module.params["ready_seconds"]
        try:
            while not haproxy.has_learned(probe["socket"]) and time.monotonic() < deadline:
                time.sleep(PROBE_SECONDS)
            former = haproxy.worker(probe["socket"])
            seen, self.seen_down = self.seen_down, ""
            down = haproxy.keep_down(probe["socket"], probe["backend"], seen)
        except OSError as error:
            return f"{probe['socket']}: {error}"
        began = now_us()
        done = systemctl("reload", self.unit)
        self.act("reload", began, done.returncode == 0)
        if done.returncode:
            return "its configuration is refused"
        wrong = self.wait_ready(instead_of=former)
        self.act("ready", began, wrong is None)
        # Of a later start, by whomever, it would be old.
        with contextlib.suppress(OSError):
            down.unlink()
        return wrong

    def blind(self, release: str) -> str | None:
        """Return why a running balancer would serve nobody, or fewer, with a release; None for others."""
        if self.probe.get("kind") != "haproxy" or not self.reloads():
            return None
        if systemctl("is-active", "--quiet", self.unit).returncode:
            return None
        folder, seconds = self.home / "releases" / release, self.module.params["ready_seconds"]
        tried = haproxy_trial.trial(folder, self.probe, self.link, seconds)
        self.seen_down = tried.down
        wrong: str | None = tried.refusal
        return wrong

    def not_activated(self, wrong: str) -> str | None:
        """Return what it means that a balancer keeps its configuration; None where it loses nothing by that.

        One that has no server up either takes the new one when its proxies have changed.
        """
        if self.probe.get("changing") and not haproxy.serves(self.probe):
            self.module.warn(f"{wrong}. Nor has it one up now: it follows when its proxies have changed")
            return None
        return (
            f"{wrong}. Its new configuration was not activated, and the balancer serves as before. See why "
            "its proxies do not answer as planned (docs/changes.md), then run deploy.yml again"
        )

    def reloads(self) -> bool:
        """Return whether its process takes a release by a reload, where it can."""
        state = self.module.params["state"]
        return state == "reloaded" or (state in FORMER and self.probe.get("kind") == "haproxy")

    def takes(self, release: str) -> bool:
        """Return whether the running process can take a release without a new start."""
        before = self.started_with()
        if before is None or systemctl("is-active", "--quiet", self.unit).returncode:
            return False
        return bool(reload.takes(before, self.home / "releases" / release))

    def raise_limits(self, release: str) -> bool:
        """Let the running process open as many files as a release says; return whether it may."""
        before, after = self.started_with(), self.home / "releases" / release
        if before is None or reload.open_files(before) == reload.open_files(after):
            return True
        pid = int(main_pid(self.unit) or 0)
        return bool(pid and reload.raise_open_files(pid, int(reload.open_files(after))))

    def started_with(self) -> Path | None:
        """Return the release with which the process was started; it may have taken others since."""
        release = marked(self.module.params["unit"], self.name, "started")
        return self.home / "releases" / release if release else None

    def wait_ready(self, killed: str | None = None, **more: Any) -> str | None:
        """Poll the probe until it holds; return its last complaint when time is up or the process ends.

        Time is not up for a process that does not answer yet and goes on printing, within bounds.
        ``killed`` is the id of a process that was killed: its unit starts another, which is waited for.
        ``more`` is added to the probe.
        """
        probe = self.probe | more
        limit = self.module.params["ready_seconds"]
        most, began = MOST_TIMES * limit, time.monotonic()
        complaint: str | None = "it was not asked"
        while True:
            gone = self.has_ended()
            if gone or (killed is not None and main_pid(self.unit) in (killed, "0")):
                complaint = "its process ended"
                if killed is None:
                    return complaint
            else:
                complaint = PROBES[probe.get("kind", "none")](probe | {"unit": self.unit}) or self.taken(
                    probe
                )
            if complaint is None:
                return None
            waited = time.monotonic() - began
            if waited >= limit:
                if waited >= most or not self.is_starting(complaint):
                    return f"not ready after {round(limit, 1):g} s: {complaint}"
                limit = waited + 1  # the journal is asked once a second
            time.sleep(PROBE_SECONDS)

    def taken(self, probe: dict[str, Any]) -> str | None:
        """Return who answered in the place of this instance: readiness is of the unit's own process."""
        port = probe.get("port") or urlsplit(probe.get("url", "")).port
        return not_own(int(port), self.unit) if port and not self.control else None

    def is_starting(self, complaint: str | None) -> bool:
        """Return whether a process that does not answer has printed something of late."""
        if not isinstance(complaint, Starting):
            return False
        printed_us = last_printed_us(self.unit)
        return printed_us is not None and bool(now_us() - printed_us < SILENCE_SECONDS * 1_000_000)

    def kill(self) -> str | None:
        """End the process as a crash does; return what is wrong where the unit does not bring it back."""
        began, before = now_us(), main_pid(self.unit)
        done = systemctl("kill", "--kill-whom=main", "--signal=SIGKILL", self.unit)
        self.act("kill", began, done.returncode == 0)
        if done.returncode:
            return f"it cannot be killed: {done.stderr.strip()}. It was not touched. {NEXT}"
        wrong = self.wait_ready(killed=before)
        self.act("ready", began, wrong is None)
        if wrong is None:
            return None
        return f"killed, and {wrong}. Nothing was put back. {NEXT}\nits journal ends with:\n{self.journal()}"

    def has_ended(self) -> bool:
        """Return whether its process has ended; Warden takes its time to start one, and may give up."""
        if self.control:
            return bool(warden_state(self.control) == FAILED)
        return bool(systemctl("is-active", "--quiet", self.unit).returncode)

    def hold(self) -> str | None:
        """Return what is wrong with an instance that was started a while ago, if anything."""
        if self.control:
            return self.wait_ready()
        asked = systemctl("show", "--property=NRestarts", "--value", self.unit).stdout.strip()
        if asked not in ("", "0"):
            return f"it ended and was started again {asked} times\nits journal ends with:\n{self.journal()}"
        return self.wait_ready()

    def journal(self) -> str:
        """Return the last lines that the instance printed."""
        return str(last_lines(self.unit))

    def refusal(self, release: str) -> str | None:
        """Return why an instance keeps what it runs; asked before anything of it is touched."""
        if self.module.params["state"] in FORMER and not way_back.unit_of(self, release):
            return (
                f"its former release {release} is no longer there, or has no unit. It keeps the release that "
                "it runs. Take the change of the inventory back, then run deploy.yml"
            )
        if not (self.home / "releases" / release).is_dir():
            return f"release {release} is not there. It was not touched. Run deploy.yml, which stages it"
        self._places_of(self.home / "releases" / release)
        if full := self.lacks():
            return f"{full}. It was not touched. {NEXT}"
        return None

    def run(self) -> str | None:
        """Bring the instance to its release; return a message when it had to go back."""
        before = self.current()
        release = self.release or before
        if release is None:
            return "no release is staged for it. It was not touched. Run deploy.yml, which stages one"
        if wrong := self.refusal(release):
            return wrong
        state = self.module.params["state"]
        if wrong := self.blind(release):
            return self.not_activated(wrong)
        (self.home / "running").unlink(missing_ok=True)
        self.former = before if before != release else None
        gently = self.reloads() and self.takes(release) and self.raise_limits(release)
        if self.takeover and self.takeover.due():
            if wrong := self.takeover.stop():
                return f"{wrong}; {self.takeover.give_back()}. {NEXT}"
        elif state != "started" and not gently:
            self.stop()
        try:
            if state in FORMER:
                way_back.restore(self, release)
            # Also where the link is right already: a run that was killed may have left out the limits.
            self.put_in_force(release)
            wrong = self.reload() if gently else self.start()
        except OSError as error:
            wrong = f"{error.filename}: {error.strerror}"
        if wrong is None:
            if not self.control:
                systemctl("enable", self.unit)
            if self.takeover and self.takeover.begun():
                self.takeover.end()
                self.former = PREDECESSOR
            if state == "back" and self.former:
                (self.home / "releases" / self.former / PROBE).unlink(missing_ok=True)
            self.mark(release)
            return None
        journal = self.journal()
        left = way_back.go_back(self, release, gently=gently)
        return f"{wrong}; {left}. {NEXT}\nits journal ends with:\n{journal}"

    def mark(self, release: str) -> None:
        """Note the release that runs, and that it is one that became ready."""
        # How it was asked, should it be put back: a later release may have another login, or TLS.
        probe = self.home / "releases" / release / PROBE
        atomic_files.write(probe, json.dumps(self.probe), 0o600)
        is_last(probe)
        # That it runs comes last: a run that is killed before gives it the release once more.
        for name in ("good", "running"):
            atomic_files.write(self.home / name, f"{release}\n")

    def lacks(self) -> str:
        """Return which disk cannot take what a switch and its way back write; empty where all can."""
        unit = SYSTEMD / f"{self.module.params['unit']}@.service"
        size = unit.stat().st_size if unit.is_file() else 0
        return str(atomic_files.lacks([(self.home, 0, 0), (self.link, 0, 0), (SYSTEMD, size, 1)]))

    def remove(self) -> None:
        """Stop the instance for good and take its configuration away; its data and logs stay."""
        self.stop()
        systemctl("disable", self.unit)
        self.link.unlink(missing_ok=True)
        shutil.rmtree(SYSTEMD / f"{self.unit}.d", ignore_errors=True)
        if self.home.exists():
            # What is left where this is cut short is no release to go back to.
            for file in (self.home / "good", *self.home.glob(f"releases/*/{PROBE}")):
                file.unlink(missing_ok=True)
            shutil.rmtree(self.home)


def whole(act: Callable[[InstanceUnit], str | None]) -> Callable[[InstanceUnit], str | None]:
    """Return what does something to an instance, and says what holds where a disk ends it."""

    def done(instance: InstanceUnit) -> str | None:
        try:
            return act(instance)
        except OSError as error:
            runs = "runs" if is_active(instance.unit, instance.control) else "is stopped"
            return f"{error.filename}: {error.strerror}; it {runs}, with release {instance.current()}. {NEXT}"

    return done


def in_groups(
    act: Callable[[InstanceUnit], str | None], instances: list[InstanceUnit], at_once: int
) -> list[str | None]:
    """Do something to a group of instances side by side, then to the next, until one fails.

    What was wrong with each that was touched is returned.
    """
    outcomes: list[str | None] = []
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        for first in range(0, len(instances), at_once):
            outcomes += pool.map(act, instances[first : first + at_once])
            if any(outcomes):
                break
    return outcomes


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "service": {"type": "str", "required": True},
            "instances": {"type": "list", "elements": "dict", "required": True},
            "ready": {"type": "dict", "default": {}},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "members": {"type": "list", "elements": "dict", "default": []},
            "foreign": {"type": "str", "default": ""},
            "controls": {"type": "dict", "default": {}},
            "adopts": {"type": "dict", "default": {}},
            "at_once": {"type": "int", "default": 0},
            "ready_seconds": {"type": "int", "default": 60},
            "state": {"type": "str", "choices": STATES, "default": "started"},
        },
        supports_check_mode=True,
    )
    instances = [InstanceUnit(module, str(i["name"]), i.get("release")) for i in module.params["instances"]]
    if module.check_mode or not instances:
        module.exit_json(changed=bool(instances), kedge_actions=[])
    try:
        with held(module.params["unit"], MOST_TIMES * module.params["ready_seconds"]):
            if module.params["state"] in ("absent", "stopped"):
                for instance in instances:
                    instance.remove() if module.params["state"] == "absent" else instance.stop()
                outcomes: list[str | None] = [None] * len(instances)
            else:
                ways = {"killed": InstanceUnit.kill, "held": InstanceUnit.hold, "back": InstanceUnit.back}
                act = ways.get(module.params["state"], InstanceUnit.run)
                outcomes = in_groups(whole(act), instances, module.params["at_once"] or len(instances))
    except TimeoutError as error:
        module.fail_json(msg=str(error))
    actions = [a for i in instances for a in i.actions]
    # zip's strict came with 3.10, and hosts may have 3.9.
    failed = [f"{i.unit}: {wrong}" for i, wrong in zip(instances, outcomes) if wrong]  # noqa: B905
    if failed:
        module.fail_json(msg="\n".join(failed), changed=True, kedge_actions=actions)
    former = {f"kedge_former_{module.params['service']}_{i.name}": i.former for i in instances if i.former}
    touched = module.params["state"] != "held"
    module.exit_json(changed=touched, kedge_actions=actions, **({"ansible_facts": former} if former else {}))


if __name__ == "__main__":
    main()
