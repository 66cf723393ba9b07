"""Reads an inventory with Ansible's own reader, without any host: the edge of the package.

What is wrong with its files is said in one line: which file, which line, what.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from kedge.evidence.secrets import looks_secret
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.precedence import check_precedence
from kedge.plan.inventory.yaml_files import (
    InventoryError,
    check_files,
    inventories,
    one_line,
    vault_passwords,
)
from kedge.plan.service import Service, group_names, models

#: What the rules read beside the services' own variables.
_SHARED: Final = (
    "advice",
    "ansible_host",
    "ansible_ssh_host",
    "data_center",
    "rack",
    "rollout",
    "fleet",
    "host_",
    "java_version",
    "kafka_",
    "recommended",
    "service_levels",
    "verify",
)
_CLONE: Final = Path(__file__).resolve().parents[3]
#: Facts of a host, as templates name them.
_FACTS: Final = re.compile(
    r"\bansible_(facts|memtotal_mb|memory_mb|processor\w*|distribution\w*|os_family|hostname|fqdn|nodename"
    r"|default_ipv[46]|all_ipv[46]_addresses|interfaces|mounts|devices)\b"
)
_TYPED: Final = re.compile(r"-?(0|[1-9]\d*)|[Tt]rue|[Ff]alse")
#: How a file that is encrypted as a whole begins.
_VAULT: Final = b"$ANSIBLE_VAULT"
#: What Ansible says of a group's key that it does not know, and goes on without its hosts.
_SKIPPED: Final = re.compile(r"Skipping unexpected key \((?P<key>.+?)\) in group \((?P<group>.+?)\)")


def prefixes(services: Sequence[Service]) -> tuple[str, ...]:
    """Return how the variables begin that the rules read; others stay where they are, secrets included."""
    return (*_SHARED, *(f"{service.name}_" for service in services if service.variables))


def read_inventory(
    paths: Path | Sequence[Path], services: Sequence[Service], extra_vars: Sequence[str] = ()
) -> Inventory:
    """Read an Ansible inventory as a playbook would see it, templates resolved.

    Of several inventories the later ones win, as with Ansible.

    ``extra_vars`` are what a playbook takes after ``-e``: ``@FILE``, ``key=value``, or JSON.

    Raises:
        InventoryError: when it is not there, cannot be parsed, uses a variable that nothing defines, or holds
            no host; when a file of ``extra_vars`` cannot be read.
    """
    sources = [str(one) for one in ([paths] if isinstance(paths, Path) else paths)]
    path = ", ".join(sources)
    for source in sources:
        if not inventories([source]):
            message = f"{source}: no such inventory; give the folder or file that ansible-playbook -i takes"
            raise InventoryError(message)
        check_files(Path(source))
    said = io.StringIO()
    # Ansible warns about a source that it cannot parse, and would go on without it.
    os.environ["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"] = "true"
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        from ansible.errors import AnsibleError
        from ansible.inventory.manager import InventoryManager
        from ansible.parsing.dataloader import DataLoader
        from ansible.plugins.loader import init_plugin_loader
        from ansible.utils.collection_loader import AnsibleCollectionConfig
        from ansible.vars.hostvars import HostVars, HostVarsVars

        # Without it no plugin is found by its full name, such as the look-up of a password.
        if AnsibleCollectionConfig.collection_finder is None:
            init_plugin_loader()
        loader = DataLoader()
        # As for Kedge's playbooks: variables beside them count, and lookups begin there.
        if (_CLONE / "plan.yml").is_file():
            loader.set_basedir(str(_CLONE))
        loader.set_vault_secrets(list(passwords := vault_passwords()))
        try:
            manager = InventoryManager(loader, sources=sources)
        except AnsibleError as error:
            raise InventoryError(f"{path}: {_why(said.getvalue()) or one_line(error)}") from error
        hostvars = HostVars(manager, _variables(loader, manager, extra_vars), loader)

        def seen(host: str) -> Mapping[str, Any]:
            if passwords:
                return hostvars[host]  # type: ignore[no-any-return] # Ansible has no types
            raw = {name: _closed(value) for name, value in hostvars.raw_get(host).items()}
            return HostVarsVars(raw, loader=loader, host=host)  # type: ignore[no-any-return] # as above

        begin = prefixes(services)
        groups = {name: tuple(map(str, hosts)) for name, hosts in manager.get_groups_dict().items()}
        try:
            spelled = spelled_out(extra_vars, services)
            hosts = {
                str(host): resolved(str(host), seen(str(host)), begin, spelled)
                for host in manager.get_hosts()
            }
        except AnsibleError as error:
            raise InventoryError(f"{path}: {one_line(error)}") from error
    if skipped := _SKIPPED.search(said.getvalue()):
        message = (
            f"{path}: the group {skipped['group']} has the key {skipped['key']}, which Ansible would pass "
            "over; a group has hosts, vars and children"
        )
        raise InventoryError(message)
    if not hosts:
        message = f"{path}: the inventory has no host; add hosts to the groups kafka_rest, mirror_maker, ..."
        raise InventoryError(message)
    raw = {host: hostvars.raw_get(host) for host in hosts}
    findings = (
        *check_precedence(hostvars, sources, group_names(services), begin),
        *without_facts(raw, begin),
    )
    return Inventory(hosts, groups, findings, vaulted(raw.values(), begin))


def _variables(loader: Any, manager: Any, extra_vars: Sequence[str]) -> Any:
    """Return Ansible's variable manager; it takes extra variables from its command line alone."""
    from ansible import context
    from ansible.errors import AnsibleError
    from ansible.module_utils.common.collections import ImmutableDict
    from ansible.utils.vars import load_extra_vars
    from ansible.vars.manager import VariableManager

    for word in extra_vars:
        if word.startswith("@") and not Path(word[1:]).is_file():
            raise InventoryError(f"-e {word}: no such file")
        if not word.startswith(("@", "{")) and "=" not in word:
            raise InventoryError(f"-e {word}: write @FILE for a file of variables, or NAME=VALUE")
    before = context.CLIARGS
    context.CLIARGS = ImmutableDict(before, extra_vars=tuple(extra_vars))
    load_extra_vars.extra_vars = None  # what it read before, for another inventory
    try:
        return VariableManager(loader, manager)
    except AnsibleError as error:
        raise InventoryError(f"-e {' '.join(extra_vars)}: {one_line(error)}") from error
    finally:
        context.CLIARGS = before
        load_extra_vars.extra_vars = None


