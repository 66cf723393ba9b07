"""What clients notice of a deploy in whatever order. Pure: what a host runs and is to run in, notices out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kedge.deploy.planned import flow_of
from kedge.deploy.release_rows import Row, of_release, own_texts
from kedge.evidence.printable import plain
from kedge.services.balancer.security import ANY
from kedge.services.rest.distribution import LISTENER

#: What may be allowed by name -> what clients have to do first.
FIRST: Final[Mapping[str, str]] = {
    "login": "give clients the login first: a proxy or balancer that asks for none ignores it",
    "tls": "give clients the CA first, and be ready to change their URLs with the deploy",
    "broker_port": "add the new port to the bootstrap.servers of clients that Kedge does not deploy",
    "cluster": "stop the clients: until the last proxy has changed, requests through one balancer reach "
    "either cluster, and consumers begin anew in the other one",
    "cluster_security": "stop the cluster's clients, or give them the new security.protocol with the deploy",
    "balancer_port": "have clients follow with the deploy, or move them to a second balancer first",
}
#: Turned at a port in use behind balancers: they speak one way with all, and would lose all together.
KEPT_PORT: Final = "tls_at_a_kept_port"
#: What no order of steps brings to instances that run -> what to do in its place.
_INSTEAD: Final[Mapping[str, str]] = {
    KEPT_PORT: "set kafka_rest_first_port to another port in the same deploy, and others take over",
    # Static voters: a majority of new, empty ones would elect a leader without the cluster's metadata.
    "broker_quorum": "keep the controllers as they are: set kafka_broker_controller: false on added hosts",
    "broker_identity": "set kafka_broker_id to the id that it has: its data belongs to that id",
    # Brokers that restarted would not replicate with those that did not, and no gate would open.
    "brokers_security": "deploy a second cluster with the new security, and mirror the topics into it",
    # A worker without transactions reads the offsets of aborted ones, and would skip their records.
    "mirror_exactly_once": "stop the flow's workers on all hosts (systemctl stop "
    "'mirror-maker@FLOW-[0-9]*'), then run the playbook again",
    # Both kinds would copy the same records.
    "mirror_kind": "stop the mirrors on all hosts (systemctl stop mirror-maker.target), then run the "
    "playbook again",
    "mirror_unknown": "have that host answer, or remove it (remove_host.yml -e gone=HOST), then run the "
    "playbook again",
}
#: Keys of server.properties by which brokers of one cluster know one another.
_SECURED: Final = ("sasl.mechanism.inter.broker.protocol", "inter.broker.listener.name")
#: By which the workers of a flow of MirrorMaker 2 all send in transactions, or none.
EXACTLY_ONCE: Final = ".exactly.once.source.support"


class Notice(NamedTuple):
    """What clients notice of one instance: by which name it is allowed, and in words."""

    instance: str
    name: str
    said: str


def notices(
    answer: Mapping[str, Any], unit: str, instances: Sequence[Mapping[str, Any]], *, balanced: bool = False
) -> list[Notice]:
    """Return what clients notice once the instances run what is planned.

    ``answer`` is that of kedge_release in check mode, ``balanced`` says that balancers stand before them.
    One that does not run yet has no clients.
    """
    found: list[Notice] = []
    for instance, state in zip(instances, answer["instances"], strict=True):
        if state["current"] is None:
            continue
        was, is_ = map(_by_file, of_release(state, unit, instance, own_texts(answer, unit, instance)))
        seen: Iterable[tuple[str, str]] = ()
        if unit == "rest-balancer":
            seen = _of_balancer(was, is_)
        elif unit == "kafka-rest":
            seen = (*_of_proxy(state, instance, balanced), *_of_cluster(was, is_))
        elif unit == "kafka-broker":
            seen = _of_broker(was, is_)
        elif unit == "mirror-maker" and state["active"]:
            seen = _of_mirror(was, is_)
        # Words of the host's own files are among them.
        found += [Notice(str(instance["name"]), name, plain(said)) for name, said in seen]
    return found


#: The rows of a release by file and key.
_Files = Mapping[str, Mapping[str, Row]]


def _by_file(rows: Iterable[Row]) -> _Files:
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row.file, {})[row.key] = row
    return found


def _values(files: _Files, file: str) -> dict[str, str]:
    return {key: row.value for key, row in files.get(file, {}).items()}


def _of_proxy(
    state: Mapping[str, Any], instance: Mapping[str, Any], balanced: bool
) -> Iterator[tuple[str, str]]:
    planned = {str(setting["file"]).rpartition("/")[2] for setting in instance["settings"]}
    had = set(state["in_force"])
    if "users.properties" in planned - had:
        yield "login", "asks for a login (kafka_rest_users)"
    tls = bool(instance["software"]["tls"])
    if tls != (LISTENER in had):
        turned = "speaks TLS" if tls else "no longer speaks TLS"
        yield KEPT_PORT if balanced else "tls", f"{turned} at a port in use (kafka_rest_tls)"


def _of_cluster(before: _Files, after: _Files) -> Iterator[tuple[str, str]]:
    """Find a proxy none of whose former brokers is a planned one; another port is the same cluster."""
    was, is_ = (
        {
            server.rpartition(":")[0].strip("[]")
            for file in files.values()
            for key in ("bootstrap.servers", "kafka.bootstrap.servers")
            if key in file
            for server in file[key].value.split(",")
        }
        for files in (before, after)
    )
    if was and is_ and not was & is_:
        had, has = (", ".join(sorted(hosts)) for hosts in (was, is_))
        yield "cluster", f"reaches the brokers {has} in place of {had} (kafka_rest_cluster)"


def _of_broker(before: _Files, after: _Files) -> Iterator[tuple[str, str]]:
    was, is_ = (_values(files, "server.properties") for files in (before, after))
    if not was or not is_:
        return
    if was.get("node.id") != is_.get("node.id"):
        yield "broker_identity", f"changes its id from {was.get('node.id')} to {is_.get('node.id')}"
    had, has = (_voters(settings) for settings in (was, is_))
    if had != has:
        yield "broker_quorum", f"has the controllers {', '.join(has)} in place of {', '.join(had)}"
    if any(was.get(key) != is_.get(key) for key in _SECURED) or _listener(was)[0] != _listener(is_)[0]:
        # The only broker of its cluster has nobody to replicate with while it changes.
        name = "brokers_security" if len({*had, *has}) > 1 else "cluster_security"
        yield name, f"speaks {_spoken(is_)} in place of {_spoken(was)} (security of kafka_clusters)"
    elif (old := _listener(was)[1]) != (new := _listener(is_)[1]):
        yield "broker_port", f"listens on port {new} in place of {old} (kafka_broker_port)"


def _of_mirror(before: _Files, after: _Files) -> Iterator[tuple[str, str]]:
    files = [_values(each, "mm2.properties") for each in (before, after)]
    was, is_ = (
        next((value for key, value in file.items() if key.endswith(EXACTLY_ONCE)), "disabled")
        for file in files
    )
    # Workers that are preparing may run beside both: Kafka's own way from one to the other.
    if all(files) and {was, is_} == {"disabled", "enabled"}:
        turned = "on" if is_ == "enabled" else "off"
        yield "mirror_exactly_once", f"turns exactly_once {turned} (mirror_maker_flows) while its flow runs"


def others_of_flows(
    names: Iterable[str], starting: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """Return those of a host's processes that are of flows that start: each as a worker that would start."""
    planned = {flow_of(one["name"]): one for one in starting}
    for name in names:
        flow = flow_of(name)
        if flow in planned and re.fullmatch(r"[0-9]+", name.removeprefix(f"{flow}-")):
            one = planned[flow]
            settings = [s | {"file": s["file"].replace(one["name"], name)} for s in one["settings"]]
            yield {**one, "name": name, "settings": settings}


