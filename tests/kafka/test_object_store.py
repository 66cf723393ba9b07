"""Evidence in an object store: topics ingested to s3a:// and audited there, with the verdicts of a local folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyarrow import fs

from kedge.setup.paths import jar_folder
from kedge.setup.targets import S3A
from lab.services import minio
from lab.services.minio import ObjectStore
from lab.services.serving import free_ports
from tests.awaiting import await_that
from tests.kafka.loads import ROOT, LoadRun

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(300)]

#: What docs/audit.md has a person write, and the login where it stands in the same file.
PAGE = (ROOT / "docs" / "audit.md").read_text()
DEFAULTS = re.findall(r"^```\n(spark\.jars .*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)[0]
CORE_SITE = re.findall(r"^```xml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)[0]
LOGIN = """<property><name>fs.s3a.access.key</name><value>{0.access_key}</value></property>
<property><name>fs.s3a.secret.key</name><value>{0.secret_key}</value></property>
"""
#: A login that the store does not know.
STRANGER = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing-at-all"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    if not minio.PROGRAM.binary().is_file() or not any(jar_folder(S3A).glob("hadoop-aws-*.jar")):
        pytest.skip("MinIO is not built, or Spark's connector is not cached: make test-long")
    folder = tmp_path / "store"
    folder.mkdir()
    with minio.running(folder, *free_ports(1)) as running:
        yield running


def bucket(store: ObjectStore) -> fs.S3FileSystem:
    login = {"access_key": store.access_key, "secret_key": store.secret_key}
    return fs.S3FileSystem(
        **login,
        endpoint_override=store.address,
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )


def configured(folder: Path, store: ObjectStore, login: str = "") -> dict[str, str]:
    """Write what Spark reads, as docs/audit.md has it; return the variable that leads there."""
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text(DEFAULTS.replace("JARS", str(jar_folder(""))))
    (folder / "core-site.xml").touch(0o600)
    site = CORE_SITE.replace("HOST:PORT", store.address).replace(
        "</configuration>", f"{login}</configuration>"
    )
    (folder / "core-site.xml").write_text(site)
    return {"SPARK_CONF_DIR": str(folder)}


def verdicts(evidence: str, out: Path, slo: Path, **variables: str) -> tuple[str, dict[str, Any]]:
    """Audit as a person does; return what was printed, and verdicts.json without how long it took."""
    done = subprocess.run(
        [sys.executable, "-m", "spark_checks", "--evidence", evidence, "--slo", slo, "--out", out],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **variables},
    )
    said = done.stdout + done.stderr
    assert done.returncode in (1, 2), said
    document = json.loads((out / "verdicts.json").read_text()) if done.returncode == 1 else {}
    document.pop("timings_s", None)
    return said, document


def repeat(bootstrap_servers: str, topic: str, count: int) -> None:
    """Write records of a topic to it again, to their partitions."""
    reader = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader"})
    reader.assign([TopicPartition(topic, 0, 0)])
    messages = await_that(lambda: reader.consume(count, 1), "the topic has records")
    reader.close()
    writer = Producer({"bootstrap.servers": bootstrap_servers})
    for one in messages:
        writer.produce(topic, one.value(), one.key(), one.partition(), headers=one.headers())
    assert writer.flush(30) == 0


def test_topics_are_ingested_to_an_object_store_and_audited_there_as_in_a_folder(
    load_run: Callable[..., LoadRun], topic: str, store: ObjectStore, tmp_path: Path
) -> None:
    part = {"topic": topic, "records_per_s": 4000, "producers": 2, "consumers": 2, "group": f"g-{topic}"}
    run = load_run(kafka=part, min_records=10_000).start()
    run.await_acked(100)
    # Something must be found, so that examples and their order are compared too.
    repeat(run.bootstrap_servers, topic, 5)
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    here, slo = run.folder / "evidence", tmp_path / "slo.yml"
    slo.write_text("rebalance: {min_restarts: 0}\n")
    shutil.copytree(here, tmp_path / "folder")
    _, expected = verdicts(str(tmp_path / "folder"), tmp_path / "of-folder", slo)

    files, there = bucket(store), "s3a://runs/r1/evidence"
    files.create_dir("runs")
    fs.copy_files(str(here), "runs/r1/evidence", destination_filesystem=files)
    login = {"AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key}
    by_environment = configured(tmp_path / "conf", store) | login
    printed, found = verdicts(there, tmp_path / "of-store", slo, **by_environment)
    assert found == expected
    (delivery,) = [check for check in found["checks"] if check["name"] == "delivery"]
    assert delivery["verdict"] == "fail"
    assert delivery["anomalies"]["duplicated"]["examples"]
    # The topics lie in the store now, and the broker is asked no more.
    written = files.get_file_info(fs.FileSelector("runs/r1/evidence/records"))
    assert [one for one in written if one.base_name.endswith(".parquet")]
    by_file = configured(tmp_path / "secret-conf", store, LOGIN.format(store))
    again, found = verdicts(there, tmp_path / "again", slo, **by_file)
    assert found == expected

    # What a person sees where the login is missing, or where there is no such run.
    refused, _ = verdicts(
        there, tmp_path / "refused", slo, **configured(tmp_path / "none", store), **STRANGER
    )
    assert "error: s3a://runs/r1/evidence/run.json: cannot be read" in refused
    assert "Status Code: 403" in refused
    absent, _ = verdicts("s3a://runs/r2", tmp_path / "absent", slo, **by_file)
    assert "s3a://runs/r2/run.json: no such file" in absent

    outputs = [printed, again, refused, absent, (tmp_path / "store" / "minio.log").read_text()]
    folders = ("of-store", "again", "refused", "absent")
    outputs += [
        file.read_text() for name in folders for file in (tmp_path / name).rglob("*") if file.is_file()
    ]
    assert not [text for text in outputs if store.secret_key in text or store.access_key in text]
