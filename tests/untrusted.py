"""All that comes to the control machine from somebody else, and the one place where each enters.

``SOURCES`` has every public function of :mod:`kedge.evidence.border` that takes something untrusted whole, and
every parser behind it. ``READERS`` has every module that could read something, and whose word that is. A test holds
both against the code: what is new has to be put here, and is then thrown at.
"""

from __future__ import annotations

import ast
import base64
import importlib
import io
import json
import pkgutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from kedge.deploy.mirror_positions import parse_position
from kedge.evidence import border
from kedge.evidence.record import encode, identities, run_tag
from kedge.evidence.record_layout import PREFIX_BYTES
from tests.hostile_agent import NAME, OVER, ROW, file, line, load
from tests.unit.test_watch_hosts import UNITS
from tests.unit.test_watch_hosts import line as sample_line
from verify.collect import gc, reading, rocksdb, subject
from verify.limits import broker_uses
from verify.load.actors import processes
from verify.load.board import WIDTH
from verify.load.rest_producers import read_answer
from verify.measure import utilization
from verify.watch.host_watcher import rows

# Sources are called by the names of their modules, whoever has imported them.
for _module in pkgutil.iter_modules(border.__path__, f"{border.__name__}."):
    importlib.import_module(_module.name)

PACKAGES: Final = ("kedge/evidence", "kedge/deploy", "kedge/trials", "verify", "plugins", "spark_checks")
ROOT: Final = Path(__file__).resolve().parents[1]
_TAG: Final = run_tag("r")


@dataclass(frozen=True)
class Source:
    """Somebody's word: what takes it, as bytes, and what is taken."""

    who: str
    take: Callable[[bytes], object]
    good: bytes


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _json(data: bytes) -> Any:
    """Return what Ansible makes of a module's answer; a text where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return _text(data)


def _files(data: bytes) -> object:
    """Take files in a folder of their own, without a look into tables, which is a process's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        folder.mkdir()
        kept, border.load_generator._look_into = border.load_generator._look_into, lambda *_: None
        try:
            found = border.load_generator.take_files(
                io.BytesIO(data), {NAME: processes(load())[NAME]}, folder, 1 << 20
            )
        finally:
            border.load_generator._look_into = kept
            outside = [path for path in Path(name).rglob("*") if not path.is_relative_to(folder)]
            assert outside == []
            assert not any(path.is_symlink() for path in folder.rglob("*"))
        return [str(path) for path in found]


def _collected(data: bytes) -> object:
    read = reading.read_output(border.host_output.lines(data))
    return [reading.pairs(lines or ()) for lines in read.files.values()]


_ACTION: Final = {
    "host": "h", "service": "kafka_rest", "instance": "8082", "action": "ready", "started_us": 1, "ended_us": 2,
    "ok": True,
}  # fmt: skip
_ROWS: Final = [{
    "file": "a.properties", "key": "a", "value": "<secret 0123456789abcdef>", "rule": "b", "because": "c", "source": "d",
    "basis": "derived", "secret": True, "digest": "0123456789ab",
}]  # fmt: skip
_STAGED: Final = {
    "instances": [{
        "name": "8082", "release": "0123456789ab", "current": None, "pending": True, "comments": False, "edited": False,
        "dropins": [],
        "touched": False, "same_rows": False, "rows": base64.b64encode(json.dumps(_ROWS).encode()).decode(), "digests": {"<secret 0123456789abcdef>": "0123456789ab"},
        "in_force": ["environment"], "active": False, "predecessor": "",
    }],
    "pending": ["8082"], "restart": [], "stale": ["8099"], "strange": ["'a b'"],
}  # fmt: skip
_FORMER: Final = {
    "instances": [{"name": "8082", "current": "a", "release": "", "kept": ["a"], "wrong": "no previous release"}],
    "restart": [], "stale": [], "asked_otherwise": False,
}  # fmt: skip
_MEMORY: Final = {"at_us": 5, "rss_bytes": 6, "state": "RUNNING", "heap_bytes": 7, "stores": 2}
_RUNNING: Final = {
    "cores": 2,
    "memory_kib": 4096,
    "kernel": {"vm.swappiness": "60"},
    "processes": [
        {
            "pid": 7,
            "main": "a.B",
            "unit": "b.service",
            "command": "java a.B b.properties",
            "java": "/usr/bin/java",
            "jars": ["kafka-rest-7.9.1.jar"],
            "ports": [8082],
            "environment": {"KAFKA_OPTS": "-Da=b"},
            "limits": {"MemoryMax": "1024M"},
            "files": [{"path": "b.properties", "lines": ["a=1"]}],
            "missed": ["c.properties: is no file"],
        }
    ],
    "others": ["process 9 (java)"],
}
_GC: Final = (
    b"[2026-11-21T10:00:01.000+0000][1.0s][info][gc] GC(1) Pause Young (Normal) 10M->5M(20M) 1.234ms\n"
)
_COUNTERS: Final = (
    b"boot a-1\nat 5\ncpu  1 2 3 4 5 6 7 8 9 10\ndisk 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n"
    b"net eth0: 1 2 3 4 5 6 7 8 9 10\nspeed eth0 1000\n"
)
_USES: Final = b"max_map_count 65530\nbroker 1 1024 7\n"
_OFFSET_KEY: Final = b'["MirrorSourceConnector",{"cluster":"leaf","partition":4,"topic":"metrics.a"}]'

