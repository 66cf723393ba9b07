"""The topics into the records table, so that a verdict can be computed again when the topics are gone."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from kedge.evidence.errors import EvidenceError, one_line
from kedge.evidence.listing import ReadRange
from kedge.evidence.record import run_tag
from kedge.evidence.run import Cluster, Run, TopicRange
from kedge.evidence.secrets import from_environment
from spark_checks.engine.contract import check_files
from spark_checks.engine.files import parquet_files
from spark_checks.engine.spark_types import TABLES
from spark_checks.engine.wholeness import by_place, commit
from spark_checks.mirror.batches import sample
from spark_checks.topics import CannotReadError, TopicRangeShare, cut, records_of, whole

_REACH_S: Final = 3.0
#: Tasks a core: cores that others use as well end with the rest.
_TASKS_A_CORE: Final = 2
#: Where a client finds a certificate or a key -> the key that has its text.
_PEM: Final = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
    "https.ca.location": "https.ca.pem",
}


@dataclass(frozen=True)
class Ingest:
    """What reading the topics gave: how many records in how long, or the reason why it could not be done."""

    records: int = 0
    seconds: float = 0.0
    reason: str = ""


def ingest(spark: SparkSession, uri: str, run: Run) -> Ingest:
    """Read the run's range of every topic from its cluster and write ``records`` under the evidence.

    Of mirrors' sources a sample is compressed as well, into ``batches``. The last file of each table lists
    the others with their rows: without it, nothing counts as read. So an ingest that was cut off, also while
    Spark moved files to their places, is never taken for a whole one, on whatever store.
    """
    if reason := obstacle(run):
        return Ingest(reason=reason)
    begin = time.monotonic()
    try:
        topics = {(topic.cluster, topic.topic): topic_share(run, topic) for topic in run.topics}
        shares = cut([*topics.values()], _TASKS_A_CORE * spark.sparkContext.defaultParallelism)
        records, count = _write(spark, records_of(spark, shares), uri, "records", run, [*topics.values()])
        batches = sample(spark, records, run, topics) if run.mirrors else None
        if batches is not None:
            _write(spark, batches, uri, "batches", run)
    except (PySparkException, Py4JJavaError, CannotReadError, EvidenceError) as error:
        return Ingest(reason=f"the topics could not be read: {_cause(error)}")
    return Ingest(count, time.monotonic() - begin)


def _write(
    spark: SparkSession,
    rows: DataFrame,
    uri: str,
    name: str,
    run: Run,
    shares: Sequence[TopicRangeShare] = (),
) -> tuple[DataFrame, int]:
    """Write a table, hold it against what Spark's tasks wrote, and list it; return it and its rows.

    Raises:
        CannotReadError: when the store holds something else than was written.
    """
    folder, written = f"{uri}/{name}", Observation("written")
    rows.observe(written, F.count(F.lit(1)).alias("rows")).write.mode("overwrite").parquet(folder)
    held = check_files(spark, parquet_files(spark, folder), name, run)
    table = spark.read.schema(TABLES[name]).parquet(folder)
    count = sum(held.values())
    if count != written.get["rows"]:
        raise CannotReadError(f"{name} was written with {written.get['rows']:,} rows, and has {count:,}")
    found = by_place(table) if shares else {}
    ranges = [
        ReadRange(
            cluster=share.cluster,
            topic=share.topic,
            partition=one.partition,
            start=one.start,
            end=one.end,
            rows=found.get((share.cluster, share.topic, one.partition), 0),
        )
        for share in shares
        for one in share.ranges
    ]
    commit(spark, folder, held, ranges)
    return table, count


def topic_share(run: Run, topic: TopicRange) -> TopicRangeShare:
    """Return all that is to be read of a topic.

    Of what is promised exactly once, records of aborted transactions are left out, as whoever relies on it
    leaves them out.

    Raises:
        CannotReadError: when the cluster does not answer for the topic.
    """
    committed = (topic.cluster, topic.topic) in run.written_exactly_once()
    client = {
        **client_of(run, topic.cluster),
        "bootstrap.servers": run.clusters[topic.cluster].bootstrap_servers,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    share = TopicRangeShare(
        topic.cluster, topic.topic, (), client, run_tag(run.run_id), run.keys_per_producer
    )
    return whole(share, topic.start_offsets, topic.end_offsets)


def obstacle(run: Run) -> str:
    """Return why the topics cannot be read, or nothing; what only a cluster can tell is asked later."""
    if not run.topics:
        return "run.json names no topics"
    for name in dict.fromkeys(topic.cluster for topic in run.topics):
        cluster = run.clusters.get(name)
        if cluster is None:
            return f"run.json names no address of cluster {name}"
        mechanism = cluster.client.get("sasl.mechanism", "GSSAPI")  # a keytab is no secret of the environment
        if mechanism != "GSSAPI" and not from_environment().get("clusters", {}).get(name):
            return f"cluster {name} wants a login, and KEDGE_SECRETS, which verify.yml sets, is missing"
        if not reachable(cluster):
            return f"cluster {name} cannot be reached at {cluster.bootstrap_servers}"
    return ""


def reachable(cluster: Cluster) -> bool:
    """Return whether any bootstrap server accepts a connection; a client would try for longer."""
    for server in cluster.bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S):
                return True
        except (OSError, ValueError):
            continue
    return False


def client_of(run: Run, name: str) -> dict[str, Any]:
    """Return librdkafka's keys for a cluster; its password comes from the environment alone.

    Raises CannotReadError when a file of its certificates cannot be read.
    """
    client = dict(run.clusters[name].client)
    for location, text in _PEM.items():
        # The text, and not its place here: tasks of a Spark cluster run elsewhere.
        if path := client.pop(location, None):
            try:
                client[text] = Path(str(path)).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no text"
                message = f"{location} of cluster {name}, {path}: {why}"
                raise CannotReadError(message) from None
    return {**client, **from_environment().get("clusters", {}).get(name, {})} if client else {}


def _cause(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if "CannotReadError: " in line]
    caused = [line.removeprefix("Caused by:") for line in lines if "Caused by:" in line]
    if told:
        return one_line(told[-1].partition("CannotReadError: ")[2], 200)
    return one_line(caused[-1] if caused else error, 200)
