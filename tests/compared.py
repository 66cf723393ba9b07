"""What a host answers of an instance that ran another plan: by the module's own functions, on a real folder."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils import releases

from kedge.deploy.release_rows import kept_rows
from kedge.deploy.rendering import render_instance, secrets_of
from kedge.evidence.border.instances import staged
from kedge.plan.inventory.secrets import seal
from plugins.modules import kedge_release

#: Unit, the instance as it was planned and as it is; the answer of kedge_release in check mode.
Compare = Callable[[str, Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]

KEY = b"the host's own"


def sealed(instance: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A planned instance with marks for its secrets, as playbooks have it, and their values."""
    hosts = {"host": {"services": {"service": {"instances": [instance]}}}}
    document, values = seal({"hosts": hosts, "clients": {}})
    return document["hosts"]["host"]["services"]["service"]["instances"][0], values


def shipped(unit: str, instance: Mapping[str, Any]) -> dict[str, Any]:
    """A planned instance as it is staged, with its secrets filled in."""
    marked, values = sealed(instance)
    secrets = secrets_of(unit, marked, values, lambda path: f"content of {Path(path).name}")
    whole = {
        "name": str(instance["name"]),
        "files": render_instance(unit, marked),
        "links": {},
        "rows": kept_rows(unit, marked),
    }
    return kedge_release.with_rows(kedge_release.filled(whole, secrets), secrets, KEY)


def compared(folder: Path, *, rows: bool, edited: tuple[str, str, str] | None = None) -> Compare:
    """Return how a host compares, whose release has its rows or, as one of Kedge 0.1, has none.

    ``edited`` is what somebody did to it on the host: a file, a text of it, and what stands there now.
    """

    def compare(unit: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
        old, new = shipped(unit, was), shipped(unit, now)
        release = folder / kedge_release.release_id(old, KEY)
        kedge_release.write_release(release, old if rows else old | {"rows": ""}, os.getgid())
        if edited:
            file, text, by = edited
            assert text in (release / file).read_text()
            (release / file).write_text((release / file).read_text().replace(text, by))
        name = kedge_release.release_id(new, KEY)
        had = releases.text_of(release, releases.ROWS)
        state = {
            "name": new["name"],
            "release": name,
            "current": release.name,
            "pending": name != release.name,
            "edited": False,
            "dropins": [],
            "touched": kedge_release.release_id(releases.content(release), KEY) != release.name,
            "comments": False,
            "same_rows": had == new["rows"],
            "rows": "" if had == new["rows"] else base64.b64encode(had.encode()).decode(),
            "digests": new["digests"],
            "in_force": sorted(file.name for file in release.iterdir()),
            "active": True,
            "predecessor": "",
        }
        answer = {"instances": [state], "pending": [], "restart": [], "stale": [], "strange": []}
        diff = releases.difference(unit, release, new)
        return staged(json.loads(json.dumps(answer)), [new["name"]]) | {"diff": diff}

    return compare
