"""Rules for the balancer in front of the REST instances."""

from __future__ import annotations

from sizing.model import Advice, Choice, Finding, Instance, Inventory, Part, Sheet
from sizing.workload import RestBalancer, role_variables

SERVICE = "rest_balancer"
_GUIDE = "Confluent REST Proxy production guide, Deployment and Load Balancing"
_FILE = "/etc/haproxy/haproxy.cfg"


def plan_balancers(inventory: Inventory, rest: Part, advice: Advice) -> Part:
    """Plan the balancers of the group ``rest_balancer`` over the instances of ``rest``.

    Each instance is one setting ``server HOST:PORT`` with its address as value.
    """
    services: dict[str, dict[str, tuple[Instance, ...]]] = {}
    findings: list[Finding] = []
    for host in inventory.group(SERVICE):
        variables = role_variables(RestBalancer, SERVICE, host, inventory.hosts[host])
        if isinstance(variables, list):
            findings += variables
            continue
        sheet = Sheet(host, advice, {})
        sheet.put(
            _FILE,
            "bind",
            "balancer.bind",
            Choice(f"{inventory.address(host)}:{variables.port}", "the address that clients use", _GUIDE),
        )
        for rest_host, of_host in rest.services.items():
            for instance in of_host.get("kafka_rest", ()):
                sheet.put(
                    _FILE,
                    f"server {rest_host}:{instance.port}",
                    "balancer.servers",
                    Choice(
                        f"{inventory.address(rest_host)}:{instance.port}",
                        "every instance, each by itself",
                        _GUIDE,
                    ),
                )
        services[host] = {SERVICE: (Instance("haproxy", tuple(sheet.settings), variables.port),)}
    return Part(services=services, findings=tuple(findings))
