"""Checks of what verify.yml is to do: ``verify`` and ``service_levels``, before it takes its minutes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

from kedge.evidence.levels import Levels
from kedge.evidence.load_options import LoadSpec, WatchOnly
from kedge.evidence.watch_options import LEAST_BEFORE_S, WatchOptions
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import cluster_names, clusters
from kedge.plan.inventory.loads import CHOSEN, NAMED, loads
from kedge.plan.inventory.security import login_keys
from kedge.plan.inventory.service_levels import check_model, service_levels
from kedge.plan.service import Service
from kedge.plan.variable_messages import at_odds, declare, shown, wrong_variable
from kedge.services.clients.group_protocol import CONSUMER, PROTOCOL, REFUSED, broker_obstacle, coordinator
from kedge.services.topics.variables import may_declare

#: What verify.yml adds to ``verify`` by itself.
ADDED: Final = (
    "run_id",
    "bootstrap_servers",
    "clusters",
    "mirrors",
    "applications",
    "generators",
    "rest_instances",
    "rest_instances_ca",
)
_URL: Final = "http://the-balancer"
#: A certificate of the load's own, with its key.
_PAIR: Final = ("ssl.certificate.location", "ssl.key.location")
_SERVER: Final = re.compile(r"[\w.-]+(:\d{1,5})?")


def check_verification(inventory: Inventory, services: Iterable[Service]) -> Iterator[Finding]:
    """Return what is wrong with the service levels and the load; both may be left out."""
    levels = inventory.common("service_levels")
    if levels is not None:
        yield from check_model(Levels, "service_levels", levels) or _falling(levels)
    named = inventory.common(NAMED)
    if named is not None and not isinstance(named, Mapping):
        yield wrong_variable(NAMED, "all", f"is {shown(named)}", "write a mapping: NAME: {cluster: ...}")
    name, known = inventory.common(CHOSEN), list(named) if isinstance(named, Mapping) else []
    if name and name not in known:
        fix = f"write one of: {', '.join(known)}" if known else f"name a load in {NAMED}, or leave it out"
        yield wrong_variable(CHOSEN, "all", f"is {name}, and {NAMED} has no such load", fix)
    for variable, load in loads(inventory).items():
        yield from _check_load(variable, inventory, load, services)


def _check_load(
    load: str, inventory: Inventory, verify: Any, services: Iterable[Service]
) -> Iterator[Finding]:
    if isinstance(verify, Mapping) and "watch" in verify and not _parts(verify):
        yield from (wrong := list(check_model(WatchOnly, load, verify)))
        yield from _names(load, inventory, verify)
        if not wrong:
            yield from _watched(load, service_levels(inventory), verify)
        return
    wrong = list(check_model(LoadSpec, load, _completed(verify)))
    yield from wrong
    if not wrong and isinstance(verify, Mapping):
        yield from _watched(load, service_levels(inventory), verify)
    if isinstance(verify, Mapping):
        yield from (
            wrong_variable(f"{load}.{name}", "all", "cannot be set", "take it out: verify.yml sets it")
            for name in ADDED
            if name in verify
        )
        yield from _names(load, inventory, verify)
        yield from _group(load, inventory, verify)
        if not wrong:
            yield from _at_odds(load, inventory, verify, services)
            yield from _never(load, LoadSpec.model_validate(_completed(verify)), verify)
            yield from _login(load, inventory, verify)
            rest = _parts(verify).get("rest", {})
            yield from (unreached := list(_reached(load, rest)))
            if rest and not unreached:
                yield from _refused(load, inventory, rest)
            yield from _unreachable(load, service_levels(inventory), _parts(verify))


def _completed(verify: Any) -> Any:
    """Return the load with what verify.yml adds to it, for the model of load.json."""
    if not isinstance(verify, Mapping):
        return verify
    rest = verify.get("rest")
    whole = {**verify, "run_id": "set by verify.yml", "bootstrap_servers": "set by verify.yml"}
    whole |= {"clusters": {}, "mirrors": []}
    return whole | {"rest": {"url": _URL, **rest}} if isinstance(rest, Mapping) else whole


def _parts(verify: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {via: verify[via] for via in ("kafka", "rest") if isinstance(verify.get(via), Mapping)}


def _names(load: str, inventory: Inventory, verify: Mapping[str, Any]) -> Iterator[Finding]:
    """Hold the cluster and the topics against those that are declared."""
    cluster, clusters = verify.get("cluster"), cluster_names(inventory)
    if not isinstance(cluster, str):
        return
    if cluster not in clusters:
        fix = declare(clusters)
        yield wrong_variable(f"{load}.cluster", "all", f"is {cluster}, which is not declared", fix)
        return
    for via, part in _parts(verify).items():
        topic = part.get("topic")
        if isinstance(topic, str) and not may_declare(inventory, cluster, topic):
            yield wrong_variable(
                f"{load}.{via}.topic",
                "all",
                f"is {topic}, which kafka_topics does not declare for cluster {cluster}",
                "declare it there: a topic for the load alone, which writes to it without end",
            )


def _group(load: str, inventory: Inventory, verify: Mapping[str, Any]) -> Iterator[Finding]:
    """Find what keeps the load's own consumers from the consumer protocol, where they are to speak it."""
    consumer = _parts(verify).get("kafka", {}).get("consumer")
    if not isinstance(consumer, Mapping) or str(consumer.get(PROTOCOL, "")).lower() != CONSUMER:
        return
    if refused := [key for key in REFUSED if key in consumer]:
        yield wrong_variable(
            f"{load}.kafka.consumer.{refused[0]}",
            "all",
            f"is beside {PROTOCOL}: {CONSUMER}, and a consumer that has both does not start",
            "take it out: the session and the assignor are the group's, on the brokers",
        )
    name = verify.get("cluster")
    cluster = clusters(inventory)[0].get(name) if isinstance(name, str) else None
    found = broker_obstacle(coordinator(inventory, cluster), str(name)) if cluster else None
    if found is not None and found.fatal:
        yield wrong_variable(
            f"{load}.kafka.consumer.{PROTOCOL}", "all", f"is {CONSUMER}: {found.why}", "write classic"
        )