def notices_beside(
    host: str,
    answer: Mapping[str, Any],
    instances: Sequence[Mapping[str, Any]],
    starting: Sequence[Mapping[str, Any]],
) -> list[Notice]:
    """Return which workers of MirrorMaker 2 must not start beside what a host runs that a limit leaves out.

    ``answer`` is that host's of kedge_release in check mode, for ``instances`` as the workers ``starting``
    elsewhere: whatever runs of a flow counts for each of its workers.
    """
    found = notices(answer, "mirror-maker", instances)
    kind = "starts mirror_maker_2 (mirror_maker_kind) while classic mirrors its flow"
    found += [
        Notice(str(state["name"]), "mirror_kind", kind)
        for state in answer["instances"]
        if state["active"] and "mm2.properties" not in state["in_force"]
    ]
    where = f"on {host}, which --limit leaves out"
    beside = (
        Notice(str(worker["name"]), one.name, f"{one.said} {where}")
        for worker in starting
        for one in found
        if flow_of(one.instance) == flow_of(worker["name"])
    )
    return list(dict.fromkeys(beside))


def notices_unknown(host: str, why: str, compared: Mapping[str, Mapping[str, Any]]) -> list[Notice]:
    """Return which workers must not start where a host that ``--limit`` leaves out does not say what it runs.

    ``compared`` are the workers as ``kedge.deploy.drift`` describes them. One that starts as it ran before
    may.
    """
    where = f"{host}, which --limit leaves out,"
    otherwise = "as classic or with another exactly_once"
    said = f"starts while nobody knows whether {where} runs its flow {otherwise}: {why}"
    return [
        Notice(name, "mirror_unknown", said)
        for name, one in compared.items()
        if one["state"] in ("new", "adopt") or (one["state"] == "off" and _starts_otherwise(one))
    ]


