"""Real MirrorMaker processes for tests and benches: classic, and MirrorMaker 2 in dedicated mode."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kedge.setup.paths import jar_folder

#: The last release that has classic MirrorMaker, and one that has MirrorMaker 2.
CLASSIC_JARS: Final = "kafka-3.9.2"
MM2_JARS: Final = "kafka-4.3.1"
_LOG4J1: Final = """log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%p %c{1}: %m%n
log4j.logger.kafka.tools.MirrorMaker$=TRACE
"""


def has_jars(name: str) -> bool:
    """Return whether a jar set is cached."""
    return any(jar_folder(name).glob("kafka-clients-*.jar"))


def write_properties(path: Path, values: Mapping[str, object]) -> Path:
    """Write a properties file and return it; keys and values hold nothing that would have to be escaped."""
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")
    return path


def start_classic(
    folder: Path,
    include: str,
    consumer: Mapping[str, object],
    producer: Mapping[str, object],
    heap_mib: int = 256,
    arguments: Iterable[str] = (),
    options: Iterable[str] = (),
) -> subprocess.Popen[bytes]:
    """Start a classic process; its files and its output (``log``) lie in ``folder``, which it makes.

    ``arguments`` are more of the tool's own, such as ``--offset.commit.interval.ms 5000``; ``options`` are
    more flags of its JVM.
    """
    folder.mkdir(parents=True, exist_ok=True)
    logging = folder / "log4j.properties"
    logging.write_text(_LOG4J1, encoding="utf-8")
    command = [
        "java",
        f"-Xmx{heap_mib}m",
        f"-Dlog4j.configuration=file:{logging}",
        *options,
        "-cp",
        f"{jar_folder(CLASSIC_JARS)}/*",
        "kafka.tools.MirrorMaker",
        "--consumer.config",
        str(write_properties(folder / "consumer.properties", consumer)),
        "--producer.config",
        str(write_properties(folder / "producer.properties", producer)),
        "--include",
        include,
        *arguments,
    ]
    return _start(folder, command)


def start_mm2(
    folder: Path,
    properties: Mapping[str, object],
    target: str,
    heap_mib: int = 384,
    options: Iterable[str] = (),
) -> subprocess.Popen[bytes]:
    """Start a worker of MirrorMaker 2 for the flows to one target; files as :func:`start_classic`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = write_properties(folder / "mm2.properties", properties)
    command = ["java", f"-Xmx{heap_mib}m", *options, "-cp", f"{jar_folder(MM2_JARS)}/*"]
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    return _start(folder, [*command, main, str(file), "--clusters", target])


def _start(folder: Path, command: list[str]) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        environment = {**os.environ, "LOG_DIR": str(folder)}
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
