"""ansible-doc, run in the folder of the kit, shows every module, callback and role of it with an example."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig
from ansible.vars.manager import VariableManager

from plugins.callback.kedge_inventory import without_plan
from tests.reference import ROOT

MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py"))
ACTIONS = sorted(path.stem for path in (ROOT / "plugins" / "action").glob("*.py"))
NAMES = {
    "module": MODULES,
    "callback": sorted(path.stem for path in (ROOT / "plugins" / "callback").glob("*.py")),
    "role": sorted(path.name for path in (ROOT / "roles").iterdir()),
}


def shown(kind: str) -> dict[str, str]:
    """Return what ansible-doc says of each plugin of a kind."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-doc")), "-t", kind, *NAMES[kind]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )
    assert "WARNING" not in done.stderr
    pages = re.split(rf"(?m)^> {kind.upper()}:? ", done.stdout)[1:]
    return {page.split()[0].strip("*"): page for page in pages}


@pytest.mark.process
@pytest.mark.parametrize("kind", sorted(NAMES))
def test_ansible_doc_shows_every_module_callback_and_role_with_an_example(kind: str) -> None:
    pages = shown(kind)
    assert sorted(pages) == NAMES[kind]
    for name, page in pages.items():
        assert f"({ROOT}/" in page, f"{name} is somebody else's"
        said = page.partition("OPTIONS")[0].partition("Options")[0]
        assert re.search(r"(?m)^ +\S.*[.]$", said), f"{name} is not described"
        assert re.search(r"EXAMPLES:\n+\S", page), f"{name} has no example"


def documented(name: str) -> dict[str, Any]:
    module = importlib.import_module(f"plugins.modules.{name}")
    found: dict[str, Any] = yaml.safe_load(module.DOCUMENTATION)
    return found


def test_every_action_is_documented_as_a_module() -> None:
    assert set(ACTIONS) <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_the_documentation_of_a_module_has_its_arguments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    module = importlib.import_module(f"plugins.modules.{name}")
    if hasattr(module, "main"):

        class AskedError(Exception):
            pass

        def noted(*_: Any, argument_spec: dict[str, Any], supports_check_mode: bool, **__: Any) -> None:
            asked.update(argument_spec)
            assert supports_check_mode, (
                "a deploy with --check would pass over it, and fail where its answer is read"
            )
            raise AskedError

        monkeypatch.setattr(module, "AnsibleModule", noted)
        with pytest.raises(AskedError):
            module.main()
    options = documented(name)["options"]
    own = (
        getattr(importlib.import_module(f"plugins.action.{name}").ActionModule, "_VALID_ARGS", None)
        if name in ACTIONS
        else None
    )
    assert set(asked) | set(own or ()) <= set(options)
    if name not in ACTIONS:
        assert set(options) == set(asked)
    elif own:
        assert set(options) == set(asked) | own
    for key, spec in asked.items():
        said = {k: options[key].get(k) for k in ("type", "elements", "choices", "default")}
        assert said == {k: spec.get(k) for k in said}, f"{name}.{key}"


def without_plan_of(text: str, folder: Path) -> str:
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader()
    (folder / "site.yml").write_text(text)
    loader = DataLoader()
    inventory = InventoryManager(loader, sources=["localhost,"])
    playbook = Playbook.load(str(folder / "site.yml"), VariableManager(loader, inventory), loader)
    return without_plan(playbook.get_plays())


@pytest.mark.parametrize("role", NAMES["role"])
def test_the_example_of_a_role_that_is_planned_makes_the_plan_first(role: str, tmp_path: Path) -> None:
    spec = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())
    example = yaml.safe_load(spec["argument_specs"]["main"].get("examples", "[]"))
    plays = [one for one in example if "hosts" in one]
    assert without_plan_of(yaml.safe_dump(plays), tmp_path) == "" if plays else True


def test_a_role_alone_is_refused_in_a_line_that_says_what_to_import(tmp_path: Path) -> None:
    for role in ("kafka_rest", "host_tuning", "kafka_topics"):
        said = without_plan_of(f"[{{hosts: all, roles: [java, {role}]}}]", tmp_path)
        assert said.startswith(f"the role {role} takes what it deploys from the plan")
        assert "deploy.yml (ansible.builtin.import_playbook)" in said
    assert without_plan_of("[{hosts: all, roles: [java]}]", tmp_path) == ""
