"""The filters of Kedge's roles and playbooks: what is decided stands in kedge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kedge.deploy.breaking_changes import refusal as unannounced
from kedge.deploy.canary_spec import with_canary_loads
from kedge.deploy.deployed import disagreed, left_together
from kedge.deploy.load_spec import load_option, load_seconds, load_spec
from kedge.deploy.moved_instances import moved_off, new_on
from kedge.deploy.occupying import occupying
from kedge.deploy.planned import (
    adopted,
    instance_names,
    leased_services,
    named,
    rollout_value,
    servers_of,
    soak,
    vendor_controls,
)
from kedge.deploy.restarts import (
    former_releases,
    reboot_hosts,
    reboot_refusal,
    rollout_ahead,
    rollout_batches,
    rollout_down,
    rollout_refusal,
    rounds,
    services_to_leave,
)
from kedge.deploy.roll import own_balancer_words, steps_of_roll
from kedge.deploy.rollback_report import refusal, steps
from kedge.deploy.watch_spec import watch_seconds, watch_spec
from kedge.evidence.border.untrusted import shown
from kedge.plan.document import planned_instances, planned_rollout, planned_value
from kedge.plan.inventory.archives import bytes_unpacked
from kedge.plan.running import Notice
from kedge.services.balancer.health_checks import while_proxies_change
from kedge.services.balancer.probe import balancer_probe
from kedge.services.broker.probe import brokers_of, kafka_probe
from kedge.services.canary.loads import canary_probe
from kedge.services.mirror.adopting import adopting_hosts, adoptions, mirrors_adopted
from kedge.services.mirror.probe import mirror_gate, mirror_probe
from kedge.services.rest.notices import turning_tls
from kedge.services.rest.probe import rest_probe
from kedge.services.streams.probe import state_file_probe


def of_marks(secrets: Mapping[str, str], within: Any) -> dict[str, str]:
    """Return the secrets whose marks stand somewhere in a value; no more than is needed goes to a host."""
    text = str(within)
    return {mark: value for mark, value in secrets.items() if mark in text}


def noticed_refusal(drift: Mapping[str, Mapping[str, Mapping[str, Any]]], allow: str) -> str:
    """Return why a deploy must not begin, for what clients would notice, or nothing.

    ``drift`` is what hosts answered by service (``kedge_drift``), ``allow`` what was allowed by name. What
    clients would notice of a service that could not be compared, nobody knows: that is refused always.
    """
    unknown = [
        f"{host} {service} cannot be compared with the plan: {why}"
        for host, of_host in drift.items()
        for service, compared in of_host.items()
        if (why := compared.get("failed") or compared.get("unreachable"))
    ]
    if unknown:
        return f"{'; '.join(unknown)}. Fix that, then run the playbook again"
    found = {
        f"{host} {service}": [Notice(*notice) for notice in compared.get("noticed", ())]
        for host, of_host in drift.items()
        for service, compared in of_host.items()
    }
    return unannounced(found, allow.split(","))


def rollback_refusal(found: Mapping[str, Mapping[str, Any]], service: str, releases: Iterable[str]) -> str:
    """Return why a service's instances must not go back to what their hosts found, or nothing."""
    return refusal(found, service.replace("_", "-"), list(releases))


def rollback_steps(found: Mapping[str, Mapping[str, Any]], service: str) -> list[str]:
    """Return what a rollback does to each instance of a service, a line each."""
    return steps(found, service.replace("_", "-"))


def topics_that_may_grow(topics: Iterable[Mapping[str, Any]], cluster: str) -> list[str]:
    """Return a cluster's topics whose keys allow more partitions, or that have none, by the inventory."""
    mine = (t for t in topics if t["cluster"] == cluster)
    return [str(t["name"]) for t in mine if t.get("keys_may_move") or not t.get("keyed", True)]


def package_versions(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the versions of what package_facts says of a package, as apt and dnf write them."""
    return [
        f"{one['version']}-{one['release']}" if one.get("release") else str(one["version"]) for one in found
    ]


class FilterModule:
    """Each filter by the name of its function."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return name to filter."""
        filters: tuple[Callable[..., Any], ...] = (
            adopted,
            adopting_hosts,
            adoptions,
            balancer_probe,
            brokers_of,
            canary_probe,
            disagreed,
            former_releases,
            instance_names,
            kafka_probe,
            leased_services,
            left_together,
            load_option,
            load_seconds,
            load_spec,
            mirror_gate,
            mirror_probe,
            mirrors_adopted,
            moved_off,
            named,
            new_on,
            noticed_refusal,
            occupying,
            of_marks,
            own_balancer_words,
            package_versions,
            planned_instances,
            planned_rollout,
            planned_value,
            reboot_hosts,
            reboot_refusal,
            rest_probe,
            rollback_refusal,
            rollback_steps,
            rollout_ahead,
            rollout_batches,
            rollout_down,
            rollout_refusal,
            rollout_value,
            rounds,
            servers_of,
            services_to_leave,
            shown,
            soak,
            state_file_probe,
            steps_of_roll,
            topics_that_may_grow,
            turning_tls,
            bytes_unpacked,
            vendor_controls,
            watch_seconds,
            watch_spec,
            while_proxies_change,
            with_canary_loads,
        )
        return {each.__name__: each for each in filters}