def _at_odds(
    load: str, inventory: Inventory, verify: Mapping[str, Any], services: Iterable[Service]
) -> Iterator[Finding]:
    """Find parts of a load that contradict each other, or have nowhere to go."""
    parts = _parts(verify)
    service = verify.get("service", LoadSpec.model_fields["service"].default)
    loaded = [part["topic"] for part in parts.values()]
    there = {s.name: s for s in services if s.restarted and inventory.group(s.name)}
    if service not in there:
        said = f"is {service}" if "service" in verify else f"is missing, which means {service}"
        fix = f"write one of: {', '.join(sorted(there)) or 'none, for no such service has hosts'}"
        yield wrong_variable(
            f"{load}.service", "all", f"{said}, and the inventory has no hosts of such a service", fix
        )
    elif idle := there[service].idle(inventory, verify["cluster"], loaded):
        why, fix = idle
        yield wrong_variable(f"{load}.service", "all", f"is {service}, and {why}", fix)
    if not parts:
        yield wrong_variable(
            load, "all", "has neither kafka nor rest: there is nothing to load", "add one of them"
        )
    for key in ("topic", "group"):
        own = [part[key] for part in parts.values() if key in part]
        if len(own) > len(set(own)):
            yield wrong_variable(f"{load}.rest.{key}", "all", f"is {own[0]}, as {load}.kafka.{key} is",
                                 "give each its own")  # fmt: skip
    if "rest" in parts and not parts["rest"].get("url") and not inventory.group("rest_balancer"):
        yield wrong_variable(
            f"{load}.rest.url",
            "all",
            "is missing, and the inventory has no balancer",
            "say where REST clients go (http://host:port), or add a host to the group rest_balancer",
        )


