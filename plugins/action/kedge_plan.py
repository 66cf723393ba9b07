"""Computes the plan of the whole inventory once, on the control machine."""

from __future__ import annotations

import datetime
import errno
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible import constants, context
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.playbook.play_context import PlayContext
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import connection_loader
from ansible.utils.display import Display

from kedge.deploy.kafka_admin import speaks
from kedge.evidence.files import replace_text
from kedge.evidence.secrets import merged
from kedge.plan.difference import document as described
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.archives import archive_files, look_at_classes, read_archives, unpacks
from kedge.plan.inventory.certificates import look_at_certificates, look_at_load, look_at_own_files
from kedge.plan.inventory.clusters import bootstrap, clusters
from kedge.plan.inventory.loads import chosen, loads
from kedge.plan.inventory.logins import no_kerberos
from kedge.plan.inventory.precedence import check_precedence
from kedge.plan.inventory.reading import prefixes, resolved, spelled_out, vaulted, without_facts
from kedge.plan.inventory.recommendations import with_recommendations
from kedge.plan.inventory.secrets import private, seal
from kedge.plan.inventory.security import librdkafka
from kedge.plan.inventory.versions import versions
from kedge.plan.inventory.yaml_files import InventoryError, check_files, inventories, one_line
from kedge.plan.plan import Plan
from kedge.plan.service import group_names
from kedge.plan.text import brief, text
from kedge.services.balancer.drain import draining_balancers
from kedge.services.broker.security import scram_users
from kedge.services.mirror.adopting import adopting_json
from kedge.services.mirror.topics_and_groups import flows_json
from kedge.services.planning import make_plan, what_changes
from kedge.services.registry import SERVICES
from kedge.services.rights import rights_of
from kedge.services.streams.load import applications_json
from kedge.services.topics.planner import targets

