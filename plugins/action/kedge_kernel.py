"""Gives a host its planned kernel settings and limits: decided here, written there, read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from kedge.deploy.drift import indented, text_lines
from kedge.deploy.rendering import render
from kedge.evidence.printable import plain, plain_lines
from kedge.services.host.kernel_outcome import Decision, decide, decide_limit
from plugins.action.kedge_drift import comparison

_REFUSED = re.compile(r"# (\S+)=(.*) was refused: (.*)")
display = Display()

Settings = list[dict[str, Any]]


class ActionModule(ActionBase):
    """Arguments: ``settings`` as the plan has them; ``compare`` only says what a deploy would change."""

    _supports_check_mode = True
    _supports_async = False
    _VALID_ARGS = frozenset({"settings", "compare"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Decide from what the host has, have it written where it differs, and say what was not to be had."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        settings: Settings = self._task.args["settings"]
        if self._task.args.get("compare"):
            if not self._task.check_mode:
                raise ValueError("compare only ever compares: say check_mode: true at the task")
            return comparison(task_vars, "host_tuning", lambda: self._compare(settings, task_vars))
        found = self._ask(settings, task_vars)
        if found.get("failed"):
            return result | found
        decisions, files = _wanted(settings, found)
        values = {d.key: str(d.value) for d in decisions if d.outcome == "set" and d.key in found["kernel"]}
        changed_files = {p: text for p, text in files.items() if text != found["contents"][p]}
        result["diff"] = _differences(found, values, changed_files)
        refused: dict[str, str] = {}
        if values and not self._task.check_mode:
            found = self._ask(settings, task_vars, values=values)
            refused = found["refused"]
        if (values or changed_files) and not self._task.check_mode:
            decisions, files = _wanted(settings, found, refused)
            changed_files = {p: text for p, text in files.items() if text != found["contents"][p]}
            found = self._ask(settings, task_vars, files=changed_files)
        missing = [d for d in _wanted(settings, found, refused)[0] if d.why]
        if missing:
            display.display(f"{(task_vars or {}).get('inventory_hostname')}: not set: {_said(missing)}")
        return result | {
            "changed": bool(changed_files) or bool(set(values) - set(refused)),
            "not_set": {d.key: {"wanted": d.wanted, "now": d.value, "why": plain(d.why)} for d in missing},
            "warnings": _overridden(found, decisions),
        }

    def _ask(self, settings: Settings, task_vars: Any, **more: Any) -> dict[str, Any]:
        paths: dict[str, str | None] = {s["file"]: None for s in settings}
        answer: dict[str, Any] = self._execute_module(
            "kedge_kernel",
            module_args={
                "keys": [s["key"] for s in settings if not _is_limit(s)],
                "limits": any(_is_limit(s) for s in settings),
                "values": more.get("values", {}),
                "files": paths | more.get("files", {}),
            },
            task_vars=task_vars,
        )
        return answer

    def _compare(self, settings: Settings, task_vars: Any) -> dict[str, Any]:
        found = self._ask(settings, task_vars)
        if found.get("failed") or found.get("unreachable"):
            return found
        decisions, files = _wanted(settings, found)
        lines = []
        for path, text in files.items():
            before = found["contents"][path]
            if before != text:
                lines += [path, *indented(text_lines(before or "", text))]
        for d in decisions:
            now = _now(found, d.key)
            if d.outcome == "set" and now is not None:
                lines += ["the running kernel", f"  -{d.key}={now}", f"  +{d.key}={d.value}"]
        state = "set" if lines else "same"
        return {
            "instances": {"host": {"state": state, "lines": lines}},
            "units": [],
            "stale": [],
            "unknown": [],
        }


def _is_limit(setting: Mapping[str, Any]) -> bool:
    return str(setting["file"]).startswith("/etc/security/limits.d/")


def _now(found: Mapping[str, Any], key: str) -> str | None:
    value = found["kernel"].get(key, {}).get("value")
    return None if value is None else " ".join(value.split())


def _wanted(
    settings: Settings, found: Mapping[str, Any], refused: Mapping[str, str] | None = None
) -> tuple[list[Decision], dict[str, str]]:
    """Return what the host shall have of each planned key, and the files that keep it so."""
    said = [m.groups() for text in found["contents"].values() for m in _REFUSED.finditer(text or "")]
    before = {key: f"{value}: {reason}" for key, value, reason in said} | dict(refused or {})
    decisions: list[Decision] = []
    entries: dict[str, list[dict[str, Any]]] = {}
    for setting in settings:
        key, value = setting["key"], str(setting["value"])
        if _is_limit(setting):
            decision, lines = _limit(key, int(value), found["login"])
        else:
            now = found["kernel"][key]
            decision = decide(
                key,
                value,
                now["value"],
                writable=now["writable"],
                container=found["container"],
                exact=setting.get("by") == "person",
                refused=before,
            )
            lines = [_line(decision, before)]
        decisions.append(decision)
        entries.setdefault(setting["file"], []).append({"setting": setting, "lines": lines})
    return decisions, {path: render("kernel.j2", entries=each) for path, each in entries.items()}


def _line(decision: Decision, refused: Mapping[str, str]) -> str:
    if decision.persists:
        return f"{decision.key}={decision.value}"
    if decision.outcome == "refused":
        value, _, reason = refused[decision.key].partition(": ")
        return f"# {decision.key}={value} was refused: {reason}"
    return f"# {decision.key}={decision.wanted} is not set: {decision.why}"


def _limit(key: str, wanted: int, login: Mapping[str, Any]) -> tuple[Decision, list[str]]:
    if "why" in login:
        why = f"what a login gets cannot be read: {login['why']}"
        return Decision(key, str(wanted), None, "refused", why), [f"# {key} {wanted} is not set: {why}"]
    decision, (soft, hard) = decide_limit(key, wanted, (login["soft"], login["hard"]), login["ceiling"])
    domain, _, item = key.split()
    return decision, [f"{domain} soft {item} {soft}", f"{domain} hard {item} {hard}"]


def _differences(
    found: Mapping[str, Any], values: Mapping[str, str], files: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return what changes, as Ansible shows it: the kernel's values, then the files."""
    diff = []
    if values:
        header = "the running kernel"
        before = plain_lines("".join(f"{key}={_now(found, key)}\n" for key in values))
        after = "".join(f"{key}={value}\n" for key, value in values.items())
        diff.append({"before": before, "after": after, "before_header": header, "after_header": header})
    for path, text in files.items():
        before = plain_lines(found["contents"][path] or "")
        diff.append(
            {"before": before, "after": plain_lines(text), "before_header": path, "after_header": path}
        )
    return diff


def _said(missing: list[Decision]) -> str:
    """Return what was not to be had, each reason once."""
    keys: dict[str, list[str]] = {}
    for decision in missing:
        keys.setdefault(decision.why, []).append(decision.key)
    return plain("; ".join(f"{', '.join(names)}: {why}" for why, names in keys.items()))


def _overridden(found: Mapping[str, Any], decisions: list[Decision]) -> list[str]:
    """Return a warning for each value that another file changes when the host starts again."""
    return [
        f"{d.key} is {plain(d.value)} until the next boot: then {plain(later)} wins, whose name sorts after "
        f"Kedge's file; take {d.key} out of it"
        for d in decisions
        if d.persists
        and (later := found["kernel"].get(d.key, {}).get("later"))
        and not later.endswith(f"({d.value})")
    ]
