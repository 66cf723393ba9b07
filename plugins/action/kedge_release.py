"""Renders the files of a host's instances here and ships them in one round trip."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from kedge.deploy.drift import going_back, hide_secrets
from kedge.deploy.release_rows import RowChange, changes, kept_rows, of_release, own_texts
from kedge.deploy.rendering import host_files, package_links, render, render_instance, secrets_of
from kedge.evidence.border.instances import staged
from kedge.evidence.border.untrusted import UntrustedError, shown
from kedge.evidence.printable import plain
from kedge.evidence.release import VERSION


def typed(
    answer: Mapping[str, Any],
    planned: Sequence[str],
    border: Callable[[Any, Sequence[str]], dict[str, Any]],
) -> dict[str, Any]:
    """Return what a module says of instances as the border has it: its names go on to commands and others."""
    if answer.get("failed") or answer.get("unreachable"):
        return {}
    try:
        return border(answer, planned)
    except UntrustedError as error:
        # What it says is used nowhere.
        return {
            "failed": True,
            "instances": [],
            "restart": [],
            "stale": [],
            "msg": f"The host's answer was not taken: {error}. No other host was touched because of it. "
            "If it is still under your control, see why it answers so (-vvv shows all of it), then run the "
            "playbook again",
        }


class ActionModule(ActionBase):
    """Arguments: see the module of the same name; ``instances`` come as the plan has them."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Render and call the module; the differences that are printed show no secret."""
        result = self.stage(tmp, task_vars)
        changed = self._changed(result) if result.get("newer_kit") and not result.get("failed") else []
        for state in result.get("instances", []):
            # Large, and of no use to what comes after.
            for name in ("rows", "digests"):
                state.pop(name, None)
        for each in result.get("diff", []):
            each["before"], each["after"] = hide_secrets(each["before"], each["after"])
        if strange := result.pop("strange", ()):
            host, unit = (task_vars or {})["inventory_hostname"], self._task.args["unit"]
            result["warnings"] = [
                f"{host}: /var/lib/kedge/{unit} has folders that are no instances: "
                f"{shown(', '.join(strange))}. They were left alone. Remove them there",
                *result.get("warnings", ()),
            ]
        if newer := plain(str(result.pop("newer_kit", "")))[:40]:
            result["warnings"] = [
                going_back(VERSION, newer, changed),
                *result.get("warnings", ()),
            ]
        return result

    def stage(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Render and call the module; the answer is the module's."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        unit = arguments["unit"]
        service = arguments.pop("service")
        named = {"unit": unit, "user": arguments["owner"], **service}
        units = {
            f"{unit}@.service": render("service.j2", **named),
            f"{unit}.target": render("service.target.j2", **named),
        }
        # Read raw: else Ansible would template the whole plan, for each host.
        values = (task_vars or {})["hostvars"].raw_get("localhost")["plan_made"]["secrets"]["settings"]
        links = arguments.pop("links", {})
        instances = [
            {
                "name": instance["name"],
                # The unit is part of the release, so that a changed unit restarts what runs under it.
                "files": render_instance(unit, instance)
                | {"unit.service": units[f"{unit}@.service"]}
                | (
                    {".package_links": json.dumps(places)}
                    if (places := package_links(unit, instance))
                    else {}
                ),
                "links": links,
                "host_files": host_files(unit, instance, values),
                "rows": kept_rows(unit, instance),
            }
            for instance in arguments["instances"]
        ]
        secrets: dict[str, str] = {}
        for instance in arguments["instances"]:
            secrets |= secrets_of(unit, instance, values, self._read)
        arguments |= {"instances": instances, "units": units, "secrets": secrets, "kit": VERSION}
        result.update(self._execute_module("kedge_release", module_args=arguments, task_vars=task_vars))
        return result | typed(result, [str(instance["name"]) for instance in instances], staged)

    def _changed(self, answer: Mapping[str, Any]) -> list[RowChange]:
        unit, planned = self._task.args["unit"], self._task.args["instances"]
        return [
            row
            for instance, state in zip(planned, answer["instances"], strict=True)
            for row in changes(*of_release(state, unit, instance, own_texts(answer, unit, instance)))
        ]

    def _read(self, path: str) -> str:
        """Return what a file of the control machine holds; one that a vault encrypted comes out plain."""
        try:
            return Path(self._loader.get_real_file(path)).read_text(encoding="utf-8")
        except (AnsibleError, OSError) as error:
            raise AnsibleActionFail(
                f"{path} cannot be read: {error}. No instance of this host was touched. Make it readable "
                "here, then run deploy.yml again"
            ) from error