SOURCES: Final[Mapping[str, Source]] = {
    "kedge.evidence.border.action.actions": Source(
        "a module on a host",
        lambda data: border.action.actions(_json(data), "h", {"kafka_rest"}),
        json.dumps([_ACTION]).encode(),
    ),
    "kedge.evidence.border.deployed.record": Source(
        "a host's record of the others",
        lambda data: border.deployed.record(_json(data), {"kafka_rest"}),
        json.dumps({"rest3": {"address": "10.0.0.3", "services": ["kafka_rest"]}}).encode(),
    ),
    "kedge.evidence.border.instances.staged": Source(
        "a module on a host",
        lambda data: border.instances.staged(_json(data), ["8082"]),
        json.dumps(_STAGED).encode(),
    ),
    "kedge.evidence.border.instances.former": Source(
        "a module on a host",
        lambda data: border.instances.former(_json(data), ["8082"]),
        json.dumps(_FORMER).encode(),
    ),
    "kedge.evidence.border.load_generator.clock": Source(
        "a host that makes load", border.load_generator.clock, line({"clock": 1, "code": "a"})
    ),
    "kedge.evidence.border.load_generator.counted": Source(
        "a host that makes load",
        lambda data: border.load_generator.counted(data, {NAME: processes(load())[NAME]}, WIDTH),
        line(OVER | {"cells": {NAME: ROW}, "said": {NAME: "x"}}),
    ),
    "kedge.evidence.border.load_generator.take_files": Source(
        "a host that makes load", _files, file(f"logs/{NAME}.log", b"x") + file("")
    ),
    "kedge.evidence.border.host_output.output": Source(
        "a command on a host", lambda data: border.host_output.output(io.BytesIO(data).read, 1_000), b"a\n"
    ),
    "kedge.evidence.border.host_output.lines": Source(
        "a command on a host", border.host_output.lines, b"a=1\n"
    ),
    "kedge.evidence.border.host_output.nanoseconds": Source(
        "a host's clock",
        lambda data: border.host_output.nanoseconds(border.host_output.lines(data)),
        b"1700000000000000000\n",
    ),
    "kedge.evidence.border.host_output.machine": Source(
        "a host's kernel",
        lambda data: border.host_output.machine(border.host_output.lines(data)),
        b"cores=2\nsystem=Debian\n",
    ),
    "kedge.evidence.border.host_output.sample": Source(
        "a host's processes",
        lambda data: border.host_output.sample(data, UNITS),
        sample_line(["kafka-rest@8082", 1, 2, 3, 4]),
    ),
    "kedge.evidence.border.host_output.memory": Source(
        "a Streams application",
        lambda data: border.host_output.memory(_text(data)),
        json.dumps(_MEMORY).encode(),
    ),
    "kedge.evidence.border.jvms.running": Source(
        "a host's processes", lambda data: border.jvms.running(_json(data)), json.dumps(_RUNNING).encode()
    ),
    "kedge.evidence.border.proxy.place": Source(
        "a REST proxy",
        lambda data: border.proxy.place(data, "https://lb:8443", ["https://rest1:8082"]),
        b'{"instance_id": "a", "base_uri": "https://rest1:8082/consumers/g/instances/a"}',
    ),
    "kedge.evidence.border.proxy.origin": Source(
        "a REST proxy", lambda data: border.proxy.origin(_text(data)), b"https://rest1:8082"
    ),
    "kedge.evidence.border.proxy.records": Source(
        "a REST proxy",
        border.proxy.records,
        b'[{"topic": "t", "partition": 0, "offset": 1, "value": "QQ=="}]',
    ),
    "kedge.evidence.border.proxy.offsets": Source(
        "a REST proxy",
        lambda data: border.proxy.offsets(data, 1),
        b'{"offsets": [{"partition": 0, "offset": 1, "error_code": null, "error": null}]}',
    ),
    "kedge.evidence.border.proxy.refusal": Source(
        "a REST proxy", lambda data: border.proxy.refusal(data, 300), b'{"error_code": 1, "message": "x"}'
    ),
    "kedge.evidence.border.proxy.instance": Source(
        "a REST proxy", lambda data: border.proxy.instance(_text(data)), b"rest1:8082"
    ),
    "kedge.evidence.border.cluster.position": Source(
        "a topic of Connect",
        lambda data: border.cluster.position(data, b'{"offset": 41}', "MirrorSourceConnector"),
        _OFFSET_KEY,
    ),
    "kedge.evidence.border.cluster.member": Source(
        "a client of a cluster", lambda data: border.cluster.member(_text(data), _text(data)), b"app-1"
    ),
    "kedge.deploy.mirror_positions.parse_position": Source(
        "a topic of Connect", lambda data: parse_position(_OFFSET_KEY, data), b'{"offset": 41}'
    ),
    "kedge.evidence.record.identities": Source(
        "a topic",
        lambda data: identities(_TAG, [data, None, data[:PREFIX_BYTES]]).seq.tolist(),
        encode(_TAG, 0, 1, 2, b"xyz")[0],
    ),
    "verify.collect.reading": Source(
        "files of a host", _collected, b"@@kedge file /etc/x.properties\n a=1\n b=2\n"
    ),
    "verify.collect.gc.pauses": Source(
        "a JVM", lambda data: list(gc.pauses(border.host_output.lines(data), 0, 2**62)), _GC
    ),
    "verify.collect.rocksdb.samples": Source(
        "a Streams application",
        lambda data: list(rocksdb.samples(border.host_output.lines(data), 0, 2**62, shared_cache=True)),
        json.dumps(_MEMORY).encode(),
    ),
    "verify.collect.subject.machine": Source(
        "a host's kernel",
        lambda data: subject.machine(border.host_output.lines(data)),
        b"cores=2\nmemory_kib=4096\n",
    ),
    "verify.measure.utilization.parse": Source(
        "a host's kernel", lambda data: utilization.parse(border.host_output.lines(data)), _COUNTERS
    ),
    "verify.limits.broker_uses": Source(
        "a broker's host", lambda data: broker_uses("h", border.host_output.lines(data)), _USES
    ),
    "verify.load.rest_producers.read_answer": Source(
        "a REST proxy",
        lambda data: read_answer(200, data, 1),
        b'{"offsets": [{"partition": 0, "offset": 1}]}',
    ),
    "verify.watch.host_watcher.rows": Source(
        "a host's processes",
        lambda data: rows("rest1", UNITS, data),
        sample_line(["kafka-rest@8082", 1, 2, 3, 4]),
    ),
}

