"""Rules for the balancer in front of the REST instances."""

from __future__ import annotations

import ipaddress
import math
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory, in_url
from kedge.plan.inventory.security import RestTls
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.settings import Advice, Choice, Sheet
from kedge.plan.variables import role_variables
from kedge.services.balancer.health_checks import own_health, put_health_checks
from kedge.services.balancer.limits import put_buffer, put_limits
from kedge.services.balancer.links import check_link
from kedge.services.balancer.security import ANY, FILE, client_login, plan_balancer_security
from kedge.services.balancer.stickiness import put_stick_table
from kedge.services.balancer.timeouts import proxies_of, put_timeouts
from kedge.services.balancer.variables import RestBalancer
from kedge.services.rest.distribution import SERVICE as REST
from kedge.services.rest.planner import balancer_address
from kedge.services.rest.variables import KafkaRest

SERVICE: Final = "rest_balancer"
_GUIDE: Final = "Confluent REST Proxy production guide, Deployment and Load Balancing"
_OBSERVED: Final = "REST proxy facts, Observed on running proxies"
_MANUAL: Final = "HAProxy 2.6 configuration manual"
_REST_UTILS: Final = "rest-utils, RestConfig"


class _Server(NamedTuple):
    """An instance as the balancer knows it: name, where it listens, ``id`` and health's own port if any."""

    name: str
    address: str
    identity: str
    health_port: int | None = None

    @property
    def number(self) -> int:
        """The number of the server in HAProxy: its own, so that no other server's coming changes it."""
        return zlib.crc32(self.name.encode()) & 0x7FFFFFFF or 1


def _server(inventory: Inventory, host: str, instance: PlannedInstance) -> _Server:
    name, address = f"{host}:{instance.port}", f"{in_url(inventory.address(host))}:{instance.port}"
    health, variables = own_health(inventory, host), _proxies(inventory, host)
    port = health.port(variables.version, instance.port or 0) if health and variables else instance.port
    return _Server(name, address, instance.value("id"), port if port != instance.port else None)


def plan_balancers(inventory: Inventory, rest: Part, advice: Advice) -> Part:
    """Plan the balancers of the group ``rest_balancer`` over the instances of ``rest``.

    Each instance is one setting ``server HOST:PORT`` with its address as value.
    """
    services: dict[str, dict[str, tuple[PlannedInstance, ...]]] = {}
    findings: list[Finding] = []
    servers = [
        _server(inventory, host, instance)
        for host, of_host in rest.services.items()
        for instance in of_host.get(REST, ())
    ]
    hosts = inventory.group(SERVICE)
    if hosts and not inventory.group(REST):
        findings.append(
            Finding(
                "error",
                "balancer.servers",
                f"{hosts[0]} {SERVICE}",
                "the group rest_balancer has hosts, and no REST instance is planned for them to serve",
                "add hosts to the group kafka_rest, or take the balancer out",
            )
        )
    if not servers:  # Hosts of kafka_rest without an instance have findings of their own.
        return Part(findings=tuple(findings))
    if hosts:
        findings += [*_unlike(inventory), *_of_other_clusters(inventory)]
    addresses = {balancer_address(inventory, host) for host in hosts}
    for host in hosts:
        variables = role_variables(RestBalancer, SERVICE, host, inventory.hosts[host])
        if isinstance(variables, list):
            findings += variables
            continue
        sheet = Sheet(f"{host} {SERVICE}@haproxy", advice, {})
        _address(sheet, inventory.address(host), variables, balancer_address(inventory, host))
        put_stick_table(sheet, rest, variables)
        put_timeouts(sheet, proxies_of(rest.services))
        put_buffer(sheet)
        put_health_checks(sheet, inventory, rest)
        tls, users = _instances(inventory)
        plan_balancer_security(sheet, variables, tls, users)
        software = {"login": client_login(sheet, variables.users, users)}
        _servers(sheet, servers)
        put_limits(sheet, _connections(inventory), variables.port)
        check_link(sheet, inventory, host, rest.services, addresses)
        findings += sheet.findings
        services[host] = {SERVICE: (PlannedInstance("haproxy", sheet.by_file(), variables.port, software),)}
    if len(hosts) == 1 and len(servers) > 1:
        findings.append(
            Finding(
                "note",
                "balancer.single",
                f"{hosts[0]} {SERVICE}",
                f"one balancer stands before {len(servers)} instances: while its host is down none is "
                "reached, and afterwards it has forgotten the owning instances of client-set ids",
                "add a second balancer with an address that moves (rest_balancer_address), or let consumers "
                "follow the URL of their instance (kafka_rest_consumers_via: instance)",
            )
        )
    return Part(services=services, findings=tuple(findings))