def _starts_otherwise(compared: Mapping[str, Any]) -> bool:
    """Return whether a worker that does not run was classic, or had another exactly_once."""
    turned = any(key.endswith(EXACTLY_ONCE) for key in compared["keys"])
    return turned or "mm2.properties" in compared["added"]


def _voters(settings: Mapping[str, str]) -> list[str]:
    return sorted(one.partition("@")[0] for one in settings.get("controller.quorum.voters", "").split(","))


def _listener(settings: Mapping[str, str]) -> tuple[str, str]:
    """Return the protocol and the port of the clients' listener."""
    first = settings.get("advertised.listeners", "")
    return first.partition("://")[0], first.rpartition(":")[2]


def _spoken(settings: Mapping[str, str]) -> str:
    """Return protocol and login, and by which listener brokers reach each other where it is another one."""
    protocol, mechanism = _listener(settings)[0], settings.get("sasl.mechanism.inter.broker.protocol", "")
    among = settings.get("inter.broker.listener.name", protocol)
    between = f"and {among} between brokers" if among != protocol else ""
    return " ".join(filter(None, (protocol, mechanism, between)))


def _of_balancer(before: _Files, after: _Files) -> Iterator[tuple[str, str]]:
    was, is_ = (_values(files, "haproxy.cfg") for files in (before, after))
    if "bind" in was and "bind" in is_:
        had, has = was["bind"], is_["bind"]
        # All addresses are the former one too.
        if has not in (had, f"{ANY}:{had.rpartition(':')[2]}"):
            yield "balancer_port", f"listens on {has} in place of {had}"
        old, new = ("ssl" in values.get("bind options", "").split() for values in (was, is_))
        if old != new:
            yield "tls", f"{'speaks' if new else 'no longer speaks'} TLS (rest_balancer_tls)"
    if "users" in is_ and "users" not in was:
        yield "login", "asks for a login (rest_balancer_users)"
    logins, kept = (files.get("users.list", {}) for files in (before, after))
    lost = [user for user, row in logins.items() if user not in kept or row.differs(kept[user])]
    if kept and lost:
        yield "login", "no longer takes a login that it took (rest_balancer_users)"


def refusal(found: Mapping[str, Iterable[Notice]], allowed: Iterable[str]) -> str:
    """Return why a deploy must not begin, or nothing: what nobody allowed by name.

    ``found`` has the notices of each place, such as ``rest1 kafka_rest``.
    """
    wanted = {name.strip() for name in allowed} - {""}
    if unknown := sorted(wanted - FIRST.keys()):
        return f"allow={','.join(unknown)}: write one or more of {', '.join(FIRST)}"
    where: dict[tuple[str, str], list[str]] = {}
    for place, of_place in found.items():
        for notice in of_place:
            if notice.name not in wanted:
                where.setdefault((notice.name, notice.said), []).append(f"{place}@{notice.instance}")
    if not where:
        return ""
    said = "; ".join(f"{', '.join(places)} {what}" for (_, what), places in where.items())
    names = list(dict.fromkeys(name for name, _ in where))
    first = "; ".join({**FIRST, **_INSTEAD}[name] for name in names)
    first = f"{first[0].upper()}{first[1:]}"
    if _INSTEAD.keys() & set(names):
        return f"No order of steps does this without harm: {said}. {first}"
    byname = ",".join(sorted({*wanted, *names}))
    return f"Clients would notice: {said}. {first}, then run the playbook again with -e allow={byname}"


def turning_tls(staged: Mapping[str, Any], planned: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the running REST instances whose listener would be encrypted, or no longer be, at its port."""
    tls = {i["name"]: i["software"]["tls"] for i in planned}
    return [
        str(i["name"])
        for i in staged["instances"]
        if i["active"] and not i.get("predecessor") and (LISTENER in i["in_force"]) != tls[i["name"]]
    ]