def spelled_out(extra_vars: Iterable[str], services: Iterable[Service]) -> frozenset[str]:
    """Return the variables that a command line has as ``-e NAME=VALUE``, which Ansible takes for text.

    Those of services that are text, such as versions, are left out.
    """
    from ansible.parsing.splitter import parse_kv

    given = (str(word) for word in extra_vars)
    names = {name for word in given if word[:1] not in ("@", "{", "[") for name in parse_kv(word)}
    texts = {
        f"{service}_{name}"
        for service, model in models(services).items()
        for name, field in model.model_fields.items()
        if re.search(r"\bstr\b", str(field.annotation))
    }
    return frozenset(names - texts)


def resolved(
    host: str, variables: Mapping[str, Any], begin: tuple[str, ...], spelled: Collection[str] = ()
) -> dict[str, Any]:
    """Return the variables of a host that begin so, as plain values; of others the name alone.

    Whole numbers and booleans of variables that are ``spelled`` out on a command line are no text.

    Raises:
        InventoryError: when a template uses what nothing defines, or is none; when a name is no word.
    """
    from ansible.errors import AnsibleError

    found: dict[str, Any] = {}
    for name in variables:
        if not isinstance(name, str):
            message = f"a variable of {host} has the name {name!r}, which is no word; write its name"
            raise InventoryError(message)
        try:
            value = _plain(variables[name]) if name.startswith(begin) else None
            if name in spelled and not looks_secret(name) and _TYPED.fullmatch(str(value)):
                value = yaml.safe_load(str(value))
            found[name] = value
        except AnsibleError as error:
            template = getattr(error, "obj", None)
            shown = f" is {str(template)!r}" if isinstance(template, str) else ""
            place = _place(template)
            fix = "define what it uses, or write the value itself"
            if closed := _closed_vault(error):
                error, fix = closed, "give the password that it was encrypted with (--vault-password-file, "
                fix += "ANSIBLE_VAULT_PASSWORD_FILE)"
            message = f"{place + ': ' if place else ''}{name} of {host}{shown}: {one_line(error)}; {fix}"
            raise InventoryError(message) from error
    return found


