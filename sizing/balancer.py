"""Rules for the balancer in front of the REST instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sizing.balancer_security import plan_balancer_security
from sizing.model import Advice, Choice, Finding, Instance, Inventory, Part, Sheet
from sizing.rest_memory import number
from sizing.rest_process import SERVICE as REST
from sizing.security import RestTls
from sizing.workload import KafkaRest, RestBalancer, role_variables

SERVICE: Final = "rest_balancer"
_GUIDE: Final = "Confluent REST Proxy production guide, Deployment and Load Balancing"
_FACTS: Final = "REST proxy facts, Consumer instances behind HAProxy"
_FILE: Final = "/etc/haproxy/haproxy.cfg"
_ENTRY_BYTES: Final = 200  # a key of up to 128 bytes and HAProxy's own
_CLIENT_S: Final = 60
_PRODUCE_S: Final = 60  # max.block.ms: how long a produce request may take with no broker


def plan_balancers(inventory: Inventory, rest: Part, advice: Advice) -> Part:
    """Plan the balancers of the group ``rest_balancer`` over the instances of ``rest``.

    Each instance is one setting ``server HOST:PORT`` with its address as value.
    """
    services: dict[str, dict[str, tuple[Instance, ...]]] = {}
    findings: list[Finding] = []
    servers = [
        (f"{host}:{instance.port}", f"{inventory.address(host)}:{instance.port}")
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
    for host in hosts:
        variables = role_variables(RestBalancer, SERVICE, host, inventory.hosts[host])
        if isinstance(variables, list):
            findings += variables
            continue
        sheet = Sheet(f"{host} {SERVICE}@haproxy", advice, {})
        sheet.put(
            _FILE,
            "bind",
            "balancer.bind",
            Choice(f"{inventory.address(host)}:{variables.port}", "the address that clients use", _GUIDE),
        )
        _stickiness(sheet, rest, variables)
        plan_balancer_security(sheet, variables, *_instances(inventory))
        because = f"one of {len(servers)} instances, each by itself: a host's instances restart one by one"
        for name, address in servers:
            sheet.put(_FILE, f"server {name}", "balancer.servers", Choice(address, because, _GUIDE))
        findings += sheet.findings
        services[host] = {SERVICE: (Instance("haproxy", sheet.by_file(), variables.port),)}
    if len(hosts) == 1 and len(servers) > 1:
        findings.append(
            Finding(
                "note",
                "balancer.single",
                f"{hosts[0]} {SERVICE}",
                f"one balancer stands before {len(servers)} instances, and forgets where consumers live "
                "when it "
                "restarts",
                "let consumers follow the URL that they are given (kafka_rest_consumers_via: instance), or "
                "add a "
                "second balancer with an address that moves",
            )
        )
    return Part(services=services, findings=tuple(findings))


def _instances(inventory: Inventory) -> tuple[RestTls | None, Mapping[str, str]]:
    """Return how the instances' listeners are encrypted, and who may log in to them; alike on all hosts."""
    host = inventory.group(REST)[0]
    variables = role_variables(KafkaRest, REST, host, inventory.hosts[host])
    return (None, {}) if isinstance(variables, list) else (variables.tls, variables.users)


def _stickiness(sheet: Sheet, rest: Part, variables: RestBalancer) -> None:
    """Plan how long and how many homes of consumer instances are remembered, and how long a request may "
    "take."""
    instances = [i for of_host in rest.services.values() for i in of_host.get(REST, ())]
    consumers = max((number(i.value("consumer.instance.timeout.ms")) or 0 for i in instances), default=0)
    polls = max((number(i.value("consumer.request.timeout.ms")) or 0 for i in instances), default=0)
    minutes = variables.consumer_minutes
    sheet.put(
        _FILE,
        "stick-table expire",
        "balancer.stickiness",
        Choice(
            f"{minutes}m",
            f"a consumer instance lives {consumers // 1000} s after its last request, and its home is "
            "remembered for "
            f"{minutes} minutes",
            _FACTS,
        ),
    )
    if consumers > minutes * 60_000:
        sheet.warning(
            "balancer.stickiness",
            f"rest_balancer_consumer_minutes is {minutes}, and a consumer instance lives {consumers} ms "
            "after its last "
            "request: its home is forgotten before it is gone",
            f"set rest_balancer_consumer_minutes to {consumers // 60_000 + 1} or more",
        )
    sheet.put(
        _FILE,
        "stick-table size",
        "balancer.stickiness",
        Choice(
            200_000,
            f"homes of consumer instances, by an estimate {200_000 * _ENTRY_BYTES // 1_000_000} MB when full",
            _FACTS,
        ),
    )
    longest = max(_CLIENT_S, _PRODUCE_S + 30, 2 * polls // 1000)
    sheet.put(
        _FILE,
        "timeout server",
        "balancer.timeouts",
        Choice(
            f"{longest}s",
            f"a produce request may take {_PRODUCE_S} s where no broker answers, a read {polls} ms: the "
            "balancer must "
            "not give up before the proxy does",
            "REST proxy facts, Observed on running proxies",
        ),
    )
