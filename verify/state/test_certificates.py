"""The certificates and keys of all services: those of the inventory, kept close, with days left."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from verify.state.conftest import copied_files, name_of

testinfra_hosts = ["ansible://all"]
#: A week is the last moment for a renewal; the plan warns from thirty days on.
LEAST_S = 7 * 24 * 3600


def files(plan: dict[str, Any], host: Any) -> dict[str, list[Path]]:
    """The files on a host that hold certificates and keys, with the files that they come from."""
    of_host = plan["hosts"].get(name_of(host), {"services": {}})["services"]
    return {
        path: parts
        for part in of_host.values()
        for instance in part["instances"]
        for path, parts in copied_files(instance).items()
    }


def test_certificates_and_keys_are_those_of_the_inventory(host: Any, plan: dict[str, Any]) -> None:
    for path, parts in files(plan, host).items():
        wanted = "".join(f"{part.read_text().strip()}\n" for part in parts)
        # Compared by digest: a difference prints no key.
        assert host.file(path).sha256sum == hashlib.sha256(wanted.encode()).hexdigest(), path


def test_certificates_and_keys_are_read_by_their_service_and_by_nobody_else(
    host: Any, plan: dict[str, Any]
) -> None:
    for path in files(plan, host):
        file = host.file(path)
        assert (file.user, file.mode) == ("root", 0o640), path


def test_certificates_are_valid_for_a_week_at_least(host: Any, plan: dict[str, Any]) -> None:
    for path in files(plan, host):
        # openssl says of the first certificate of a file whether it will have ended by then.
        asked = host.run("openssl x509 -noout -checkend %s -in %s", str(LEAST_S), path)
        assert asked.rc == 0, f"{path} ends within seven days, or has ended"