#: What says how a host is reached beside what Ansible's own plugin of SSH resolves: a command line's options.
_BESIDE = {
    "ansible_connection": "connection",
    "ansible_become": "become",
    "ansible_become_method": "become_method",
    "ansible_become_user": "become_user",
    "ansible_python_interpreter": "",
}
#: Options of that plugin, by the variables that others read.
_SSH = {
    "ansible_host": "host",
    "ansible_port": "port",
    "ansible_user": "remote_user",
    "ansible_ssh_private_key_file": "private_key_file",
    "ansible_ssh_args": "ssh_args",
    "ansible_ssh_common_args": "ssh_common_args",
    "ansible_ssh_extra_args": "ssh_extra_args",
}
#: What decides where SSH would connect to.
_WAY = (
    "ansible_connection",
    "ansible_host",
    "ansible_port",
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "ansible_ssh_host",
    "ansible_ssh_port",
)
#: Where the load runs, from which it takes relative paths.
_ROOT = Path(__file__).resolve().parents[2]
_CONTROL_PATH = Path("~/.ansible/cp/kedge-%C").expanduser()
_COLORS = {"error:": "red", "warning:": "bright purple"}
display = Display()


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_plan.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"archives", "dest", "inventory", "logins", "show"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plan; files are written for a plan with errors too: one may be what has to be measured first."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        hostvars = task_vars["hostvars"]
        try:
            inventory, ways = _inventory(task_vars)
        except InventoryError as error:
            raise AnsibleActionFail(
                f"the inventory cannot be read: {error}. No host was touched. Fix it, then run "
                "the playbook again"
            ) from None
        use = self._task.args.get("archives", "ignore")
        found = None if use == "ignore" else read_archives(inventory, SERVICES, fetch=use == "need")
        plan = make_plan(inventory, archives=found, deploying=use == "need")
        plan = self._with_files(plan, inventory, use)
        errors = [f for f in plan.findings if f.severity == "error"]
        show = boolean(self._task.args.get("show", False))
        if show:
            shown = text(plan, full=True) if display.verbosity > 0 else brief(plan)
            _show(f"{shown}\n{what_changes(inventory, plan)}")
        written, inventory = inventory, with_recommendations(inventory, SERVICES).inventory
        if any(f.rule == "secret.shown" for f in errors):
            raise AnsibleActionFail(_refusal(errors))  # before anything is written that would show it
        document, secrets = seal(plan.to_json())
        document = described(document, written, SERVICES)
        known = clusters(inventory)[0]
        own = {name: librdkafka(cluster.security) for name, cluster in known.items()}
        users = {name: scram_users(cluster.security) for name, cluster in known.items() if cluster.brokers}
        document |= _beside(inventory, found or {}, {name: public for name, (public, _) in own.items()})
        document["draining"] = draining_balancers(document)  # else each host would look for them in all
        document["deployed"] = _deployed(plan, inventory)
        document["versions"] = versions(inventory, plan.services, SERVICES)
        document["users"] = {
            name: how | {"rights": rights_of(inventory, name, known[name].security)}
            for name, (how, _) in users.items()
            if how
        }
        if dest := self._task.args.get("dest"):
            _write(Path(dest), document)
        logins = {name: secret for name, (_, secret) in own.items()}
        if asked := self._task.args.get("logins"):
            _write(Path(asked), logins)
        if reached := self._task.args.get("inventory"):
            _CONTROL_PATH.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_text(Path(reached), json.dumps(_connections(hostvars, inventory.groups), indent=1) + "\n")
        if errors and show:
            raise AnsibleActionFail(
                f"{len(errors)} error{'s' * (len(errors) != 1)} in the plan; no host was touched. Fix what "
                "stands above, then run the playbook again"
            )
        if errors:
            raise AnsibleActionFail(_refusal(errors))
        # No facts: Ansible copies those of localhost whole, for each host and task that looks one up, and
        # a cache of facts would keep the passwords.
        result |= {
            "plan": document,
            # Resolving variables costs milliseconds a host: once is enough.
            "ways": ways,
            # Apart, so that no other file of the kit prints them or writes them down.
            "secrets": {
                "settings": secrets,
                "clusters": logins,
                "load": _of_load(chosen(inventory), logins)
                | _become(hostvars, inventory.hosts, self._play_context.become_pass),
                "users": {name: passwords for name, (_, passwords) in users.items()},
            },
            # Callbacks print and keep whole results, that of JSON among them, and each is given its own copy:
            # they get none of this one.
            "_ansible_no_log": True,
        }
        if not show:
            result["warnings"] = [f.line() for f in plan.findings if f.severity == "warning"]
        return result

    def _with_files(self, plan: Plan, inventory: Inventory, use: str) -> Plan:
        """Return a plan with what is wrong with files: the load's, and those that are copied.

        What would only fail a load stops no deploy and no way back: it is an error of plan.yml alone.
        """
        now = datetime.datetime.now(datetime.UTC)
        seen: tuple[Finding, ...] = ()
        for name, load in loads(inventory).items():
            if isinstance(load, Mapping) and isinstance(rest := load.get("rest"), Mapping):
                ca = {"ca": str(_ROOT / rest["ca"])} if isinstance(rest.get("ca"), str) else {}
                seen += look_at_load(plan, name, {**rest, **ca}, now, self._read)
        if use != "look":
            seen = tuple(replace(f, severity="warning") if f.severity == "error" else f for f in seen)
        if use != "ignore":
            addresses = {host: inventory.address(host) for host in inventory.hosts}
            seen += tuple(look_at_classes(inventory, SERVICES))
            seen += look_at_certificates(plan, now, addresses, self._read)
            known = clusters(inventory)[0].items()
            secured = {name: cluster.security for name, cluster in known if cluster.security}
            seen += look_at_own_files(secured, now)
            tickets = [name for name, security in secured.items() if security.tickets]
            seen += tuple(no_kerberos(name) for name in tickets if not speaks("GSSAPI"))
        return replace(plan, findings=(*plan.findings, *seen))

    def _read(self, path: Path) -> bytes:
        """Return what a file of this machine holds, one that a vault encrypted in plain; raises OSError."""
        try:
            return Path(self._loader.get_real_file(str(path))).read_bytes()
        except AnsibleError as error:
            if path.exists():
                raise OSError(one_line(error)) from error
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from error


def _inventory(task_vars: Mapping[str, Any]) -> tuple[Inventory, dict[str, dict[str, str]]]:
    """Return the inventory, its templates resolved, and by host how it is reached; raises InventoryError."""
    for path in inventories(task_vars.get("ansible_inventory_sources", ())):
        check_files(path, lenient=True)
    hosts, ways, begin = {}, {}, prefixes(SERVICES)
    spelled = spelled_out(context.CLIARGS.get("extra_vars") or (), SERVICES)
    for host in task_vars["groups"].get("all", ()):
        variables = task_vars["hostvars"][host]
        hosts[host] = resolved(host, variables, begin, spelled)
        ways[host] = {name: str(variables[name]) for name in _WAY if name in variables}
    groups = {name: tuple(members) for name, members in task_vars["groups"].items()}
    sources = task_vars.get("ansible_inventory_sources", ())
    findings = check_precedence(task_vars["hostvars"], sources, group_names(SERVICES), begin)
    raw = {host: task_vars["hostvars"].raw_get(host) for host in hosts}
    findings += without_facts(raw, begin)
    return Inventory(hosts, groups, findings, vaulted(raw.values(), begin)), ways


