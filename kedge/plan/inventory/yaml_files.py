"""Checks of an inventory's YAML as it stands in its files: which file, which line, what, how to mend it.

Ansible says less: of some mistakes neither file nor line, of others nothing at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from kedge.evidence.bounds import TooMuchError, check_yaml
from kedge.evidence.nearest import nearest

#: Characters of a file whose mistakes the slower reader explains.
_EXPLAINED: Final = 100_000
_VAULT: Final = "$ANSIBLE_VAULT;"
_YAML: Final = (".yml", ".yaml")
_INDENT: Final = "spaces as its neighbours are, and look at colons, quotes and brackets, here and just before"
_TAGS: Final = ("!vault", "!unsafe", "!vault-encrypted")
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MERGE: Final = "tag:yaml.org,2002:merge"
#: Files in which groups and hosts of an inventory are named.
_NAMING: Final = (*_YAML, ".ini", ".json", ".toml", "")
_OF_A_GROUP: Final = ("hosts", "vars", "children")


class InventoryError(Exception):
    """An inventory that cannot be read; the message is one line for the user."""


class AnsibleStopsError(InventoryError):
    """A file of an inventory at which Ansible would stop by itself."""


def inventories(sources: Iterable[str]) -> list[Path]:
    """Return those of the sources that Ansible is given that are files or folders; others list hosts."""
    # Path.exists raises where a list of hosts is longer than a file's name may be.
    return [Path(source) for source in sources if os.path.exists(source)]  # noqa: PTH110 - as said above


def check_files(path: Path, *, lenient: bool = False) -> None:
    """Refuse YAML of an inventory that cannot be read, or is not read as it looks.

    ``path`` is a file or a folder; with ``lenient``, which is for what Ansible has read already, a folder's
    lists and texts, of which Ansible warns, are passed over as by Ansible. Raises InventoryError.
    """
    own = _own_files(path)
    for file in (*own, *_read_files(path)):
        held = _text(file)
        if not held.startswith(_VAULT):
            others = lenient and path.is_dir() and file in own
            documents = _documents(file, held, others=others)
            if others and not isinstance(documents[0], yaml.MappingNode):
                continue
            for document in documents:
                _check_node(file, document, set(), doubles=True)
            if file in own:
                _check_groups(file, documents[0])
        elif not lenient and not vault_passwords():
            raise InventoryError(
                f"{file}: is encrypted as a whole, and no vault password is at hand; name it by "
                "ANSIBLE_VAULT_PASSWORD_FILE, or encrypt single values (ansible-vault encrypt_string)"
            )


def check_variables(path: Path) -> None:
    """Refuse files of group_vars and host_vars at which Ansible would stop; raises AnsibleStopsError."""
    for file in _read_files(path):
        if not (held := _text(file)).startswith(_VAULT):
            for document in _documents(file, held):
                _check_node(file, document, set(), doubles=False)


def variables_files(path: Path) -> Iterator[Path]:
    """Yield the YAML files of an inventory's groups' and hosts' variables."""
    folder = path if path.is_dir() else path.parent
    for variables in ("group_vars", "host_vars"):
        for file in sorted((folder / variables).rglob("*")):
            if file.is_file() and (file.suffix in _YAML or not file.suffix) and not _hidden(file, folder):
                yield file


def _read_files(path: Path) -> Iterator[Path]:
    """Yield the files of variables without those that Ansible does not read, such as a README beside them.

    It reads one without a suffix where a group or a host is called so: here, where the inventory has that
    word.
    """
    folder = path if path.is_dir() else path.parent
    words: set[str] | None = None
    for file in variables_files(path):
        if not file.suffix and file.parent.parent == folder:
            words = _words(path) if words is None else words
            if file.name not in words:
                continue
        yield file


def _words(path: Path) -> set[str]:
    """Return all words in the files that name an inventory's groups and hosts, and Ansible's own groups."""
    found = {"all", "ungrouped"}
    for file in path.rglob("*") if path.is_dir() else [path]:
        inner = file.relative_to(path).parts
        if file.suffix in _NAMING and not {"group_vars", "host_vars"} & set(inner) and file.is_file():
            found |= set(re.findall(r"[\w.-]+", file.read_text(encoding="utf-8", errors="replace")))
    return found


@cache
def vault_passwords() -> tuple[Any, ...]:
    """Return the vault passwords that Ansible's configuration names; Ansible takes them once a process."""
    from ansible import constants
    from ansible.cli import CLI
    from ansible.errors import AnsibleError
    from ansible.parsing.dataloader import DataLoader

    files = [constants.DEFAULT_VAULT_PASSWORD_FILE] if constants.DEFAULT_VAULT_PASSWORD_FILE else []
    ids = constants.DEFAULT_VAULT_IDENTITY_LIST
    try:
        found = CLI.setup_vault_secrets(DataLoader(), ids, vault_password_files=files, auto_prompt=False)
    except AnsibleError:  # a password that is not at hand: its vaults stay closed
        return ()
    return tuple(found)


def one_line(error: BaseException) -> str:
    """Return what an error says, in one line."""
    return " ".join(str(error).split()).rstrip(".")


def _own_files(path: Path) -> list[Path]:
    """Return the YAML files of an inventory in which its hosts stand."""
    if path.is_dir():
        return [p for p in sorted(path.iterdir()) if p.is_file() and p.suffix in _YAML]
    return [path] if path.is_file() and path.suffix in _YAML else []


def _hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") or part.endswith("~") for part in file.relative_to(folder).parts)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise AnsibleStopsError(f"{file}: is no text in UTF-8 ({error.reason})") from error


