"""The Spark session of an audit: in this process on all cores, or on a cluster given by --master."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from contextlib import ExitStack
from importlib import import_module, resources
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, cloudpickle
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kedge.evidence.errors import EvidenceError

#: A collector that saves pauses gains an audit nothing.
_JAVA: Final = ("-XX:+UseParallelGC",)
#: Of some million records an audit is over before Java's second compiler has paid for itself. Without it Java
#: keeps 48 MiB of compiled code, which the queries of some three audits fill.
_QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")

#: Memory of Spark's driver, as Java writes it; for a local master this is all the memory there is.
DRIVER_MEMORY: Final = "2g"

#: Partitions of a shuffle, a core: what is shuffled are aggregates, or the few rows of differing blocks.
_SHUFFLE_A_CORE: Final = 2

#: Holds a file of this package, which may lie in an archive, as long as Java may read it.
_STACK: Final = ExitStack()
atexit.register(_STACK.close)


def start(
    master: str, driver_memory: str = DRIVER_MEMORY, *, log: Path | None = None, quick: bool = False
) -> SparkSession:
    """Start a quiet session without a web page.

    Args:
        master: ``local[*]``, ``local[2]`` or a cluster's address.
        driver_memory: as Java writes it (``2g``); for a local master this is all the memory there is.
        log: the file to which goes what Java and the workers write; None: to stderr.
        quick: whether evidence of some million records at most is expected.

    Raises:
        EvidenceError: when no Java is found or the session does not start.
    """
    local = master.startswith("local")
    # Spark would take python3 from the PATH, which need not have pyarrow. A cluster's nodes may have theirs
    # at another place than this machine: then PYSPARK_PYTHON says where.
    if local or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    logging_to = _STACK.enter_context(resources.as_file(resources.files(__package__) / "log4j2.properties"))
    options: dict[str, bool | float | int | str | None] = {
        "spark.master": master,
        "spark.app.name": "kedge audit",
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": " ".join(
            (f"-Dlog4j2.configurationFile={logging_to.as_uri()}", *_JAVA, *(_QUICK if quick else ()))
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # An audit has some 220 pieces of generated code; with the default, 100, another compiles all again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.sql.session.timeZone": "UTC",
        # Sums of hashes are meant to wrap.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.parquet.compression.codec": "zstd",
        # Writers flush as they go: a demo leaves hundreds of small files, and a task each would be too many.
        "spark.sql.files.openCostInBytes": str(256 << 10),
        # Hadoop would keep hidden checksums beside local files, and take a file that another tool wrote
        # again for a damaged one; Parquet's own footers say whether a file is whole.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        # What is written to S3 waits in memory then: Hadoop keeps it in no local file without checksums.
        "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
        "spark.hadoop.fs.s3a.multipart.size": "16M",
    }
    if local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        options |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    if local and not master.startswith("local-"):
        # Its ports are open to this machine's other users. Spark makes up the secret; a cluster has its own.
        options["spark.authenticate"] = "true"
    try:
        if log is not None and SparkContext._gateway is None:
            log.write_bytes(b"")
            # To its end: whoever broke off adds to it what Java does not know.
            with log.open("ab") as file:
                conf = SparkConf(loadDefaults=False).setAll(
                    [(key, str(value)) for key, value in options.items()]
                )
                gateway = launch_gateway(conf, {"stderr": file})  # type: ignore[no-untyped-call]
                SparkContext._ensure_initialized(gateway=gateway)
        spark = SparkSession.builder.config(map=options).getOrCreate()
    except Exception as error:
        raise EvidenceError(
            f"Spark did not start on {master}: {type(error).__name__}; is Java 17 installed, the master up?"
        ) from error
    spread(spark)
    # Errors come as exceptions; the same again as JSON on stderr helps nobody.
    logging.getLogger("DataFrameQueryContextLogger").disabled = True
    return spark


def ship(*modules: str) -> None:
    """Give workers these modules by value: a cluster's nodes need numpy and pyarrow, not this package."""
    for name in modules:
        cloudpickle.register_pickle_by_value(import_module(name))  # type: ignore[no-untyped-call]  # vendored


def alive(spark: SparkSession) -> bool:
    """Return whether the session's Java still answers."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False


def stop(spark: SparkSession) -> None:
    """End a session; one whose Java ended by itself is forgotten, so that the next start makes another."""
    try:
        spark.stop()
    except (Py4JError, OSError):
        # Nothing answers any more, and a start would take up what refers to it.
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def spread(spark: SparkSession) -> None:
    """Have what is shuffled spread over the cores there are; a cluster's join after the session's start."""
    cores = spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(_SHUFFLE_A_CORE * cores))
