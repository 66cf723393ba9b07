"""What findings ask for, done: a fix as a person would carry it out, from its words alone."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.oracle.planning import Spec

Finding = Mapping[str, str]
#: Which variable takes a component's own keys, by the service that a finding speaks of.
_OVERRIDES = {"kafka_rest": "kafka_rest_settings", "streams_app": "streams_app_settings",
              "kafka_broker": "kafka_broker_settings"}  # fmt: skip
_ROLES = ("kafka_rest_", "streams_app_", "kafka_broker_", "mirror_maker_flows.", "host_tuning_settings")
#: A name is made of words with dots; the full stop after one is none of it.
_NAME = r"([\w>-]+(?:\.[\w>-]+)*)"
_SET = re.compile(rf"(?:set|lower|raise) {_NAME}(?: of the flow| of topic (?P<topic>\S+) on (?P<cluster>\S+))?"
                  r"(?:: | to | above | below )(?P<value>-?\d+(?:\.\d+)?)"
                  r"(?: in the settings of topic (?P<own>\S+))?")  # fmt: skip
_OUT = re.compile(rf"(?:take|leave) (?!out){_NAME}(?: and {_NAME})* out(?: of {_NAME})?")
_BROKERS = re.compile(r"use (\d+) brokers or more")
_PROCESSES = re.compile(r"use (\d+) processes and a topic of as many partitions")
#: A plan of thousands of processes takes seconds.
_FEW = 200
_TIMES = re.compile(r"(?:use|over) (\d+) times as many (?:cores or )?hosts")
_LINK = re.compile(r"link of (\d+) Mbit/s")
_KEEP = re.compile(r"keep partitions at (\d+)")
_DOCUMENTED = re.compile(r"set advice: documented")
_PROFILE = re.compile(r"use profile (\w+)")
#: What a message speaks of first: "linger.ms of flow metrics is 5", "kafka_rest_heap_mib is 5", "a broker opens".
_SUBJECT = re.compile(rf"{_NAME}(?: of (?:flow|topic|client|cluster) \S+)? is ")
_IS = re.compile(rf"{_NAME} is -?\d")
#: "raise it to 5 (kafka_clusters.agg.message_max_bytes tells the plan)".
_TELLS = re.compile(r"\(([\w.]+) tells the plan\)")


def subject(finding: Finding) -> str:
    """Return what a finding speaks of: its rule and its message without numbers, as long as it says what."""
    said = re.sub(r"(?<![\w.])-?\d[\d.,]*", "N", finding["message"])
    kind, _, name = finding["where"].partition(" ")
    return f"{finding['rule']} {kind if kind != 'topic' else name} {said[:50]}"


def fixed(spec: Spec, finding: Finding) -> Iterator[tuple[str, Spec]]:
    """Yield each alternative of a fix that can be carried out by its words, and the inventory with it."""
    for pattern, carry_out in _FORMS:
        for match in pattern.finditer(finding["fix"]):
            changed = copy.deepcopy(spec)
            if carry_out(changed, finding, match):
                yield match[0], changed


def asks_for(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the component's keys that a fix asks to change, and the value that it asks for."""
    first = re.split(r", or (?:take|leave|raise|set|use)|; ", finding["fix"])[0]
    for match in _SET.finditer(first):
        name = named(finding, match[1])
        if "." in name and not name.startswith(_ROLES):
            yield name, match["value"]


def named(finding: Finding, name: str) -> str:
    """Return a name, or what "it" stands for: what the message begins with."""
    if name != "it":
        return name
    told = _TELLS.search(finding["fix"])
    first, every = _SUBJECT.match(finding["message"]), _IS.findall(finding["message"])
    return told[1] if told else first[1] if first else every[-1] if every else ""


def _number(written: str, words: str) -> int | float:
    value = float(written) if "." in written else int(written)
    return value + 1 if " above " in words else value - 1 if " below " in words else value


def _set(spec: Spec, finding: Finding, match: re.Match[str]) -> bool:
    value = _number(match["value"], match[0])
    if topic := match["topic"] or match["own"]:
        return _in_topic(spec, topic, match[1], value, match["cluster"])
    return _put(spec, finding, named(finding, match[1]), value)


def _out(spec: Spec, finding: Finding, match: re.Match[str]) -> bool:
    words = re.split(" and ", match[0].removeprefix("take ").removeprefix("leave ").partition(" out")[0])
    done = [_put(spec, finding, named(finding, word), None) for word in words]
    return all(done)


def _brokers(spec: Spec, finding: Finding, match: re.Match[str]) -> bool:
    found = re.search(r"cluster ([\w-]+)", finding["message"])
    for variables in list(spec.hosts.values()):
        cluster = variables["kafka_clusters"][found[1]] if found else {}
        if group := cluster.get("brokers"):
            return _more_hosts(spec, [group, "kafka_broker"], int(match[1]))
        if "broker_count" not in cluster:
            return False
        cluster["broker_count"] = int(match[1])
    return True


def _more_hosts(spec: Spec, groups: list[str], count: int) -> bool:
    """Let groups have so many hosts, which are all like the first of them."""
    first = spec.groups[groups[0]][0]
    if count > _FEW:
        return False
    names = [f"{first.rstrip('0123456789')}{n + 1}" for n in range(count)]
    names = list(dict.fromkeys([*spec.groups[groups[0]], *names]))[: max(count, len(spec.groups[groups[0]]))]
    for name in names:
        spec.hosts.setdefault(name, copy.deepcopy(spec.hosts[first]))
    for group in groups:
        spec.groups[group] = names
    return True


