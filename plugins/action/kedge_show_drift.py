"""Prints what a deploy would change: what the hosts answered, and what the clusters say of the topics."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from kedge.deploy.deploy_steps import step_lines, steps
from kedge.deploy.deployed import left_together
from kedge.deploy.drift import changes_line, indented, lines_of, topic_lines, unknown_of, would_change
from kedge.evidence.printable import plain
from kedge.plan.compact_names import fold
from plugins.filter.kedge import topics_that_may_grow

CONNECT_SECONDS = 2
_COLORS = {"+": "green", "-": "red"}
display = Display()


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_show_drift.py."""

    _supports_check_mode = True
    _VALID_ARGS = frozenset({"declared"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask each cluster that answers, in check mode, and print all of it."""
        if not self._task.check_mode:
            raise ValueError("kedge_show_drift only ever compares: say check_mode: true at the task")
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        plan, reached = task_vars["plan_made"]["plan"], task_vars["plan_reached"]
        logins = task_vars["plan_made"]["secrets"]["clusters"]
        said: dict[str, list[str]] = {}
        states: dict[str, dict[str, Any]] = {}
        changed, unknown = [], []
        for host in task_vars["groups"]["all"]:
            # Only hosts that were asked have facts, and looking costs milliseconds a host.
            asked = host in reached["comparable"]
            facts = (task_vars["hostvars"][host].get("ansible_facts") or {}) if asked else {}
            compared = dict(facts.get("kedge_drift", {}))
            states[host] = dict(compared)
            if host in reached["unreached"]:
                compared["ssh"] = {"unreachable": reached["unreached"][host]}
            changed += [host] if would_change(compared) else []
            unknown += [host] if unknown_of(compared) else []
            services = list(plan["hosts"].get(host, {}).get("services", {}))
            said[host] = lines_of(compared, services, reached["uncompared"])
        display.display("\nWhat a deploy would change")
        found = (
            dict(task_vars["hostvars"][host].get("deployed_found") or {}) for host in reached["comparable"]
        )
        for left in left_together(one for each in found for one in each.get("left", ())):
            display.display(left["said"], color="red" if left["stops"] else None)
        for hosts, lines in _together(said):
            _show(hosts, lines)
        for cluster, topics in plan["topics"].items():
            one = {**plan["clusters"][cluster], "secrets": logins[cluster]}
            lines, as_planned = self._topics(cluster, one, topics, task_vars)
            _show(f"cluster {cluster}", lines)
            changed += [f"topics of {cluster}"] if as_planned is False else []
            unknown += [f"topics of {cluster}"] if as_planned is None else []
        order = {service: [h for b in w["batches"] for h in b] for service, w in plan["waves"].items()}
        noticed = {
            (host, service, name): said
            for host, of_host in states.items()
            for service, found in of_host.items()
            for name, _, said in found.get("noticed", ())
        }
        if way := step_lines(steps(states, order), noticed):
            display.display("\nThe steps of a deploy, each after the one before")
            for line in indented(way):
                display.display(line)
        return result | {"changed": False, "would_change": changes_line(changed, unknown)}

    def _topics(
        self, name: str, cluster: Mapping[str, Any], topics: Any, task_vars: dict[str, Any]
    ) -> tuple[list[str], bool | None]:
        """Return what is said of a cluster's topics, and whether they are as planned; None: nobody knows."""
        servers = cluster["bootstrap_servers"]
        if why := unanswered(servers):
            return [f"cannot be reached: {why}"], None
        answer = self._execute_module(
            "kafka_topics_present",
            module_args={
                "bootstrap_servers": servers,
                "client": cluster["client"],
                "secrets": cluster["secrets"],
                "topics": topics,
                "grow": topics_that_may_grow(self._task.args.get("declared", []), name),
            },
            task_vars=task_vars,
        )
        if answer.get("failed"):
            return [f"a deploy would stop: {answer.get('msg')}"], None
        lines, drift = topic_lines(answer["changes"]), answer.get("drift", [])
        return [*(lines or [f"{len(topics)} topics as planned"]), *drift], not lines and not drift


def unanswered(bootstrap_servers: str) -> str | None:
    """Return why none of the servers takes a connection; None when one does."""
    why = "no server is named"
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:
            why = f"{server.strip()}: {error}"
        else:
            return None
    return why


def _together(said: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Return each answer once, with all its hosts."""
    hosts: dict[tuple[str, ...], list[str]] = {}
    for host, lines in said.items():
        hosts.setdefault(tuple(lines), []).append(host)
    for where in hosts.values():
        yield fold(where), said[where[0]]


def _show(where: str, lines: list[str]) -> None:
    if len(lines) == 1:
        display.display(plain(f"{where}  {lines[0]}".expandtabs()))
        return
    display.display(where)
    for line in indented(lines):
        display.display(plain(line.expandtabs()), color=_COLORS.get(line.strip()[:1]))
