"""Marks what of a plan is a secret, by its value too, and refuses what would be shown with a secret in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from kedge.plan.findings import Finding, together
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.loads import loads
from kedge.plan.inventory.secrets import Known, public
from kedge.plan.plan import Plan, PlannedInstance
from kedge.plan.service import Service
from kedge.plan.settings import Setting

#: What of an environment file a start puts on the command line, or a JVM prints when it starts.
_ON_COMMAND_LINE: Final = re.compile(r"_OPTS$|_OPTIONS$|_ARGS$|^MIRROR_")
_UNITS: Final = "/etc/systemd/"
#: Variables of which the plan keeps more than settings: names, addresses; and what of them is hidden.
_SHOWN: Final = (
    "kafka_clusters",
    "mirror_maker_flows",
    "streams_app_cluster",
    "streams_app_delivery",
    "streams_app_name",
)
_HIDDEN: Final = re.compile(r"\.security(\.|$)|settings|environment|password|_bootstrap_servers$")
_ELSEWHERE: Final = (
    "give it by a key of the service's own settings, whose file is its user's alone; or put it into such a "
    "file of the host, and name that"
)


def hide(plan: Plan, inventory: Inventory, services: Iterable[Service]) -> Plan:
    """Return a plan whose settings with a secret are marked, and whose reasons and findings hold none.

    A secret that would stand where everybody can read it, such as a command line, is an error, and of such a
    plan only the findings are left.
    """
    known = Known(inventory)
    found = [*_of_variables(inventory, services, known)]

    def of_instance(host: str, service: str, instance: PlannedInstance) -> PlannedInstance:
        where = f"{host} {service}@{instance.name}"
        hidden = tuple(_hidden(s, known) for s in instance.settings)
        found.extend(_shown(where, hidden, known))
        if known.within(instance.name):
            found.append(_finding(where, "the name of an instance"))
        if known.within(str(instance.software)):
            found.append(_finding(where, "how its software is installed and started"))
        return replace(instance, settings=hidden)

    of_hosts = {
        host: {
            service: tuple(of_instance(host, service, one) for one in instances)
            for service, instances in of_host.items()
        }
        for host, of_host in plan.services.items()
    }
    clients = {name: tuple(_hidden(s, known) for s in settings) for name, settings in plan.clients.items()}
    found += [_finding("kafka_clients", "the name of a client") for name in clients if known.within(name)]
    for cluster, topics in plan.topics.items():
        for topic, settings in topics.items():
            texts = (topic, *(part for s in settings for part in (s.key, s.value)))
            if any(map(known.within, texts)):
                where = f"topic {topic} on {cluster}"
                found.append(_finding(where, "a topic's name or setting, which every client may read"))
    for service, restarts in plan.restart_batches.items():
        if any(known.within(rack) for rack in restarts.racks.values()):
            found.append(_finding(f"batches of {service}", "rack, which the plan shows"))
    findings = tuple(f.rewritten(known.masked) for f in (*together(found), *plan.findings))
    # What is printed of a plan, and kept of it, has the names of everything.
    if found:
        return Plan(findings=findings)
    return replace(plan, services=of_hosts, clients=clients, findings=findings)


def _hidden(setting: Setting, known: Known) -> Setting:
    """Return a setting that is marked where its value holds a secret, with a reason that holds none."""
    if not setting.secret and not setting.copied and known.within(setting.value):
        setting = replace(setting, secret=True)
    if known.within(setting.because):
        setting = replace(setting, because=known.masked(setting.because))
    return setting


def _shown(where: str, settings: Iterable[Setting], known: Known) -> Iterator[Finding]:
    for s in settings:
        if known.within(s.key) or known.within(s.file) or (s.copied and known.within(s.value)):
            yield _finding(where, f"the name of a key or of a file, {s.key}")
        elif s.secret and s.file.startswith(_UNITS):
            yield _finding(where, f"{s.key} of a unit, which everybody on the host may read")
        elif s.secret and s.file.endswith("/environment") and on_command_line(s.key):
            yield _finding(where, f"{s.key}, and so in the list of processes, which everybody may read")


def on_command_line(variable: str) -> bool:
    """Return whether a start puts an environment variable on its command line, or a JVM prints it."""
    return _ON_COMMAND_LINE.search(variable) is not None


def _of_variables(inventory: Inventory, services: Iterable[Service], known: Known) -> Iterator[Finding]:
    """Find secrets in variables that come to a command line, to the plan's own document or to load.json."""
    for host, variables in inventory.hosts.items():
        arguments = variables.get("streams_app_arguments")
        # An option and its value may be two words.
        words = " ".join(map(str, arguments)) if isinstance(arguments, list) else str(arguments)
        if known.within(words):
            yield _finding(host, "streams_app_arguments, and so in the list of processes")
        for name in _SHOWN:
            for path, text in _texts(variables.get(name), name):
                if not _HIDDEN.search(path) and known.within(text):
                    yield _finding(host, f"{path}, which the plan shows")
    for service in services:
        for host in service.hosts(inventory):
            for variable, _, place, _ in service.archives(inventory.hosts[host]):
                if known.within(str(place)):
                    fix = "fetch it to a file of this machine, and name that: no login is sent for a URL"
                    yield _finding(host, f"{variable}, which the plan shows", fix)
    # What it has under a key that is made for a secret, or in the form of one, reaches the load apart.
    for name, load in loads(inventory).items():
        for path, text in _texts(public(load), name):
            if known.within(text):
                fix = "give the login by client, or by rest.user and rest.password"
                yield _finding("all", f"{path}, which load.json shows", fix)


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each text of a document after the path of its place."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield path, str(key)
            yield from _texts(one, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from _texts(one, f"{path}[{number}]")
    elif isinstance(value, str):
        yield path, value


def _finding(where: str, place: str, fix: str = _ELSEWHERE) -> Finding:
    return Finding("error", "secret.shown", where, f"a secret stands in {place}", fix)