#: What ``border`` offers beside the entrances, and why it is none.
TOOLS: Final = {
    "kedge.evidence.border.untrusted.checked": "what entrances are made of",
    "kedge.evidence.border.untrusted.count": "what entrances are made of",
    "kedge.evidence.border.untrusted.only": "what entrances are made of",
    "kedge.evidence.border.untrusted.parsed": "what entrances are made of",
    "kedge.evidence.border.untrusted.read_as": "what entrances are made of",
    "kedge.evidence.border.untrusted.read_line": "bounds a line for clock, counted and sample",
    "kedge.evidence.border.untrusted.shown": "what entrances are made of",
    "kedge.evidence.border.proxy.may_log_in": "asked of places that went through place",
    "kedge.evidence.border.proxy.most_bytes": "a number of ours",
    "kedge.evidence.border.table.look_into": "a process of its own, to which test_border_tables throws",
    "kedge.evidence.border.table.main": "that process",
}

_OWN: Final = "this machine's own files and processes"
#: Its answer goes to other hosts, so that plugins/action/kedge_deployed_record.py has it pass kedge.evidence.border.deployed.
_ON_HOST: Final = "runs on a managed host, whose action of the same name passes the border"
_NODE: Final = "runs on a managed host, and sees that host alone"
_CLUSTER: Final = "brokers, whose protocol librdkafka reads; numbers, and names that were asked for"
_STATE: Final = "state tests, a process of its own that asserts and keeps nothing"
_HOST: Final = "a host"
_PROXY: Final = "a REST proxy"
_TOPIC: Final = "records of a topic"
#: Whose word is read through something else than the modules of READERS themselves.
PASSES_BORDER: Final = (_HOST, _PROXY, _TOPIC)

