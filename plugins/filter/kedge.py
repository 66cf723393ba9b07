"""Reads values out of a plan, so that no role looks for them by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from border.foreign import shown
from control.deployed import disagreed, left_together
from control.notices import Notice
from control.notices import refusal as unannounced
from control.rollback import refusal, steps
from sizing.balancer.changing import while_proxies_change
from sizing.inventory.secrets import public
from sizing.mirror.flows import FlowFacts
from sizing.rest.distribution import LISTENER
from sizing.review.kinds import MIRROR_MAINS, SIGNS
from sizing.rollout import ahead, batches
from sizing.services import SERVICES

#: Services whose instances have no port of their own.
_UNITS = ("mirror_maker", "streams_app")
#: The main classes of the processes of a service, whoever starts them.
_MAINS = {
    "kafka_rest": sorted({signs.main for signs in SIGNS.values()}),
    "mirror_maker": list(MIRROR_MAINS.values()),
}


def planned_instances(plan: Mapping[str, Any], host: str, service: str) -> list[Mapping[str, Any]]:
    """Return the instances of a service on a host; none where the plan has none."""
    found: list[Mapping[str, Any]] = (
        plan["hosts"].get(host, {}).get("services", {}).get(service, {}).get("instances", [])
    )
    return found


def instance_names(plan: Mapping[str, Any], service: str, hosts: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of a service's instances by host, of those of these hosts that have any."""
    found = {host: [str(i["name"]) for i in planned_instances(plan, host, service)] for host in hosts}
    return {host: names for host, names in found.items() if names}


def occupying(plan: Mapping[str, Any], host: str) -> list[dict[str, Any]]:
    """Return what the planned services of a host take of it: units, users, folders, ports, kinds of process.

    What a vendor's own tool runs is not looked at: it would be there before the first deploy.
    """
    found = []
    for service, of_service in plan["hosts"].get(host, {}).get("services", {}).items():
        instances = of_service["instances"]
        if not any(instance.get("port") or service in _UNITS for instance in instances):
            continue
        software: Mapping[str, Any] = next((i["software"] for i in instances if "software" in i), {})
        controlled = {i["name"] for i in instances if "control" in i.get("software", {})}
        unit = service.replace("_", "-")
        found.append(
            {
                "unit": unit,
                "user": software.get("user", unit) if software.get("own_user", True) else "",
                "mains": [] if controlled else _MAINS.get(service, []),
                "instances": [
                    {"name": i["name"], "port": None if i["name"] in controlled else i.get("port")}
                    for i in instances
                ],
            }
        )
    return found


def planned_value(instance: Mapping[str, Any], key: str) -> str:
    """Return the planned value of a key of an instance.

    Raises:
        KeyError: when the plan has no such key; the message names it.
    """
    for setting in instance["settings"]:
        if setting["key"] == key:
            return str(setting["value"])
    message = f"the plan of instance {instance['name']} has no {key}"
    raise KeyError(message)


def planned_rollout(plan: Mapping[str, Any], host: str, service: str) -> dict[str, int]:
    """Return what a rollout of a service of a host waits for."""
    return {s["key"]: int(s["value"]) for s in plan["rollouts"][host][service]["settings"]}


def rollout_value(plan: Mapping[str, Any], service: str, key: str) -> int:
    """Return a number of a service's rollout, such as ``at_once``; 0 where it has none of the name."""
    settings = plan["waves"][service]["settings"]
    return next((int(s["value"]) for s in settings if s["key"] == key), 0)


def rollout_ahead(plan: Mapping[str, Any], service: str, hosts: Iterable[str]) -> dict[str, int]:
    """Return how many instances of which of these hosts go first."""
    instances = _rolled(plan, service, hosts)
    # Where there is no other to follow, nothing goes first.
    first = rollout_value(plan, service, "first") if sum(instances.values()) > 1 else 0
    return ahead(list(instances), instances, first)


