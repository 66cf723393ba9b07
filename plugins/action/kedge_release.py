"""Renders the files of a host's instances here and ships them in one round trip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from control.drift import going_back, hide_secrets
from control.rendering import package_links, render, render_instance, secrets_of
from evidence.printable import plain
from evidence.release import VERSION


class ActionModule(ActionBase):
    """Arguments: see the module of the same name; ``instances`` come as the plan has them."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Render and call the module; the differences that are printed show no secret."""
        result = self.stage(tmp, task_vars)
        for each in result.get("diff", []):
            each["before"], each["after"] = hide_secrets(each["before"], each["after"])
        if newer := plain(str(result.pop("newer_kit", "")))[:40]:
            result["warnings"] = [
                going_back(VERSION, newer, result.get("diff", [])),
                *result.get("warnings", ()),
            ]
        return result

    def stage(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Render and call the module; the answer is the module's."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        unit = arguments["unit"]
        service = arguments.pop("service")
        values = {"unit": unit, "user": arguments["owner"], **service}
        units = {
            f"{unit}@.service": render("service.j2", **values),
            f"{unit}.target": render("service.target.j2", **values),
        }
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
            }
            for instance in arguments["instances"]
        ]
        # Read raw: else Ansible would template the whole plan, for each host.
        values = (task_vars or {})["hostvars"].raw_get("localhost")["plan_made"]["secrets"]["settings"]
        secrets: dict[str, str] = {}
        for instance in arguments["instances"]:
            secrets |= secrets_of(unit, instance, values, self._read)
        arguments |= {"instances": instances, "units": units, "secrets": secrets, "kit": VERSION}
        result.update(self._execute_module("kedge_release", module_args=arguments, task_vars=task_vars))
        return result

    def _read(self, path: str) -> str:
        """Return what a file of the control machine holds; one that a vault encrypted comes out plain."""
        try:
            return Path(self._loader.get_real_file(path)).read_text(encoding="utf-8")
        except (AnsibleError, OSError) as error:
            raise AnsibleActionFail(
                f"{path} cannot be read: {error}. No instance of this host was touched. Make it readable "
                "here, then run deploy.yml again"
            ) from error
