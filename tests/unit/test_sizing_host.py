"""The machine: its kernel, its ports, and room for everything on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kedge.plan.hosts import Inventory
from kedge.services.host.kernel import effective
from kedge.services.planning import make_plan
from tests.planned import METRICS, mirrors
from tests.rest_inventories import of_rule, planned, rest


def kernel(inventory: Inventory, host: str = "rest1") -> dict[str, str]:
    services = make_plan(inventory).services.get(host, {})
    return {s.key: s.value for i in services.get("host_tuning", ()) for s in i.settings}


def test_rest_hosts_have_their_ports_reserved_and_no_key_that_linux_dropped() -> None:
    assert kernel(rest(1))["net.ipv4.ip_local_reserved_ports"] == "8082-8083"
    assert "net.ipv4.tcp_congestion_control" not in kernel(rest(1)), "documented, and not measured"
    assert of_rule(make_plan(rest(1)), "host.obsolete", "note")


@pytest.mark.parametrize(
    ("key", "why"),
    [("net.ipv4.tcp_tw_recycle", "removed it in 4.12"), ("net.ipv4.tcp_low_latency", "does nothing")],
)
def test_an_own_kernel_setting_that_linux_dropped_is_a_warning(key: str, why: str) -> None:
    (finding,) = of_rule(make_plan(rest(1, common={"host_tuning_settings": {key: 1}})), "host.dropped")
    assert finding.severity == "warning"
    assert why in finding.message
    assert key in finding.fix


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("vm.swapiness", "did you mean vm.swappiness?"),
        ("net.ipv4.rp_filter", "did you mean net.ipv4.conf.all.rp_filter?"),
        ("net.core.tcp_max_syn_backlog", "did you mean net.ipv4.tcp_max_syn_backlog?"),
        ("net.ipv4_timestamps", "did you mean net.ipv4.tcp_timestamps?"),
        ("fs.max_user_watches", "did you mean fs.inotify.max_user_watches?"),
        ("net.ip4.tcp_rmem", "did you mean net.ipv4.tcp_rmem?"),
        ("vm.zzz", "take vm.zzz out, unless the host's sysctl vm.zzz has a value"),
        # Modules, interfaces and distributions bring keys that no list has.
        *((key, None) for key in (
            "net.ipv4.tcp_mem", "vm.block_dump", "net.netfilter.nf_conntrack_maxx", "kernel.zzz", "net.nf_conntrack_max",
            "net.bridge.bridge-nf-call-iptables", "net.ipv4.conf.eth0.rp_filter", "net.ipv4.vs.zzz", "fs.nfs.zzz",
        )),
    ],
)  # fmt: skip
def test_a_key_that_linux_has_not_is_named_where_a_list_has_them_all(key: str, fix: str | None) -> None:
    found = of_rule(make_plan(rest(1, common={"host_tuning_settings": {key: 1}})), "host.own")
    assert [(f.severity, f.fix) for f in found] == ([("warning", fix)] if fix else [])


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        (
            "net.ipv4.ip_local_port_range",
            "65000 1024",
            ("error", "write net.ipv4.ip_local_port_range = 32768 60999"),
        ),
        (
            "net.ipv4.tcp_rmem",
            "4096 131072 1024",
            ("warning", "write net.ipv4.tcp_rmem = 4096 131072 33554432"),
        ),
        ("vm.swappiness", -1, ("error", "write vm.swappiness = 60")),
        ("vm.swappiness", 1, None),
        ("net.ipv4.ip_local_port_range", "1024 65535", None),
    ],
)
def test_an_own_value_that_the_kernel_refuses_or_nobody_means_is_found(
    key: str, value: object, found: tuple[str, str] | None
) -> None:
    own = of_rule(make_plan(rest(1, common={"host_tuning_settings": {key: value}})), "host.own")
    assert [(f.severity, f.fix) for f in own] == ([found] if found else [])


def test_a_balancers_host_that_says_no_size_is_asked_for_it() -> None:
    inventory = rest(2, groups={"rest_balancer": ("lb1",)})
    sizes = {"host_memory_mib": 8192, "host_cores": 4}
    without = {name: value for name, value in inventory.hosts["lb1"].items() if name not in sizes}
    (note,) = of_rule(make_plan(replace(inventory, hosts={**inventory.hosts, "lb1": without})), "host.memory")
    assert (note.severity, note.where) == ("note", "lb1: host_memory_mib")
    assert "MiB: rest_balancer 1 x " in note.message
    assert note.fix == "set host_memory_mib and host_cores"
    with_it = {**inventory.hosts, "lb1": without | sizes}
    assert not of_rule(make_plan(replace(inventory, hosts=with_it)), "host.memory")


def test_load_generators_get_ports_queues_and_descriptors() -> None:
    inventory = rest(1, groups={"load_generator": ("load1",)})
    wanted = kernel(inventory, "load1")
    assert wanted["net.ipv4.ip_local_port_range"] == "1024 65535"
    assert wanted["* - nofile"] == "40000"
    assert "net.ipv4.ip_local_reserved_ports" not in wanted


def test_mirror_hosts_get_buffers_for_what_their_link_holds() -> None:
    # 100 ms at 1 Gbit/s are 12.5 MB on their way.
    inventory = mirrors(1, METRICS | {"round_trip_ms": 100, "link_mbit_per_s": 1000})
    wanted = kernel(inventory, "mm1")
    assert wanted["net.core.rmem_max"] == "25000000"
    assert wanted["net.ipv4.tcp_wmem"] == "4096 16384 25000000"
    assert "net.core.somaxconn" not in wanted
    assert kernel(mirrors(1, METRICS), "mm1") == {}


def test_a_long_fat_link_of_a_rest_host_raises_its_buffers() -> None:
    far = rest(1, common={"host_round_trip_ms": 100.0, "host_link_mbit_per_s": 10_000})
    assert kernel(far)["net.core.rmem_max"] == "250000000"


def test_no_buffer_is_larger_than_the_kernel_takes() -> None:
    # 250 ms at 100 Gbit/s are 3.1 GB on their way; net.core.rmem_max and its like are ints.
    far = kernel(rest(1, common={"host_round_trip_ms": 250.0, "host_link_mbit_per_s": 100_000}))
    assert far["net.core.rmem_max"] == far["net.core.wmem_max"] == "2147483647"
    assert far["net.ipv4.tcp_rmem"] == "4096 87380 2147483647"


def test_own_kernel_settings_win() -> None:
    inventory = rest(1, common={"host_tuning_settings": {"net.core.somaxconn": 9000, "vm.swappiness": 1}})
    assert kernel(inventory)["net.core.somaxconn"] == "9000"
    assert kernel(inventory)["vm.swappiness"] == "1"


@pytest.mark.parametrize(
    ("key", "current", "wanted", "value"),
    [
        ("net.core.somaxconn", "4096", "8192", "8192"),
        ("net.core.somaxconn", "16384", "4096", "16384"),
        ("net.ipv4.tcp_rmem", "4096\t131072\t33554432", "4096 87380 16777216", "4096 131072 33554432"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456", "4096 87380 16777216", "4096 131072 16777216"),
        ("net.ipv4.ip_local_port_range", "32768 60999", "1024 65535", "1024 65535"),
        ("net.ipv4.ip_local_port_range", "1000 65000", "1024 65535", "1000 65535"),
        ("net.ipv4.ip_local_reserved_ports", "", "8082-8083", "8082-8083"),
        ("net.ipv4.ip_local_reserved_ports", "9000,8080-8082", "8082-8083", "8080-8083,9000"),
        ("net.ipv4.tcp_congestion_control", "bbr", "cubic", "bbr"),
        ("net.ipv4.tcp_congestion_control", "reno", "cubic", "cubic"),
    ],
)
def test_what_a_host_has_is_never_lowered(key: str, current: str, wanted: str, value: str) -> None:
    assert effective(key, current, wanted) == value


def test_services_that_need_more_memory_than_the_host_has_are_an_error() -> None:
    plan = make_plan(rest(1, memory_mib=1600, instances_per_host=2))
    (error,) = of_rule(plan, "host.memory", "error")
    assert "host_memory_mib is 1600" in error.message
    assert "kafka_rest 2 x 825 MiB" in error.message
    (warning,) = of_rule(make_plan(rest(1, memory_mib=2000, instances_per_host=2)), "host.memory")
    assert warning.severity == "warning"
    assert not of_rule(make_plan(rest(1, memory_mib=2200, instances_per_host=2)), "host.memory")


def test_every_service_of_a_host_counts_against_its_memory() -> None:
    both = dict(mirrors(1).hosts["mm1"]) | dict(rest(1).hosts["rest1"]) | {"host_memory_mib": 8000}
    inventory = Inventory({"a": both}, {"mirror_maker": ("a",), "kafka_rest": ("a",)})
    (error,) = of_rule(make_plan(inventory), "host.memory", "error")
    assert "kafka_rest 1 x" in error.message
    assert "mirror_maker 20 x" in error.message


def test_the_limits_of_the_unit_are_planned() -> None:
    inventory = rest(1, {"consumers": 30_000, "readers": 0, "connections": 20_000}, instances_per_host=1)
    assert planned(inventory, "LimitNOFILE") == str(1000 + 5 * 30_000 + 2 * 20_000)
    assert int(planned(inventory, "TasksMax")) >= 2 * 30_000
    assert planned(rest(1), "LimitNOFILE") == "100000"