def _times(spec: Spec, finding: Finding, match: re.Match[str]) -> bool:
    """Use several times as many hosts; the workload of a host of proxies is then a part of what it was."""
    group = next((g for g in spec.groups if g in finding["where"]), "mirror_maker")
    if group not in spec.groups or set(spec.groups) - {group, "rest_balancer"}:
        return False
    times = int(match[1])
    if not _more_hosts(spec, [group], times * len(spec.groups[group])):
        return False
    for variables in spec.hosts.values():
        load = variables.get("kafka_rest_workload", {})
        for key in (
            "consumers",
            "readers",
            "full_reads",
            "records_per_s",
            "concurrent_requests",
            "connections",
        ):
            if key in load:
                load[key] = math.floor(load[key] / times) if key in ("consumers", "readers", "full_reads") else (
                    max(1, load[key] // times))  # fmt: skip
    return True


def _link(spec: Spec, finding: Finding, match: re.Match[str]) -> bool:
    where = finding["where"]
    if where.startswith("flow "):
        return _in_flow_alone(spec, where.split(" ")[1], int(match[1]))
    for variables in spec.hosts.values():
        variables["host_link_mbit_per_s"] = int(match[1])
    return True


def _in_flow_alone(spec: Spec, name: str, link: int) -> bool:
    done = [_change(h["mirror_maker_flows"][name], "link_mbit_per_s", link)
            for h in spec.hosts.values() if name in h.get("mirror_maker_flows", {})]  # fmt: skip
    return all(done)


def _processes(spec: Spec, finding: Finding, match: re.Match[str]) -> bool:
    if int(match[1]) > _FEW:
        return False
    for variables in spec.hosts.values():
        for flow in variables.get("mirror_maker_flows", {}).values():
            largest = max(int(match[1]), flow.get("largest_topic_partitions", 0))
            flow |= {"processes": int(match[1]), "largest_topic_partitions": largest}
        for topic in variables.get("kafka_topics", []):
            if topic["cluster"] == "leaf":
                topic["partitions"] = max(int(match[1]), topic["partitions"])
    return True


def _keep(spec: Spec, finding: Finding, match: re.Match[str]) -> bool:
    return _in_topic(spec, finding["where"].split(" ")[1], "partitions", int(match[1]))


def _documented(spec: Spec, finding: Finding, match: re.Match[str]) -> bool:
    for variables in spec.hosts.values():
        variables["advice"] = "documented"
    return True


def _profile(spec: Spec, finding: Finding, match: re.Match[str]) -> bool:
    for variables in spec.hosts.values():
        for client in variables.get("kafka_clients", []):
            client["profile"] = match[1]
    return True


def _put(spec: Spec, finding: Finding, name: str, value: Any) -> bool:
    """Give a variable or a component's key a value, or take it out; False where nobody knows which is meant."""
    where, rule = finding["where"], finding["rule"]
    if where.startswith("topic "):
        return _in_topic(spec, where.split(" ")[1], name, value)
    done = False
    flows = name.startswith("mirror_maker_flows.") or where.startswith("flow ")
    for variables in spec.hosts.values():
        if flows and "mirror_maker_flows" not in variables:
            continue
        if name.startswith("mirror_maker_flows."):
            _, flow, field = name.split(".", 2)
            done |= _change(variables["mirror_maker_flows"][flow], field, value)
        elif name.startswith(("kafka_rest_", "streams_app_", "kafka_broker_")):
            done |= _change(variables, name, value)
        elif name.startswith("kafka_clusters."):
            _, cluster, field = name.split(".", 2)
            done |= _change(variables["kafka_clusters"][cluster], field, value)
        elif name.startswith(("vm.", "net.")):
            # The kernel of somebody else's brokers is in no inventory.
            done |= "kafka_broker" in spec.groups and _change(
                variables.setdefault("host_tuning_settings", {}), name, value
            )
        elif where.startswith("flow "):
            done |= _in_flow(variables["mirror_maker_flows"][where.split(" ")[1]], name, value)
        elif where.startswith("client ") and "." in name:
            for client in variables.get("kafka_clients", []):
                done |= _change(client.setdefault("producer_settings", {}), name, value)
        elif "." in name and (service := re.search(r"(kafka_rest|streams_app|kafka_broker)", where)):
            done |= _change(variables.setdefault(_OVERRIDES[service[1]], {}), name, value)
        elif name == "partitions" and rule.startswith("topics."):
            return False
    return done


def _in_flow(flow: dict[str, Any], name: str, value: Any) -> bool:
    if "." not in name and name not in flow.get("producer_settings", {}):
        return _change(flow, name, value)
    bare = name.removeprefix("leaf.consumer.").removeprefix("agg.producer.")
    consumer = name.startswith("leaf.consumer.") or bare in flow.get("consumer_settings", {})
    return _change(flow.setdefault("consumer_settings" if consumer else "producer_settings", {}), bare, value)


def _in_topic(spec: Spec, name: str, field: str, value: Any, cluster: str | None = None) -> bool:
    done = False
    for variables in spec.hosts.values():
        for topic in variables.get("kafka_topics", []):
            if topic["name"] == name and cluster in (None, topic["cluster"]):
                done |= _change(topic.setdefault("settings", {}) if "." in field else topic, field, value)
    return done


def _change(variables: dict[str, Any], name: str, value: Any) -> bool:
    if not name or (value is None and name not in variables):
        return False
    if value is None:
        del variables[name]
    else:
        variables[name] = value
    return True


_FORMS: tuple[tuple[re.Pattern[str], Callable[[Spec, Finding, re.Match[str]], bool]], ...] = (
    (_SET, _set),
    (_OUT, _out),
    (_BROKERS, _brokers),
    (_PROCESSES, _processes),
    (_TIMES, _times),
    (_LINK, _link),
    (_KEEP, _keep),
    (_DOCUMENTED, _documented),
    (_PROFILE, _profile),
)
