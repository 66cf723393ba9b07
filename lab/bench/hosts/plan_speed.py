"""How long a plan for 1,000 hosts takes: 500 REST hosts x 4 instances, 400 of MirrorMaker, 100 of Streams.

    python -m lab.bench.hosts.plan_speed     three runs; the result goes to plan_speed.json

Without Ansible: the time is that of ``make_plan`` on hosts and variables in memory, and of writing JSON.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from kedge.plan.hosts import Inventory
from kedge.services.planning import make_plan

RESULT = Path(__file__).with_suffix(".json")
RUNS = 3

COMMON: dict[str, Any] = {
    "kafka_clusters": {
        name: {"version": "4.3.1", "bootstrap_servers": f"{name}:9092", "broker_count": 100}
        for name in ("leaf", "agg")
    },
    "host_cores": 64,
    "host_memory_mib": 262_144,
}
REST: dict[str, Any] = {
    "kafka_rest_cluster": "leaf",
    "kafka_rest_distribution": "confluent",
    "kafka_rest_archive": "/srv/packages/confluent.tar.gz",
    "kafka_rest_archive_checksum": "a1" * 32,
    "kafka_rest_version": "8.3.1",
    "kafka_rest_instances_per_host": 4,
    "kafka_rest_workload": {"consumers": 400, "partitions": 6, "largest_group": 100, "records_per_s": 20_000},
}
MIRROR: dict[str, Any] = {
    "mirror_maker_kind": "classic",
    "mirror_maker_version": "3.9.2",
    "mirror_maker_flows": {
        name: {
            "source": "leaf",
            "target": "agg",
            "topics": [f"{name}[.].*"],
            "latency_budget_ms": 60_000,
            "round_trip_ms": 60,
            "link_mbit_per_s": 10_000,
            "largest_topic_partitions": 1000,
            "max_message_bytes": 1_000_000,
        }
        for name in ("metrics", "logs")
    },
}
STREAMS: dict[str, Any] = {
    "streams_app_name": "joins",
    "streams_app_version": "4.3.1",
    "streams_app_cluster": "leaf",
    "streams_app_main_class": "example.Joins",
    "streams_app_jars": [{"path": "joins.jar", "sha256": "0" * 64}],
    "streams_app_stores": [
        {"name": "j", "kind": "join", "count": 8, "partitions": 120, "window_ms": 120_000}
    ],
}


def inventory() -> Inventory:
    """Return the 1,000 hosts; every host has variables of its own, as Ansible hands them over."""
    groups = {
        "kafka_rest": [f"rest{n}" for n in range(1, 501)],
        "mirror_maker": [f"mm{n}" for n in range(1, 401)],
        "streams_app": [f"streams{n}" for n in range(1, 101)],
    }
    of_group = {"kafka_rest": REST, "mirror_maker": MIRROR, "streams_app": STREAMS}
    hosts = {h: copy.deepcopy(COMMON | of_group[g]) for g, names in groups.items() for h in names}
    return Inventory(hosts, {g: tuple(names) for g, names in groups.items()})


def main() -> int:
    """Measure, print and keep the result; return 1 where the plan has errors, and so is none of all hosts."""
    fleet = inventory()
    plan_s, cpu_s, json_s = [], [], []
    for _ in range(RUNS):
        started, busy = time.perf_counter(), time.process_time()
        plan = make_plan(fleet)
        planned = time.perf_counter()
        cpu_s.append(time.process_time() - busy)
        document = json.dumps(plan.to_json())
        plan_s.append(planned - started)
        json_s.append(time.perf_counter() - planned)
    instances = [i for services in plan.services.values() for of in services.values() for i in of]
    result = {
        "command": "python -m lab.bench.hosts.plan_speed",
        "hosts": len(fleet.hosts),
        "instances": len(instances),
        "settings": sum(len(i.settings) for i in instances),
        "findings": {s: sum(f.severity == s for f in plan.findings) for s in ("error", "warning", "note")},
        "plan_s": {"median": round(statistics.median(plan_s), 2), "runs": [round(s, 2) for s in plan_s]},
        "plan_cpu_s": {"median": round(statistics.median(cpu_s), 2), "runs": [round(s, 2) for s in cpu_s]},
        "json_s": {"median": round(statistics.median(json_s), 2), "bytes": len(document)},
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 1 if plan.has_errors else 0


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m lab.bench.hosts.plan_speed", description=__doc__).parse_args()
    sys.exit(main())