def _never(load: str, spec: LoadSpec, given: Mapping[str, Any]) -> Iterator[Finding]:
    """Find limits of a load that it could never keep."""

    def said(name: str, value: float) -> str:
        return f"{value:g}" if name in given else f"{value:g} unless set"

    shortest, longest = said("min_s", spec.min_s), said("max_s", spec.max_s)
    rate = sum(part.records_per_s for part in (spec.kafka, spec.rest) if part)
    name = "max_s" if "max_s" in given else "min_s"
    if spec.max_s < spec.min_s:
        why = f"the load lasts min_s ({shortest}) at least and max_s ({longest}) at most"
        yield at_odds(f"{load}.{name}", "all", why, "set max_s to at least min_s, in seconds")
    elif spec.max_s <= spec.warm_up_s:
        what = f"is {spec.warm_up_s:g}, and the load ends after max_s ({longest}): nothing would be measured"
        yield wrong_variable(f"{load}.warm_up_s", "all", what, "set max_s to more than warm_up_s, in seconds")
    elif spec.min_records > rate * spec.max_s:
        what = (
            f"is {spec.min_records}, and {rate:g} records/s come to {rate * spec.max_s:.0f} within max_s "
            f"({longest})"
        )
        yield wrong_variable(f"{load}.min_records", "all", what, "ask for fewer records, or raise max_s")


def _reached(load: str, rest: Mapping[str, Any]) -> Iterator[Finding]:
    """Find an address and a login by which no proxy could be reached."""
    url = rest.get("url")
    if url is not None:
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme, parts.hostname, parts.port
        except ValueError:  # a port or an address that is none
            scheme, host, port = "", None, None
        if "@" in url:
            what = "holds a login"
            yield wrong_variable(
                f"{load}.rest.url", "all", what, f"write it as {load}.rest.user and password"
            )
        elif scheme not in ("http", "https") or not host or port == 0 or set(url) & set(" ?#"):
            bare = _SERVER.fullmatch(url)
            fix = f"write http://{url}" if bare else "write http://host:port, or https://host:port"
            yield wrong_variable(f"{load}.rest.url", "all", f"is {url!r}, which is no URL of a proxy", fix)
        elif scheme == "http" and rest.get("ca"):
            what = f"is set, and {url} has no certificate to hold against it"
            yield wrong_variable(
                f"{load}.rest.ca", "all", what, f"write https:// in {load}.rest.url, or take it out"
            )
    for one, other in (("user", "password"), ("password", "user")):
        if rest.get(one) and not rest.get(other):
            what = f"is missing, and {load}.rest.{one} is set"
            yield wrong_variable(f"{load}.rest.{other}", "all", what, "set both, or none")


def _refused(load: str, inventory: Inventory, rest: Mapping[str, Any]) -> Iterator[Finding]:
    """Find a login that the inventory's own balancer or proxies, where the load goes, would not take."""
    asked: tuple[str, ...] = ("rest_balancer", "kafka_rest")
    if rest.get("url"):
        at = urlsplit(rest["url"]).hostname
        asked = tuple(
            g for g in asked if at in {a for h in inventory.group(g) for a in (h, inventory.address(h))}
        )
    user, password = rest.get("user"), rest.get("password")
    for group in asked:
        users = (
            inventory.hosts[inventory.group(group)[0]].get(f"{group}_users") if inventory.group(group) else {}
        )
        if isinstance(users, Mapping) and users and (user not in users or users[user] != password):
            what = "is missing"
            if user:
                what = (
                    f"is {user}, and its password is another one"
                    if user in users
                    else f"is {user}, who is nobody"
                )
            yield wrong_variable(
                f"{load}.rest.user",
                "all",
                f"{what}, and {group}_users ask for a login: every request would get 401",
                f"write a user of {group}_users and its password into {load}.rest.user and password",
            )
            return