def rollout_batches(plan: Mapping[str, Any], service: str, hosts: Iterable[str]) -> list[list[str]]:
    """Return which of these hosts restart together after those, an instance each at a time."""
    instances = _rolled(plan, service, hosts)
    if not instances:
        return []
    gone = rollout_ahead(plan, service, instances)
    found = batches(instances, gone, plan["waves"][service]["racks"], rollout_value(plan, service, "at_once"))
    return [list(batch) for batch in found]


def rollout_down(
    plan: Mapping[str, Any], service: str, hosts: Iterable[str], seen: Iterable[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """Return which instances of which of these hosts a balancer has down, by what haproxy_compare found."""
    down = {server for result in seen for server in result.get("down", ())}
    found = {
        host: [
            str(i["name"])
            for i in planned_instances(plan, host, service)
            if f"{host}:{i.get('port')}" in down
        ]
        for host in _rolled(plan, service, hosts)
    }
    return {host: names for host, names in found.items() if names}


def rollout_refusal(plan: Mapping[str, Any], service: str, hosts: list[str]) -> str:
    """Return why these hosts must not restart together, or nothing; ``--limit`` may have mixed batches."""
    at_once = rollout_value(plan, service, "at_once")
    if len(hosts) > at_once:
        return f"{', '.join(hosts)} would restart together, and the plan allows {at_once} at once"
    seen: dict[str, str] = {}
    for host in hosts:
        rack = plan["waves"][service]["racks"].get(host)
        if rack in seen:
            return f"{seen[rack]} and {host} of rack {rack} would restart together"
        if rack:
            seen[rack] = host
    return ""


def services_to_leave(plan: Mapping[str, Any], host: str) -> list[str]:
    """Return the services that run on a host, in the order in which they leave it: brokers last."""
    names = sorted((s.name for s in SERVICES if s.plan), key=lambda name: name == "kafka_broker")
    return [name for name in names if planned_instances(plan, host, name)]


def reboot_hosts(plan: Mapping[str, Any], group: Iterable[str]) -> list[str]:
    """Return those hosts of a group that run something, in the plan's order."""
    wanted = set(group)
    return [host for host in plan["hosts"] if host in wanted and services_to_leave(plan, host)]


def reboot_refusal(plan: Mapping[str, Any], host: str, service: str) -> str:
    """Return why clients would notice a reboot of a host, unless ``service`` asks for it, or nothing."""
    services = services_to_leave(plan, host)
    if "rest_balancer" in services and service != "rest_balancer":
        return "clients that go through its balancer fail while it boots (-e service=rest_balancer)"
    if "kafka_broker" in services and service != "kafka_broker":
        cluster = str(planned_instances(plan, host, "kafka_broker")[0]["name"])
        if brokers_of(plan, cluster) == 1:
            return f"it is the one broker of {cluster} (-e service=kafka_broker)"
    return ""


def _rolled(plan: Mapping[str, Any], service: str, hosts: Iterable[str]) -> dict[str, int]:
    """Return the number of a service's instances on each of these hosts, in the plan's order."""
    wanted = set(hosts)
    # Ansible resolves the hosts of a play also where nothing is planned, to check its syntax.
    return {
        host: len(of_host["services"][service]["instances"])
        for host, of_host in plan["hosts"].items()
        if host in wanted and service in of_host["services"]
    }


def named(instances: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the instances with these names, in the plan's order."""
    wanted = set(names)
    return [i for i in instances if i["name"] in wanted]


def rest_probe(instance: Mapping[str, Any], address: str, topic: str) -> dict[str, str]:
    """Return the probe that asks a REST instance for an offset; a login in it has marks for its secret."""
    found = {s["key"]: str(s["value"]) for s in instance["settings"] if not s.get("copied")}
    files = {PurePosixPath(s["file"]).name: s["file"] for s in instance["settings"]}
    scheme = "https" if instance["software"]["tls"] else "http"
    kind = instance["software"]["ready"]
    probe = {"kind": kind, "url": f"{scheme}://{address}:{instance['port']}", "topic": topic}
    if "listener-ca.pem" in files:
        probe["ca"] = files["listener-ca.pem"]
    if "ssl.client.authentication" in found:
        probe["certificate"] = files[LISTENER]
    user = next((s for s in instance["settings"] if s["file"].endswith("/users.properties")), None)
    return probe | ({"user": user["key"], "login": user["value"]} if user else {})


def vendor_controls(instances: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return instance name to who starts and stops it, of those that a vendor's control runs."""
    return {i["name"]: i["software"]["control"] for i in instances if "control" in i["software"]}


def kafka_probe(instance: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return the probe that asks a broker which requests it knows, which it answers before any login."""
    ca = [s["file"] for s in instance["settings"] if s["file"].endswith("/cluster-ca.pem")]
    probe = {"kind": "kafka", "host": address, "port": instance["port"]}
    return probe | ({"ca": ca[0]} if ca else {})


def of_marks(secrets: Mapping[str, str], within: Any) -> dict[str, str]:
    """Return the secrets whose marks stand somewhere in a value; no more than is needed goes to a host."""
    text = str(within)
    return {mark: value for mark, value in secrets.items() if mark in text}


def draining_balancers(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the planned balancers: host, and the seconds that a drain of theirs and its end may take."""
    return [
        {"host": host, "drain": waits["drain_seconds"], "finish": waits["finish_seconds"]}
        for host in plan["hosts"]
        if planned_instances(plan, host, "rest_balancer")
        for waits in [planned_rollout(plan, host, "rest_balancer")]
    ]


def new_on(
    plan: Mapping[str, Any], service: str, has: Mapping[str, Iterable[Mapping[str, Any]]]
) -> dict[str, str]:
    """Return the planned instances that their host does not have yet, name to host.

    ``has`` are the files of hosts by which instances are known, as the module find returns them.
    """
    found = {host: {PurePosixPath(file["path"]).name for file in files} for host, files in has.items()}
    return {
        str(instance["name"]): host
        for host, names in found.items()
        for instance in planned_instances(plan, host, service)
        if instance["name"] not in names
    }


def moved_off(left_out: Iterable[Mapping[str, Any]], new: Mapping[str, str], limit: str) -> str:
    """Return why instances must not start where they are new, or nothing.

    ``left_out`` are results of the module find, of an ``item`` each: a host that ``--limit`` leaves out.
    """
    said: list[str] = []
    missing: list[str] = []
    for result in left_out:
        host = str(result["item"])
        names = {PurePosixPath(file["path"]).name for file in result.get("files", [])}
        moving = [name for name in new if name in names]
        if result.get("unreachable"):
            said.append(f"{host} does not answer, so that nobody knows whether it runs {', '.join(new)}")
        elif moving:
            said.append(f"{', '.join(f'{name} moves to {new[name]}' for name in moving)} and is on {host}")
        if moving or result.get("unreachable"):
            missing.append(host)
    if not said:
        return ""
    more = ",".join([limit, *missing])
    return (
        f"Refusing to deploy: {'; '.join(said)}, which --limit leaves out. Two with one group.instance.id "
        f"fence each other. Run the playbook again with --limit {more}"
    )


def noticed_refusal(drift: Mapping[str, Mapping[str, Mapping[str, Any]]], allow: str) -> str:
    """Return why a deploy must not begin, for what clients would notice, or nothing.

    ``drift`` is what hosts answered by service (``kedge_drift``), ``allow`` what was allowed by name.
    """
    found = {
        f"{host} {service}": [Notice(*notice) for notice in compared.get("noticed", ())]
        for host, of_host in drift.items()
        for service, compared in of_host.items()
    }
    return unannounced(found, allow.split(","))


def servers_of(plan: Mapping[str, Any], service: str) -> list[str]:
    """Return the planned instances of a service as balancers name them, HOST:PORT."""
    return [
        f"{host}:{instance['port']}"
        for host in plan["hosts"]
        for instance in planned_instances(plan, host, service)
    ]


def brokers_of(plan: Mapping[str, Any], cluster: str) -> int:
    """Return how many brokers of a cluster are planned."""
    return sum(
        instance["name"] == cluster
        for host in plan["hosts"]
        for instance in planned_instances(plan, host, "kafka_broker")
    )


def state_file_probe(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the probe that waits until an application tells in its file that it runs."""
    path = planned_value(instance, "KEDGE_STATE_FILE")
    return {"kind": "state_file", "path": path, "unit": f"streams-app@{instance['name']}", "state": "RUNNING"}


def mirror_probe(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the probe of a mirror: it has its partitions, and the target has acknowledged what it read."""
    exactly_once = any(s["key"].endswith("exactly.once.source.support") for s in instance["settings"])
    if any(s["key"] == "MIRROR_INCLUDE" for s in instance["settings"]):
        steps = [
            ["has partitions assigned", "Adding newly assigned partitions"],
            ["commits what the target has acknowledged", r"Committing offsets\."],
        ]
    else:
        task = r"MirrorSourceConnector-\d+\} "
        steps = [["runs a task", f"{task}Source task finished initialization and start"]]
        # A task that waits for the target says 0; one with nothing to copy says so. Transactions say neither.
        acknowledged = rf"{task}(Committing offsets for [1-9]|Either no records were produced)"
        steps += [] if exactly_once else [["commits what the target has acknowledged", acknowledged]]
    return {"kind": "journal", "steps": steps}


def mirror_gate(
    instance: Mapping[str, Any], plan: Mapping[str, Any], secrets: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return the gate of a mirror's restart: its flow's group, or where MirrorMaker 2 keeps its offsets.

    ``secrets`` are those of the kit's own clients, by cluster.
    """
    flow = str(instance["name"]).rpartition("-")[0]
    facts = plan["flows"][flow]
    gate: dict[str, Any] = {**_reached(plan, facts["source"]), "secrets": secrets[facts["source"]]}
    if facts["group"]:
        committed = planned_value(instance, "MIRROR_OFFSET_COMMIT_INTERVAL_MS")
        return gate | {"groups": [facts["group"]], "commit_ms": int(committed)}
    where = _reached(plan, facts["target"])
    positions = {"flow": flow, "topic": facts["offsets_topic"], "topics": facts["topics"], **where}
    gate["positions_secrets"] = secrets[facts["target"]]
    committed = planned_value(instance, f"{facts['target']}.offset.flush.interval.ms")
    return gate | {"positions": positions, "commit_ms": int(committed)}


def staged_release(staged: Mapping[str, Any], name: str) -> str | None:
    """Return the release that a deploy staged for an instance; None where nothing was staged in this run."""
    return next((str(i["release"]) for i in staged.get("instances", []) if i["name"] == name), None)


def rollback_refusal(found: Mapping[str, Mapping[str, Any]], service: str, releases: Iterable[str]) -> str:
    """Return why a service's instances must not go back to what their hosts found, or nothing."""
    return refusal(found, service.replace("_", "-"), list(releases))


def rollback_steps(found: Mapping[str, Mapping[str, Any]], service: str) -> list[str]:
    """Return what a rollback does to each instance of a service, a line each."""
    return steps(found, service.replace("_", "-"))


def turning_tls(staged: Mapping[str, Any], planned: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the running REST instances whose listener would be encrypted, or no longer be, at its port."""
    tls = {i["name"]: i["software"]["tls"] for i in planned}
    return [
        str(i["name"])
        for i in staged["instances"]
        if i["active"] and (LISTENER in i["in_force"]) != tls[i["name"]]
    ]


def topics_that_may_grow(topics: Iterable[Mapping[str, Any]], cluster: str) -> list[str]:
    """Return a cluster's topics whose keys allow more partitions, or that have none, by the inventory."""
    mine = (t for t in topics if t["cluster"] == cluster)
    return [str(t["name"]) for t in mine if t.get("keys_may_move") or not t.get("keyed", True)]


def load_spec(
    verify: Mapping[str, Any],
    plan: Mapping[str, Any],
    run_id: str,
    balancers: Iterable[str],
    generators: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the load of a run (load.json) from the inventory's ``verify`` and the plan.

    REST clients go to the first planned balancer, unless ``verify.rest.url`` names another place. They speak
    the dialect of the planned proxies, unless ``verify.rest.dialect`` has another, and follow them alone to
    where consumers are made, unless ``verify.rest.proxies`` names others. ``generators`` make the
    load; the control machine does where there are none.

    Raises:
        ValueError: when there is neither, or proxies of several dialects.
    """
    # load.json is kept with the run; passwords reach the load by its environment.
    verify = public(verify)
    spec = {"kafka": None, "rest": None, **verify, "run_id": run_id, "generators": list(generators)}
    spec |= _reached(plan, verify["cluster"])
    spec["client"] = {**spec.get("client", {}), **verify.get("client", {})}
    spec["mirrors"] = mirrors_of(plan, spec)
    spec["applications"] = applications_of(plan, spec)
    others = {mirror["target"]["cluster"] for mirror in spec["mirrors"]} - {verify["cluster"]}
    spec["clusters"] = {name: _reached(plan, name) for name in sorted(others)}
    if spec["rest"] and "url" not in spec["rest"]:
        planned = [i for b in balancers for i in planned_instances(plan, b, "rest_balancer")]
        if not planned:
            message = (
                "verify.rest: no balancer is planned. No load was started. Set verify.rest.url to where REST "
                "clients go, then run the playbook again"
            )
            raise ValueError(message)
        tls = any(s["key"] == "bind options" for s in planned[0]["settings"])
        address = planned_value(planned[0], "address")
        spec["rest"] = {**spec["rest"], "url": f"{'https' if tls else 'http'}://{address}"}
    if spec["rest"] and "proxies" not in spec["rest"] and (proxies := _proxies(plan)):
        spec["rest"] = {**spec["rest"], "proxies": proxies}
    if spec["rest"] and (dialect := spec["rest"].get("dialect") or _dialect(plan)):
        spec["rest"] = {**spec["rest"], "dialect": dialect}
    return spec


def _proxies(plan: Mapping[str, Any]) -> list[str]:
    """Return the URLs by which the planned proxies tell consumers to come back, without paths."""
    found = set()
    for host in plan["hosts"]:
        for instance in planned_instances(plan, host, "kafka_rest"):
            settings = {s["key"]: str(s["value"]) for s in instance["settings"]}
            found |= set(re.findall(r"https?://[^\s,/?#@]+", settings.get("advertised.listeners", "")))
            if name := settings.get("host.name"):
                scheme = "https" if instance["software"]["tls"] else "http"
                found.add(f"{scheme}://{name}:{instance['port']}")
    return sorted(found)


def _dialect(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is otherwise in the planned proxies' dialect than in kafka-rest's; empty for nothing."""
    found: list[Mapping[str, Any]] = []
    for host in plan["hosts"]:
        for instance in planned_instances(plan, host, "kafka_rest"):
            if (dialect := instance["software"].get("dialect", {})) not in found:
                found.append(dialect)
    if len(found) > 1:
        message = (
            "verify.rest: proxies of several dialects are planned. No load was started. Set "
            "verify.rest.dialect to one of them, then run the playbook again"
        )
        raise ValueError(message)
    return found[0] if found else {}


def _reached(plan: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    found = plan["clusters"][cluster]
    own = {"client": dict(client)} if (client := found.get("client")) else {}
    return {"bootstrap_servers": found["bootstrap_servers"], **own}


def mirrors_of(plan: Mapping[str, Any], load: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what copies the topics of a load: flow, source, target and the flow's group on the source."""
    found = []
    for name, flow in plan.get("flows", {}).items():
        facts = FlowFacts(**{**flow, "topics": tuple(flow["topics"])})
        for part in (load["kafka"], load["rest"]):
            copy = facts.copy_of(part["topic"]) if part and facts.source == load["cluster"] else None
            if copy:
                source = {"cluster": facts.source, "topic": part["topic"]}
                target = {"cluster": facts.target, "topic": copy}
                mirror = {"flow": name, "source": source, "target": target, "group": facts.group}
                found.append(mirror | _planned_of_flow(plan, name))
    return found


def _planned_of_flow(plan: Mapping[str, Any], flow: str) -> dict[str, Any]:
    """Return what an audit holds a flow to: its batches, their codec, whether it promises exactly once."""
    processes = (
        instance
        for host in plan["hosts"].values()
        for instance in host.get("services", {}).get("mirror_maker", {}).get("instances", ())
        if str(instance["name"]).rpartition("-")[0] == flow
    )
    settings = {s["key"]: s["value"] for s in next(processes, {"settings": []})["settings"]}
    batch = [int(value) for key, value in settings.items() if key.split(".producer.")[-1] == "batch.size"]
    exactly = any(k.endswith("exactly.once.source.support") and v == "enabled" for k, v in settings.items())
    codec = next((v for k, v in settings.items() if k.endswith("compression.type")), "")
    return {"batch_bytes": batch[0], "codec": codec, "exactly_once": exactly} if batch else {}


def applications_of(plan: Mapping[str, Any], load: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the planned applications: their instances, and input and output where the load feeds them."""
    loaded = {part["topic"] for part in (load["kafka"], load["rest"]) if part}
    found = []
    for name, about in plan.get("applications", {}).items():
        instances = [
            {"host": host, "instance": instance["name"]}
            for host in plan["hosts"]
            for instance in planned_instances(plan, host, "streams_app")
            if planned_value(instance, "application.id") == name
        ]
        app = {"name": name, "instances": instances, "exactly_once": about["exactly_once"]}
        due = about["delivery"]
        if due and about["cluster"] == load["cluster"] and due["input"] in loaded:
            ends = {end: {"cluster": load["cluster"], "topic": due[end]} for end in ("input", "output")}
            app |= ends | {"per_record": due["per_record"]}
        found.append(app)
    return found


def package_versions(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the versions of what package_facts says of a package, as apt and dnf write them."""
    return [
        f"{one['version']}-{one['release']}" if one.get("release") else str(one["version"]) for one in found
    ]


class FilterModule:
    """The filters of the kit."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return name to filter."""
        return {
            "package_versions": package_versions,
            "planned_instances": planned_instances,
            "occupying": occupying,
            "planned_value": planned_value,
            "planned_rollout": planned_rollout,
            "rollout_value": rollout_value,
            "rollout_batches": rollout_batches,
            "rollout_ahead": rollout_ahead,
            "rollout_down": rollout_down,
            "rollout_refusal": rollout_refusal,
            "services_to_leave": services_to_leave,
            "reboot_hosts": reboot_hosts,
            "reboot_refusal": reboot_refusal,
            "rollback_refusal": rollback_refusal,
            "rollback_steps": rollback_steps,
            "named": named,
            "rest_probe": rest_probe,
            "vendor_controls": vendor_controls,
            "state_file_probe": state_file_probe,
            "kafka_probe": kafka_probe,
            "brokers_of": brokers_of,
            "servers_of": servers_of,
            "new_on": new_on,
            "noticed_refusal": noticed_refusal,
            "moved_off": moved_off,
            "instance_names": instance_names,
            "of_marks": of_marks,
            "shown": shown,
            "left_together": left_together,
            "disagreed": disagreed,
            "load_spec": load_spec,
            "mirror_gate": mirror_gate,
            "mirror_probe": mirror_probe,
            "staged_release": staged_release,
            "turning_tls": turning_tls,
            "while_proxies_change": while_proxies_change,
            "topics_that_may_grow": topics_that_may_grow,
        }
