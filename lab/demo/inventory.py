"""The inventory of a demo: a copy of inventories/local with another load, or with a vendor's proxy."""

from __future__ import annotations

import ipaddress
import shutil
from pathlib import Path
from typing import Any, Final

import yaml

from kedge.setup.paths import GENERATED, PROJECT
from lab.demo.load import REST_SHARE
from lab.demo.options import Vendor

#: As deep below the project as inventories/local: kit_dir is told from there.
DERIVED: Final = GENERATED / "demo"
#: Seconds in which a load is to have sent what the audit asks for at least.
_SECONDS: Final = 100
#: Four of a vendor's proxies that begin at once took all of two cores for the first 25 s of load.
_VENDORS_WARM_UP_S: Final = 45
#: A level for trials on a machine that carries all of the fleet: a healthy proxy answers in a tenth of it.
_ACK_P99_MS: Final = 300
#: A canary's host, its place in a fleet's network, and the port of its metrics.
CANARY: Final = "canary1"
_CANARY_HOST: Final = 61
CANARY_PORT: Final = 9464


def derive(base: Path, load: int, vendor: Vendor | None, to: Path) -> Path:
    """Copy an inventory with this load (Kafka records/s) and proxy in it; return the copy's folder.

    What is sent by REST, the levels of throughput and the least number of records keep their proportion.
    """
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(base, to)
    warm_up_s = None if vendor is None else _VENDORS_WARM_UP_S
    _change(to / "group_vars/all/main.yml", lambda variables: _loaded(variables, load, warm_up_s), base)
    if vendor is not None:
        _change(to / "group_vars/kafka_rest/main.yml", lambda variables: _of_vendor(variables, vendor), base)
    return to


def _loaded(variables: dict[str, Any], load: int, warm_up_s: int | None) -> dict[str, Any]:
    verify, levels = variables["verify"], variables["service_levels"]
    rates = {"kafka": load, "rest": round(load * REST_SHARE)}
    for via, rate in rates.items():
        level = levels["throughput"][via]
        level["records_per_s"] = round(level["records_per_s"] * rate / verify[via]["records_per_s"])
        verify[via]["records_per_s"] = rate
    verify["warm_up_s"] = warm_up_s or verify["warm_up_s"]
    verify["min_records"] = min(verify["min_records"], sum(rates.values()) * _SECONDS)
    return variables


def for_trials(base: Path, to: Path) -> Path:
    """Copy an inventory, with a bound on latency: any load is carried without. Return the copy's folder."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(base, to)
    _change(to / "group_vars/all/main.yml", _bounded, base)
    return to


def with_canary(base: Path, to: Path) -> Path:
    """Copy an inventory, add a canary, and have mirrors copy its topics; return the copy's folder."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(base, to)
    fleet = yaml.safe_load((to / "group_vars/all/fleet.yml").read_text(encoding="utf-8"))["fleet"]
    address = str(ipaddress.ip_network(fleet["subnet"])[_CANARY_HOST])

    def added(hosts: dict[str, Any]) -> dict[str, Any]:
        scraped = {"canary_scrape_address": address, "canary_port": CANARY_PORT}
        canary = {"canary_cluster": "leaf", "canary_window_s": 60, **scraped}
        nodes = hosts["all"]["children"]["nodes"]["children"]
        nodes["canary"] = {"hosts": {CANARY: {"ansible_host": address, **canary}}}
        return hosts

    def mirrored(variables: dict[str, Any]) -> dict[str, Any]:
        for flow in variables["mirror_maker_flows"].values():
            flow["topics"].append("kedge-canary-.*")
        return variables

    _change(to / "hosts.yml", added, base)
    mirrors = to / "group_vars/mirror_maker/main.yml"
    if mirrors.exists():
        _change(mirrors, mirrored, base)
    return to


def _bounded(variables: dict[str, Any]) -> dict[str, Any]:
    levels = variables["service_levels"]
    return variables | {"service_levels": {**levels, "latency": {"rest": {"ack_p99_ms": _ACK_P99_MS}}}}


def _of_vendor(variables: dict[str, Any], vendor: Vendor) -> dict[str, Any]:
    # The sandbox starts in seconds; a vendor's proxy gets the time that the plan gives it.
    kept = {key: value for key, value in variables.items() if key != "kafka_rest_ready_seconds"}
    return kept | {
        "kafka_rest_distribution": vendor.distribution,
        "kafka_rest_version": vendor.version,
        "kafka_rest_archive": str(vendor.archive),
        "kafka_rest_archive_checksum": vendor.checksum,
    }


def _change(file: Path, change: Any, base: Path) -> None:
    variables = change(yaml.safe_load(file.read_text(encoding="utf-8")))
    where = base.relative_to(PROJECT) if base.is_relative_to(PROJECT) else base
    text = yaml.safe_dump(variables, sort_keys=False, width=1000, allow_unicode=True)
    file.write_text(
        f"# Made by make demo from {where}; the next one makes it anew.\n{text}", encoding="utf-8"
    )
