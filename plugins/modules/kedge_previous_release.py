#!/usr/bin/python
"""Finds the release that each instance of a service goes back to, and what would change."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_previous_release
short_description: Find the release that instances go back to
description:
  - Of each instance the release before the active one, which is the last other one with which it became
    ready, or the one that is named. After a rollback that is the release that ran before it.
  - Reads only. The difference has what the files of an instance would become, with secrets hidden.
options:
  unit: {type: str, required: true, description: "Name of the template unit, without @."}
  names: {type: list, elements: str, required: true, description: "Names of the instances."}
  releases:
    type: list
    elements: str
    default: []
    description: "Releases that are asked for; an instance that has none of them keeps what it runs."
  foreign: {type: str, default: "", description: "A release whose unit holds this text is no way back."}
  balanced: {type: bool, default: false, description: "Whether balancers speak one way with all instances."}
author: Kedge
"""

EXAMPLES = r"""
- name: Find the previous release of each mirror of the host
  kedge_previous_release:
    unit: mirror-maker
    names: [metrics-0, metrics-1]
  register: instances_staged
"""

RETURN = r"""
instances:
  description:
    - The instances, each with name, C(current), C(release) (empty where it keeps what it runs), C(kept), and
      C(wrong), why it cannot go back.
  returned: success
  type: list
  elements: dict
restart:
  description: Names of the instances that get another release.
  returned: success
  type: list
  elements: str
asked_otherwise:
  description: Whether one of them is asked in another way whether it is healthy than now.
  returned: success
  type: bool
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.node_lock import ROOT
from ansible.module_utils.releases import (
    PROBE,
    apart,
    content,
    current,
    difference,
    kept,
    probe_of,
    ready_before,
    text_of,
)


def former(params: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what becomes of an instance, and why it cannot go back where it cannot."""
    unit = params["unit"]
    there, active = kept(unit, name), current(unit, name)
    named = [release for release in there if release in params["releases"]]
    before = named if params["releases"] else ready_before(unit, name)
    state = {
        "name": name,
        "current": active.name if active else "",
        "release": before[0] if before else "",
        "kept": there,
        "wrong": "",
    }
    if active is None:
        return {**state, "release": "", "wrong": "" if params["releases"] else "nothing is deployed"}
    if not before:
        return {**state, "wrong": "" if params["releases"] else "no previous release is there"}
    if state["release"] != active.name:
        state["wrong"] = refusal(params, active, active.with_name(state["release"]))
    return state


def refusal(params: dict[str, Any], active: Path, folder: Path) -> str:
    """Return why a release must not take the place of the active one; empty where it may."""
    unit = text_of(folder, "unit.service")
    if not unit:
        return f"release {folder.name} has no unit"
    if cut := next((each / PROBE for each in (folder, active) if probe_of(each) is None), None):
        return (
            f"{cut} is empty or cut, so nothing says how that release is asked. `ansible-playbook "
            "rolling_restart.yml` writes that of the active release anew; else name another release"
        )
    if runs := apart(folder, active, params["foreign"]):
        return f"release {folder.name} runs {runs}, which must not run beside what is planned"
    gone = [link for link in content(folder)["links"].values() if not Path(link).exists()]
    if gone:
        return f"release {folder.name} needs {gone[0]}, which is no longer there"
    if params["balanced"] and {asked(folder)["scheme"], asked(active)["scheme"]} == {"http", "https"}:
        return f"release {folder.name} turns TLS on or off at a port in use, so that balancers would lose all"
    return ""


def asked(folder: Path) -> dict[str, str]:
    """Return how a balancer, and Kedge, have to ask the instance of a release how it is."""
    probe = probe_of(folder) or {}
    known = {key: str(probe.get(key, "")) for key in ("kind", "user", "login", "certificate")}
    url = str(probe.get("url", ""))
    # Another unit or other software may answer another question.
    links = json.dumps(content(folder)["links"], sort_keys=True)
    return {**known, "scheme": urlsplit(url).scheme, "unit": text_of(folder, "unit.service"), "links": links}


def find(params: dict[str, Any]) -> dict[str, Any]:
    """Return what the module answers of all instances."""
    unit = params["unit"]
    instances = [former(params, name) for name in params["names"]]
    going = [i for i in instances if i["release"] not in ("", i["current"]) and not i["wrong"]]
    diffs: list[dict[str, str]] = []
    otherwise = False
    for instance in going:
        releases = ROOT / unit / instance["name"] / "releases"
        old, new = releases / instance["current"], releases / instance["release"]
        # What only the active release has goes.
        goes = dict.fromkeys(content(old)["files"], "")
        has = content(new)
        files = {key: goes | has[key] for key in ("files", "marked")}
        diffs += difference(unit, old, {"name": instance["name"], **has, **files})
        otherwise = otherwise or asked(old) != asked(new)
    return {
        "instances": instances,
        "restart": [i["name"] for i in going],
        "stale": [],
        "asked_otherwise": otherwise,
        "diff": diffs,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "releases": {"type": "list", "elements": "str", "default": []},
            "foreign": {"type": "str", "default": ""},
            "balanced": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        found = find(module.params)
    except (OSError, ValueError) as error:
        module.fail_json(
            msg=f"{ROOT / module.params['unit']}: its releases cannot be read: {error}. No instance was "
            "touched. Run deploy.yml, which stages them anew"
        )
    # A difference is shown of what changes alone.
    module.exit_json(changed=module.check_mode and bool(found["restart"]), **found)


if __name__ == "__main__":
    main()
