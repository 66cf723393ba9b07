"""Variables of the inventory whose names nothing reads, and which name is probably meant.

Those that the model of a role's variables reads are in kedge/plan/variable_messages.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from kedge.evidence.nearest import nearest
from kedge.plan.findings import Finding, Subject
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.variables import OfHost, Shared
from kedge.plan.service import Service

#: Variables of no service: of the inventory, and those that roles alone read.
COMMON: Final = (
    *Shared.model_fields,
    *OfHost.model_fields,
    "java_version",
    "java_packages",
    "kafka_cache",
    "kafka_lock",
    "occupied_known",
    "plan_archives",
    "plan_diff",
    "plan_show",
    "rack",
    "rollout",
    "verify_history",
    "verify_load",
    "verify_steps",
)
#: How Ansible reaches a host, as people say it.
_CONNECTION: Final = (
    *("ansible_host", "ansible_port", "ansible_user", "ansible_password", "ansible_connection"),
    *("ansible_ssh_host", "ansible_ssh_port", "ansible_ssh_user", "ansible_ssh_pass"),
    *("ansible_ssh_private_key_file", "ansible_ssh_common_args", "ansible_ssh_extra_args"),
    *("ansible_become", "ansible_become_user", "ansible_become_method", "ansible_become_flags"),
    *("ansible_become_pass", "ansible_become_password", "ansible_python_interpreter"),
)
#: What Ansible has beside them and is nearly called so; never offered, for it has many more.
_BESIDE: Final = (
    *("ansible_private_key", "ansible_private_key_file", "ansible_ssh_private_key"),
    *("ansible_private_key_passphrase", "ansible_ssh_private_key_passphrase"),
    *("ansible_ssh_password", "ansible_ssh_args", "ansible_scp_extra_args", "ansible_sftp_extra_args"),
    *("ansible_become_exe", *(f"ansible_user_{fact}" for fact in ("id", "uid", "gid", "dir"))),
)
_LIKE: Final = 0.88


def check_names(inventory: Inventory, services: Sequence[Service]) -> Iterator[Finding]:
    """Warn of variables that nothing reads and whose names are nearly those of others."""
    read = {
        name
        for service in services
        if service.variables
        for host in service.hosts(inventory)
        for name in inventory.hosts[host]
        if name.startswith(f"{service.name}_")
    }
    known = (*COMMON, *(name for service in services for name in (*service.of_role, *service.fields())))
    nearly = {name: _near(name, known) for name in {n for of in inventory.hosts.values() for n in of}}
    for host, variables in inventory.hosts.items():
        for name in variables:
            near = nearly[name]
            # The model of a role complains where it reads the name. One beside the right variable that only
            # adds to its name may be a part from which the inventory composes it.
            if near is None or name in read or (near in variables and near in name):
                continue
            beside = ", which is set too" if near in variables else ""
            yield Finding(
                "warning",
                "inventory.variable",
                f"{host}: {name}",
                f"nothing reads {name}",
                f"did you mean {near}{beside}?",
                Subject(name, host=host, known=False, meant=near),
            )


@cache
def _near(name: str, known: tuple[str, ...]) -> str | None:
    """Return the known variable that a name is probably meant to be; None where it is one or like none."""
    if name.startswith("ansible_"):
        known = _CONNECTION
    if name in known or name in _BESIDE or name.startswith("_"):
        return None
    return nearest(name, known, _LIKE)