def _login(load: str, inventory: Inventory, verify: Mapping[str, Any]) -> Iterator[Finding]:
    """Find a login of the load that is half of one, or that hosts which make load must not get."""
    client = verify.get("client") or {}
    cluster = clusters(inventory)[0].get(verify["cluster"])
    security = cluster.security if cluster else None
    login = login_keys(security.mechanism if security else "")
    for one, other in (login, login[::-1], _PAIR, _PAIR[::-1]):
        if client.get(one) is None and client.get(other) is not None:
            what = f"is missing, and {load}.client.{other} is set"
            yield wrong_variable(f"{load}.client.{one}", "all", what, "set both, or none")
            return
    if security is None:
        return
    if inventory.group("load_generator") and security.client_tls is not None:
        own = client.get(_PAIR[1])
        if own in (None, security.client_tls.key):
            yield wrong_variable(
                f"{load}.client.{_PAIR[1]}",
                "all",
                f"is {own or 'missing'}, and hosts of load_generator would get the key of Kedge's own "
                f"clients on cluster {verify['cluster']}",
                f"write {' and '.join(_PAIR)} of a certificate for the load alone",
            )
    if not security.sasl:
        return
    user, password = (client.get(key) for key in login)
    if user is not None and security.users and security.users.get(user) != password:
        what = f"is {user}, " + (
            "and its password is another one" if user in security.users else "who is nobody"
        )
        fix = f"use a user and the password of security.users of cluster {verify['cluster']}"
        yield wrong_variable(f"{load}.client.{login[0]}", "all", what, fix)
    elif inventory.group("load_generator") and user in (None, security.user, security.broker_user):
        what = "is missing" if user is None else f"is {user}"
        yield wrong_variable(
            f"{load}.client.{login[0]}",
            "all",
            f"{what}, and hosts of load_generator would get a login that may do all on cluster "
            f"{verify['cluster']}",
            f"write {' and '.join(login)} of a user that may use the topics of the load alone",
        )


def _unreachable(
    load: str, levels: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """Warn of a throughput that is asked for and not sent."""
    throughput = levels.get("throughput") or {}
    for via, part in parts.items():
        asked = (throughput.get(via) or {}).get("records_per_s")
        if asked and part["records_per_s"] < asked:
            what = (
                f"is {part['records_per_s']:g}, below the {asked:g} of service_levels.throughput.{via}."
                "records_per_s: no run could reach it"
            )
            fix = "send a little more than the level asks for, or lower the level"
            yield replace(wrong_variable(f"{load}.{via}.records_per_s", "all", what, fix), severity="warning")


def _watched(load: str, levels: Mapping[str, Any], verify: Mapping[str, Any]) -> Iterator[Finding]:
    """Find times of a watch by which no level can be judged."""
    options, name = WatchOptions.model_validate(verify.get("watch") or {}), f"{load}.watch"
    if options.before_s < LEAST_BEFORE_S:
        what = f"is {options.before_s:g}: what is usual is not known after less than {LEAST_BEFORE_S} s"
        yield replace(
            wrong_variable(f"{name}.before_s", "all", what, f"write {LEAST_BEFORE_S} or more"),
            severity="warning",
        )
    traffic = levels.get("traffic") or {}
    given = {key: level for key, level in traffic.items() if key.endswith("_s") and level is not None}
    key, least = min(given.items(), key=lambda one: float(one[1]), default=("", 0.0))
    if given and options.interval_s > least / 2:
        what = f"is {options.interval_s:g}, and cannot tell whether service_levels.traffic.{key} is kept"
        fix = f"write {max(least / 4, 0.1):g}, or raise the level of {least:g} s"
        yield replace(wrong_variable(f"{name}.interval_s", "all", what, fix), severity="warning")


def _falling(levels: Mapping[str, Any]) -> Iterator[Finding]:
    """Find levels of a higher percentile that are below those of a lower one."""
    latency = levels.get("latency") or {}
    parts = {f"latency.{via}": part for via, part in latency.items()} | {"mirror": levels.get("mirror")}
    for name, part in parts.items():
        for what in ("ack", "append", "delivery", "delay"):
            keys = [f"{what}_{rank}_ms" for rank in ("p50", "p95", "p99", "p999", "max")]
            found = [(key, part[key]) for key in keys if part and part.get(key) is not None]
            for (low, least), (high, most) in pairwise(found):
                if most < least:
                    yield wrong_variable(
                        f"service_levels.{name}.{high}",
                        "all",
                        f"is {most:g}, below the {least:g} of {low}",
                        "correct one of the two: a higher percentile is never below a lower one",
                    )