READERS: Final[Mapping[str, str]] = {
    "kedge/evidence/border/load_generator.py": _HOST,
    "kedge/evidence/border/table.py": _HOST,
    "kedge/deploy/host_review.py": _HOST,
    "kedge/deploy/gate_watch.py": _OWN,
    "kedge/deploy/generator_bundle.py": _OWN,
    "kedge/deploy/group_gate.py": _CLUSTER,
    "kedge/deploy/locked_jars.py": _OWN,
    "kedge/deploy/kafka_admin.py": _CLUSTER,
    "kedge/deploy/mirror_positions.py": _TOPIC,
    "kedge/deploy/playbook_run.py": _OWN,
    "kedge/deploy/read_changelogs.py": _CLUSTER,
    "kedge/deploy/streams_jars.py": _OWN,
    "kedge/evidence/bounds.py": _OWN,
    "kedge/evidence/levels.py": _OWN,
    "kedge/evidence/listing.py": _OWN,
    "kedge/evidence/load_options.py": _OWN,
    "kedge/evidence/watch_options.py": _OWN,
    "kedge/evidence/canary.py": _OWN,
    "kedge/evidence/load_state.py": _OWN,
    "kedge/evidence/secrets.py": _OWN,
    "kedge/evidence/writing.py": _OWN,
    "plugins/action/kafka_group_gate.py": _OWN,
    "plugins/action/kedge_changelogs.py": _CLUSTER,
    "plugins/action/kedge_show_drift.py": _CLUSTER,
    "plugins/action/kedge_local.py": _OWN,
    "plugins/action/kedge_reachable.py": _OWN,
    "plugins/callback/kedge_events.py": _HOST,
    "plugins/callback/kedge_inventory.py": _OWN,
    "kedge/trials/runs.py": _OWN,
    "plugins/module_utils/atomic_files.py": _NODE,
    "plugins/module_utils/haproxy.py": _NODE,
    "plugins/module_utils/releases.py": _NODE,
    "plugins/module_utils/haproxy_trial.py": _NODE,
    "plugins/module_utils/journal.py": _NODE,
    "plugins/module_utils/probes.py": _NODE,
    "plugins/module_utils/rest_members.py": _NODE,
    "plugins/module_utils/service_control.py": _NODE,
    "plugins/module_utils/untrusted_folder.py": _NODE,
    "plugins/modules/kafka_mirror_positions.py": _TOPIC,
    "plugins/modules/kafka_other_mirrors.py": _CLUSTER,
    "plugins/modules/kafka_replicas_gate.py": _CLUSTER,
    "plugins/modules/kafka_rights_present.py": _CLUSTER,
    "plugins/modules/kafka_topics_present.py": _CLUSTER,
    "plugins/modules/kafka_users_present.py": _CLUSTER,
    "plugins/modules/kedge_deployed_record.py": _ON_HOST,
    "plugins/modules/kedge_instance.py": _NODE,
    "plugins/modules/kedge_kernel.py": _NODE,
    "plugins/modules/kedge_predecessor.py": _NODE,
    "spark_checks/ingest.py": _OWN,
    "spark_checks/package.py": _OWN,
    "spark_checks/report/documents.py": _OWN,
    "spark_checks/topics.py": _CLUSTER,
    "verify/trials/__main__.py": _OWN,
    "kedge/trials/bottleneck.py": _OWN,
    "verify/trials/compare.py": _OWN,
    "verify/trials/capacity.py": _OWN,
    "verify/trials/hosts.py": _OWN,
    "verify/trials/settings.py": _OWN,
    "verify/trials/trial.py": _OWN,
    "verify/trials/warming.py": _OWN,
    "verify/addresses.py": _OWN,
    "verify/audit.py": _OWN,
    "verify/collect/__main__.py": _OWN,
    "verify/collect/hosts.py": _OWN,
    "verify/collect/remote.py": _HOST,
    "verify/limits.py": _HOST,
    "verify/canary/audit.py": _OWN,
    "verify/canary/live.py": _OWN,
    "verify/canary/pause.py": _OWN,
    "verify/canary/rules.py": _OWN,
    "verify/canary/windows.py": _OWN,
    "verify/load/agent.py": _OWN,
    "verify/load/cluster.py": _CLUSTER,
    "verify/load/generator_hosts.py": _HOST,
    "verify/load/kafka_consumer.py": _CLUSTER,
    "verify/load/kafka_producer.py": _CLUSTER,
    "verify/load/parent.py": _OWN,
    "verify/load/rest_consumers.py": _PROXY,
    "verify/load/rest_producers.py": _PROXY,
    "verify/load/rest_connections.py": _PROXY,
    "verify/load/unfinished.py": _OWN,
    "verify/load/worker.py": _CLUSTER,
    "verify/measure/replication.py": _CLUSTER,
    "verify/measure/rounds.py": _OWN,
    "verify/measure/topics.py": _CLUSTER,
    "verify/measure/utilization.py": _HOST,
    "verify/measure/worker.py": _CLUSTER,
    "verify/process.py": _OWN,
    "verify/state/conftest.py": _STATE,
    "verify/state/test_kafka_topics.py": _STATE,
    "verify/state/test_refusals.py": _STATE,
    "verify/state/test_rest_balancer.py": _STATE,
    "verify/state/test_streams_app.py": _STATE,
    "verify/watch/end_offsets.py": _CLUSTER,
    "verify/watch/host_sampler.py": _NODE,
    "verify/watch/watchers.py": _OWN,
    "verify/watch/host_watcher.py": _HOST,
    "verify/watch/groups.py": _CLUSTER,
    "verify/watch/topic_growth.py": _CLUSTER,
    "verify/watch/__main__.py": _OWN,
    "verify/watch/traffic.py": _CLUSTER,
}

#: Modules by which something is read: of the network, of another program, of a file in some format.
_READING: Final = frozenset(
    {"ansible.plugins.callback", "confluent_kafka", "csv", "http.client", "httpx", "paramiko", "pickle",
     "pyarrow.parquet", "pyinfra", "socket", "subprocess", "tarfile", "urllib.error", "urllib.request", "xml.etree",
     "xml.dom", "xml.sax", "yaml", "zipfile"}
)  # fmt: skip


@cache
def readers() -> tuple[str, ...]:
    """Return the modules of the kit that could read something."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    names = (str(path.relative_to(ROOT)) for path in paths)
    return tuple(name for name in names if _reads(_tree(name)))


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def imports(path: str) -> set[str]:
    """Return the modules that a file imports."""
    return set(_imports(_tree(path)))


def _reads(tree: ast.AST) -> bool:
    if any(name == known or name.startswith(f"{known}.") for name in _imports(tree) for known in _READING):
        return True
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("load", "loads")
        and isinstance(node.value, ast.Name)
        and node.value.id == "json"
        for node in ast.walk(tree)
    )


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