def _address(sheet: Sheet, own: str, variables: RestBalancer, clients: str) -> None:
    """Plan where the balancer listens, and where clients and health checks say that they find it.

    ``own`` is its host's address, ``clients`` HOST:PORT by which clients reach it.
    """
    port, address = variables.port, variables.address
    told = Choice(clients, "the address that clients use", _GUIDE, "derived")
    sheet.put(FILE, "address", "balancer.bind", told)
    asked = "what clients ask for: an instance may refuse another host than its certificate names"
    host = Choice(told.value, asked, _REST_UTILS, "derived")
    sheet.put(FILE, "check host", "balancer.health", host)
    bound, because = own, told.because
    if variables.bind_address:
        bound, because = variables.bind_address, f"{SERVICE}_bind_address"
    elif address:
        bound, because = ANY, f"on all addresses, for {address} is one that moves"
    elif not _is_address(own):
        bound, because = (
            ANY,
            f"on all addresses: the host itself may know {own} as one of loopback (127.0.1.1)",
        )
    sheet.put(FILE, "bind", "balancer.bind", Choice(f"{in_url(bound)}:{port}", because, _GUIDE, "derived"))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _unlike(inventory: Inventory) -> list[Finding]:
    """Find hosts that the balancer could not speak with as with the first one."""
    first, *others = inventory.group(REST)

    def spoken(host: str) -> tuple[object, ...]:
        variables = inventory.hosts[host]
        tls = variables.get("kafka_rest_tls")
        mine = (tls.get("ca"), tls.get("clients", "none")) if isinstance(tls, Mapping) else None
        return (mine, variables.get("kafka_rest_users") or None)

    return [
        Finding(
            "error",
            "balancer.tls",
            f"{host} {REST}",
            f"kafka_rest_tls (ca, clients) or kafka_rest_users is not what it is on {first}, and the "
            "balancer speaks with all instances in the same way",
            "set both once, in group_vars/kafka_rest",
        )
        for host in others
        if spoken(host) != spoken(first)
    ]


def _of_other_clusters(inventory: Inventory) -> list[Finding]:
    """Find hosts whose records would go to another cluster than those of the first one."""
    first, *others = inventory.group(REST)
    of_first = inventory.hosts[first].get(f"{REST}_cluster")
    return [
        Finding(
            "error",
            "balancer.cluster",
            f"{host} {REST}",
            f"kafka_rest_cluster is {cluster}, and {of_first} on {first}; the balancer sends each request to "
            "any instance, so records would go to either cluster",
            f"give the hosts behind one balancer one kafka_rest_cluster; deploy those of {cluster} from an "
            "inventory of their own, with a balancer of their own",
        )
        for host in others
        for cluster in [inventory.hosts[host].get(f"{REST}_cluster")]
        if cluster != of_first
    ]


def _instances(inventory: Inventory) -> tuple[RestTls | None, Mapping[str, str]]:
    """Return how the instances' listeners are encrypted, and who may log in to them; alike on all hosts."""
    variables = _proxies(inventory, inventory.group(REST)[0])
    return (variables.tls, variables.users) if variables else (None, {})


def _servers(sheet: Sheet, servers: list[_Server]) -> None:
    """Plan the instances behind the balancer, and how a consumer's home is told from its name."""
    because = f"one of {len(servers)} instances, each by itself: a host's instances restart one by one"
    numbered = "made from its name, so that owning instances are remembered when other instances come and go"
    for server in servers:
        sheet.put(
            FILE,
            f"server {server.name}",
            "balancer.servers",
            Choice(server.address, because, _GUIDE, "derived"),
        )
        number = Choice(server.number, numbered, f"{_MANUAL}, peers", "derived")
        sheet.put(FILE, f"id {server.name}", "balancer.stickiness", number)
        if server.health_port:
            port = Choice(server.health_port, "where the instance tells how it is", _GUIDE, "derived")
            sheet.put(FILE, f"health port {server.name}", "balancer.health", port)
        if server.identity:  # Strimzi's bridge has another key, and names of another form.
            told = f"a server-generated id names the process that made it, by its id {server.identity}"
            home = Choice(f"rest-consumer-{server.identity}-", told, _OBSERVED, "derived")
            sheet.put(FILE, f"home {server.name}", "balancer.stickiness", home)
    if len({server.number for server in servers}) < len(servers):
        sheet.error(
            "balancer.servers",
            "two instances would have one number in HAProxy",
            "give one of their hosts another name, or another first port",
        )


def _connections(inventory: Inventory) -> int:
    """Return how many connections clients keep open; a workload is what a host has with another one away."""
    told = [_proxies(inventory, host) for host in inventory.group(REST)]
    each = sum(p.workload.connections or 0 for p in told if p)
    return math.ceil(each * (len(told) - 1) / len(told)) if len(told) > 1 else each


def _proxies(inventory: Inventory, host: str) -> KafkaRest | None:
    found = role_variables(KafkaRest, REST, host, inventory.hosts[host])
    return None if isinstance(found, list) else found
