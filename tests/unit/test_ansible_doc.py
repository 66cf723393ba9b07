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

        def noted(*_: Any, argument_spec: dict[str, Any], **__: Any) -> None:
            asked.update(argument_spec)
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