def _documents(file: Path, held: str, *, others: bool = False) -> list[yaml.Node | None]:
    """Return the one document of a file as its nodes, None where it is empty.

    It has to be a mapping, but for ``others``.
    """
    try:
        check_yaml(held)
    except TooMuchError as error:
        raise AnsibleStopsError(f"{file}: {error}; take out what is nested, or an alias") from error
    except yaml.YAMLError:
        pass  # said below
    try:
        found = _composed(held)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        begun = f" ({error.context})" if error.context else ""
        tab = "'\\t'" in str(error.problem)
        mend = f"indent with {'spaces, not with tabs' if tab else _INDENT}"
        raise AnsibleStopsError(f"{file}{place}: no YAML: {error.problem}{begun}; {mend}") from error
    except yaml.YAMLError as error:
        raise AnsibleStopsError(f"{file}: no YAML: {one_line(error)}") from error
    if len(found) > 1:
        raise AnsibleStopsError(f"{_at(file, found[1])}: a second document begins; take the line --- out")
    if found and not others and not isinstance(found[0], yaml.MappingNode) and not _empty(found[0]):
        raise AnsibleStopsError(f"{_at(file, found[0])}: is no mapping; write NAME: VALUE, with a colon")
    return list(found) or [None]


def _composed(held: str) -> list[yaml.Node]:
    """Return the documents of a text, as the quick reader of C has them.

    What it refuses, the other one explains; on a megabyte that would take more than ten seconds.
    """
    quick = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return list(yaml.compose_all(held, quick))
    except yaml.YAMLError:
        if len(held) > _EXPLAINED:
            raise
        list(yaml.compose_all(held, yaml.SafeLoader))
        raise


def _check_node(file: Path, node: yaml.Node | None, seen: set[int], *, doubles: bool) -> None:
    """Refuse what Ansible could not read; with ``doubles`` also what it would read in another way."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))  # an anchor's node comes again with each of its aliases
    if node.tag.startswith("!") and node.tag not in _TAGS:
        near = nearest(node.tag, _TAGS)
        mend = f"did you mean {near}?" if near else "put the value in quotes, where it is a text"
        raise AnsibleStopsError(f"{_at(file, node)}: Ansible does not know the tag {node.tag}; {mend}")
    if isinstance(node, yaml.ScalarNode):
        if doubles and node.tag in _NUMBERS and ":" in node.value:
            message = (
                f"{_at(file, node)}: {node.value} would be read as a number of base 60; put it in quotes"
            )
            raise InventoryError(message)
    elif isinstance(node, yaml.SequenceNode):
        for one in node.value:
            _check_node(file, one, seen, doubles=doubles)
    elif isinstance(node, yaml.MappingNode):
        _check_mapping(file, node, seen, doubles=doubles)


def _check_mapping(file: Path, node: yaml.MappingNode, seen: set[int], *, doubles: bool) -> None:
    """Refuse a key that is none, and one that is there twice: YAML's readers take the last in silence."""
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise AnsibleStopsError(
                f"{_at(file, key)}: a bracket begins what would be a key; put a template in quotes: "
                '"{{ name }}"'
            )
        # A key over a merged one (<<) is no second one.
        if doubles and key.tag != _MERGE:
            if key.value in lines:
                message = (
                    f"{_at(file, key)}: {key.value} is here a second time, and line {lines[key.value]} would "
                    "be passed over; take one of the two out"
                )
                raise InventoryError(message)
            lines[key.value] = key.start_mark.line + 1
        _check_node(file, value, seen, doubles=doubles)


def _check_groups(file: Path, groups: yaml.Node | None) -> None:
    """Refuse groups whose hosts would be lost; a file that names an inventory plugin has none."""
    found = _entries(groups)
    for name, group in found.items() if "plugin" not in found else ():
        for key, value in _entries(group).items():
            if key not in _OF_A_GROUP or _empty(value):
                continue
            if not isinstance(value, yaml.MappingNode) and not (key != "vars" and _one_name(value)):
                example = {"hosts": "rest1:", "children": "kafka_rest:", "vars": "NAME: VALUE"}[key]
                mend = f"write each as a key of its own line, with a colon: {example}"
                raise InventoryError(f"{_at(file, value)}: {key} of the group {name} is no mapping; {mend}")
            if key == "children":
                _check_groups(file, value)
            elif key == "hosts":
                _check_hosts(file, value)


def _check_hosts(file: Path, hosts: yaml.Node) -> None:
    for host, variables in _entries(hosts).items():
        if re.search(r"[\s,]", host):
            message = (
                f"{_at(file, variables)}: {host!r} is no name of a host; write each on a line of its own"
            )
            raise InventoryError(message)
        if not isinstance(variables, yaml.MappingNode) and not _empty(variables):
            message = (
                f"{_at(file, variables)}: the host {host} is no mapping; write its variables as "
                "NAME: VALUE, each on a line below it"
            )
            raise InventoryError(message)
        for name, value in _entries(variables).items():
            if name in _OF_A_GROUP:
                message = (
                    f"{_at(file, value)}: the host {host} has the key {name}, which groups have; its "
                    "variables stand right below its name"
                )
                raise InventoryError(message)


def _entries(node: yaml.Node | None) -> dict[str, yaml.Node]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {key.value: value for key, value in pairs if key.tag != _MERGE}


def _empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _one_name(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and re.fullmatch(r"[^\s,]+", node.value) is not None


def _at(file: Path, node: yaml.Node) -> str:
    return f"{file}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