def _closed_vault(error: BaseException | None) -> BaseException | None:
    """Return the error of a vault that its password did not open, if that is what an error comes from."""
    # Ansible's class is private.
    while error is not None and "VaultError" not in type(error).__name__:
        error = error.__cause__ or error.__context__
    return error


def _plain(value: Any) -> Any:
    """Return a value without Ansible's tags and laziness."""
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in value}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def _closed(value: Any) -> Any:
    """Return a value with asterisks for each vault in it: a plan can be read without the vault's password.

    They are as many as a password has to have characters.
    """
    from ansible.parsing.vault import EncryptedString

    if isinstance(value, EncryptedString):
        return "*" * 8
    if isinstance(value, Mapping):
        return {key: _closed(one) for key, one in value.items()}
    return [_closed(one) for one in value] if isinstance(value, list) else value


def vaulted(hosts: Iterable[Mapping[str, Any]], begin: tuple[str, ...]) -> frozenset[str]:
    """Return the values of hosts' raw variables that a vault holds, by itself or in a file encrypted whole.

    Of such a file the variables that the rules read (``begin``) are left out: one may hold a whole inventory,
    topics and addresses among it. So is a vault whose password is not at hand, which can reach no plan.
    """
    from ansible.errors import AnsibleError
    from ansible.parsing.vault import EncryptedString

    found: set[str] = set()
    files: dict[str, bool] = {}
    # Hosts share the values of their groups.
    for name, value in {id(one): (name, one) for of in hosts for name, one in of.items()}.values():
        for leaf in _leaves(value):
            if isinstance(leaf, EncryptedString):
                with contextlib.suppress(AnsibleError):
                    found.add(str(leaf))
            elif isinstance(leaf, str) and not name.startswith(begin):
                place = _place(leaf).partition(":")[0]
                if place not in files:
                    files[place] = _is_vault(Path(place))
                if files[place]:
                    found.add(str(leaf))
    return frozenset(found)


def without_facts(hosts: Mapping[str, Mapping[str, Any]], begin: tuple[str, ...]) -> tuple[Finding, ...]:
    """Return a warning for each raw variable that asks for facts of a host of which there are none.

    It had a default, or it would have stopped the plan. It may ask by way of other variables.
    """

    def asks(name: str, raw: Mapping[str, Any], seen: set[str]) -> bool:
        seen.add(name)
        text = " ".join(one for one in _leaves(raw[name]) if isinstance(one, str) and "{{" in one)
        others = raw.keys() & set(re.findall(r"\w+", text)) - seen if text else ()
        return bool(_FACTS.search(text)) or any(asks(other, raw, seen) for other in others)

    return tuple(
        Finding(
            "warning",
            "inventory.facts",
            f"{host}: {name}",
            f"{name} asks for facts of the host, and a plan has none: its default counts",
            "write the value itself; a deploy compares memory and cores with those of the host",
        )
        for host, raw in hosts.items()
        if not raw.get("ansible_facts")
        for name in raw
        if name.startswith(begin) and asks(name, raw, set())
    )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _is_vault(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_VAULT)) == _VAULT
    except OSError:
        return False


def _place(template: Any) -> str:
    """Return where a template stands, as file:line:column; empty where Ansible does not say."""
    try:
        from ansible._internal._datatag._tags import Origin  # there is no public one
    except ImportError:
        return ""
    origin = Origin.get_tag(template) if template is not None else None
    return str(origin) if origin is not None and origin.path else ""


def _why(complaint: str) -> str:
    """Return in one line what Ansible says at length about a source: what is wrong, and where."""
    # Each of Ansible's readers complains; that of YAML is the one that a person wrote for.
    lines = [line.strip() for line in complaint.splitlines() if line.strip() and "stdout/stderr" not in line]
    failed = [line for line in lines if "failed" in line.lower() or "error" in line.lower()]
    said = next((line for line in failed if "'yaml' plugin" in line), failed[0] if failed else "")
    said = re.sub(r', found "<class .*?>" instead', "", said)
    origin = next((line for line in lines if line.startswith("Origin:")), "")
    return f"{said.removeprefix('[WARNING]: ').removeprefix('[ERROR]: ')} {origin}".strip()