def _beside(
    inventory: Inventory, archives: Mapping[str, Any], clients: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return what is needed beside the hosts' plans: archives, clusters, flows, applications."""
    return {
        "archives": {path: has for path, has in archives.items() if has},
        "archive_files": {path: str(file) for path, file in archive_files(inventory, SERVICES).items()},
        "unpacks": unpacks(inventory, SERVICES, archives),
        "clusters": {
            name: {
                "bootstrap_servers": bootstrap(inventory, name, cluster),
                "targets": targets(inventory, name),
                "client": clients[name],
            }
            for name, cluster in clusters(inventory)[0].items()
        },
        "flows": flows_json(inventory),
        "adopting": adopting_json(inventory),
        "applications": applications_json(inventory),
    }


def _deployed(plan: Plan, inventory: Inventory) -> dict[str, dict[str, Any]]:
    """Return the services with instances of each planned host, as hosts keep the record of them."""
    running = {service.name for service in SERVICES if service.restarted}
    return {
        host: {"address": inventory.address(host), "services": sorted(running & services.keys())}
        for host, services in plan.services.items()
        if running & services.keys()
    }


def _refusal(errors: Sequence[Finding]) -> str:
    lines = "\n  ".join(f.line() for f in errors)
    return f"the plan has errors, no host was touched. Fix them, then run the playbook again:\n  {lines}"


def _write(file: Path, document: Mapping[str, Any]) -> None:
    replace_text(file, json.dumps(document, indent=1) + "\n", private=True)


def _of_load(verify: Any, logins: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return the secrets of the load and of the audit: those of ``verify``, and the clusters' by name."""
    if not isinstance(verify, Mapping):
        return {"clusters": logins}
    own = private(verify)
    loaded = {str(verify.get("cluster", "")): own.pop("client", {})}
    return {**own, "clusters": merged(logins, loaded)}


def _become(hostvars: Any, hosts: Iterable[str], asked: str | None) -> dict[str, Any]:
    """Return the passwords by which logins become root, by host: a host's own, or the one of ``-K``."""
    found = {}
    for host in hosts:
        own = hostvars[host]
        given = own.get("ansible_become_password") or own.get("ansible_become_pass") or asked
        if given and own.get("ansible_become", context.CLIARGS.get("become")):
            found[host] = str(given)
    return {"become": found} if found else {}


def _show(shown: str) -> None:
    """Print the plan; findings that need a person's eyes stand out."""
    color = None
    for line in shown.splitlines():
        if not line.startswith(" "):
            color = _COLORS.get(line.partition(" ")[0])
        display.display(line, color=color)


def _connections(hostvars: Any, groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return an inventory (YAML or JSON form) of how hosts are reached; passwords stay out."""
    found = {host: _connection(host, hostvars[host]) for hosts in groups.values() for host in hosts}
    return {
        group: {"hosts": {host: found[host] for host in hosts}} for group, hosts in groups.items() if hosts
    }


def _connection(host: str, variables: Any) -> dict[str, Any]:
    """Return how Ansible reaches a host: by its variables, the command line and the configuration."""
    given = context.CLIARGS
    found: dict[str, Any] = {}
    for name, option in _BESIDE.items():
        value = variables[name] if name in variables else given.get(option)
        # The default of an option says nothing.
        found |= {name: value} if name in variables or value not in (None, False, "ssh", "sudo") else {}
    ssh = connection_loader.get("ssh", PlayContext())
    names = constants.config.get_plugin_vars("connection", "ssh")
    known = {name: variables[name] for name in names if name in variables}
    ssh.set_options(
        task_keys={"remote_user": given.get("remote_user")},
        var_options={"inventory_hostname": host, **known},
    )
    values = {name: ssh.get_option(option) for name, option in _SSH.items()}
    found |= {name: value for name, value in values.items() if value not in (None, "")}
    # One connection a host serves all commands; without it each costs a handshake of 0.2 s.
    arguments = [str(found.get("ansible_ssh_common_args", "")).strip(), f"-o ControlPath={_CONTROL_PATH}"]
    return found | {"ansible_ssh_common_args": " ".join(a for a in arguments if a)}
