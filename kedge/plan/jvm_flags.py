"""Flags of Java: the collectors of REST proxies and of all other services, heaps, logging of pauses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kedge.plan.findings import WITH_INVENTORY
from kedge.plan.settings import MIB, Choice, Sheet

#: Which release of Java what of Kafka starts on.
JAVA_FACTS: Final = "broker, client and JVM facts, Java"
#: Brokers, mirrors and Streams: what kafka-run-class.sh of Kafka 4.3 sets when nothing else is said.
KAFKA_G1: Final = (
    "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 -Djava.awt.headless=true"
)
#: REST proxies: what kafka-rest-run-class sets when nothing else is said.
REST_START: Final = KAFKA_G1.replace("-XX:MaxInlineLevel=15 ", "")
#: REST proxies: the guide's section JVM, without the heap.
REST_G1: Final = (
    "-XX:MetaspaceSize=96m -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:G1HeapRegionSize=16M -XX:MinMetaspaceFreeRatio=50 -XX:MaxMetaspaceFreeRatio=80"
)

#: What a heap that grows begins with. A proxy with few consumers has about 28 MiB live: less than 35 percent
#: of it, at which G1 begins to mark. Of 64 MiB it is more, and G1 marked every 3 s ("A heap that grows").
GROWS_FROM_MIB: Final = 96


#: What heaps grew by when that was measured, with the collectors of the start script and of the plan.
_GROWING: Final = {"-XX:+UseG1GC", "-XX:InitiatingHeapOccupancyPercent=35"}


def grows_as_measured(flags: str) -> bool:
    """Return whether a collector is as that of the start script, or of the plan, with which heaps grew."""
    own, known = ({word for word in text.split() if word.startswith("-XX:")}
                  for text in (flags, f"{REST_START} {REST_G1}"))  # fmt: skip
    return _GROWING <= own <= known - {"-XX:G1HeapRegionSize=16M"}


def heap(mib: int) -> str:
    """Return the heap flags: fixed size, so that the heap never waits for memory while it grows."""
    return f"-Xms{mib}m -Xmx{mib}m"


def growing_heap(mib: int, *, slowly: bool) -> str:
    """Return the flags of a heap that takes memory only as load asks for it.

    G1 lets it grow when collections take more than 1/(1+GCTimeRatio) of the time, and sooner while it is
    below half of -Xmx, by a fifth of what is left of that (OpenJDK, G1HeapSizingPolicy). With G1's own ratio
    of 12, and with 6, the start of a JVM on busy cores made it grow already: ``slowly`` has one of 2. Marking
    beside the process counts in no ratio, and a heap that stays small may be marked again and again: take
    ``slowly`` only where live data stays small.
    """
    ratio = " -XX:GCTimeRatio=2" if slowly else ""
    return f"-Xms{GROWS_FROM_MIB}m -Xmx{mib}m{ratio}"


_LEAST_SHARE_MIB: Final = 126
#: A heap as a share of the memory that a JVM sees: that of its host, or of its container.
SHARE: Final = re.compile(r"-XX:MaxRAMPercentage=(\d{1,3}(?:\.\d+)?)(?![\d.])")


def maximum_heap_mib(flags: str, memory_mib: int | None = None) -> int | None:
    """Read the largest heap out of JVM flags, in MiB; None where they set none.

    ``memory_mib`` is the memory that the JVM sees, of which they may set a share; -Xmx wins over that.
    """
    if (found := _size_mib("-Xmx", flags)) is not None:
        return int(found)
    share = SHARE.findall(flags)
    return int(memory_mib * float(share[-1]) / 100) if share and memory_mib else None


def share_mib(memory_mib: int, percent: float = 25) -> int:
    """Return the largest heap, in MiB, of a JVM that is given none, or a share of the memory that it sees.

    Of a small memory it takes half: below 126 MiB, the heap that it has at least (asked of Java 17 and 25).
    """
    half = memory_mib // 2
    return half if half < _LEAST_SHARE_MIB else max(_LEAST_SHARE_MIB, int(memory_mib * percent / 100))


def _size_mib(flag: str, flags: str) -> float | None:
    found = re.findall(rf"{flag}(\d+)([kmgt]?)\b", flags, re.IGNORECASE)
    if not found:
        return None
    size, unit = found[-1]  # the last one counts
    return int(size) * {"": 1 / MIB, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}[unit.lower()]


#: What Java 17 refuses to start with ("Unrecognized VM option", asked of 17.0.15): collectors that went with
#: 14, the permanent generation of 7, and logging that went with 9.
_GONE: Final = re.compile(
    r"-XX:[+-]?(?:CMS\w+|UseConcMarkSweepGC|UseParNewGC|UseParallelOldGC|UseCMS\w+|ParallelCMSThreads|AggressiveOpts"
    r"|(?:Max)?PermSize|PrintGC(?:Date|Time)Stamps|PrintGCApplication\w+|PrintHeapAtGC|PrintTenuringDistribution"
    r"|PrintAdaptiveSizePolicy|PrintReferenceGC|PrintPromotionFailure|UseGCLogFileRotation|NumberOfGCLogFiles"
    r"|GCLogFileSize|UseCGroupMemoryLimitForHeap|UseFastAccessorMethods|TraceClassLoading|G1SummarizeRSetStats)"
    r"(?:=\S+)?(?!\w)|(?<!\S)-(?:d32|d64|Xincgc)(?!\S)"
)
_GONE_SINCE: Final = 17


def check_flags(sheet: Sheet, keys: Iterable[str], least: int, planned: int | None, what: str) -> None:
    """Find flags that the JVM refuses.

    ``least`` is the least release of Java on which ``what`` runs, ``planned`` that of its host by the
    inventory: files of a person do not say which Java runs.
    """
    own = {s.key: s.value for s in sheet.settings if s.by == "person" and s.key in keys}
    for key, flags in own.items():
        begins, most = _size_mib("-Xms", flags), _size_mib("-Xmx", flags)
        if begins is not None and most is not None and begins > most:
            sheet.error(
                "java.flags",
                f"{key} has a heap of {begins:g} MiB at first and {most:g} at most: Java refuses to "
                "start with it",
                f"write the same size as -Xms and as -Xmx, such as {heap(int(begins))}",
                key,
            )
    release = max(least, planned or 0) if sheet.reader is WITH_INVENTORY else least
    if release < _GONE_SINCE:
        return
    for key, flags in own.items():
        if gone := _GONE.findall(flags):
            sheet.error(
                "java.flags",
                f"{key} has {', '.join(gone)}, and {what} runs on Java {release} or later, which refuses to "
                "start with it",
                f"take {', '.join(gone)} out of {key}; -Xlog:gc* logs pauses, and G1 is the collector",
                key,
            )


def gc_log(folder: str, release: int | None) -> str:
    """Return the flags that write every pause to ``gc.log``, bounded to 5 files of 20 MB.

    Java 8 has no unified logging, which came with 9 (JEP 158), and 9 has lost 8's flags of rotation. Where
    the release is not known (None), it is the one flag that all take, without a bound.
    """
    if release is None:
        return f"-Xloggc:{folder}/gc.log"
    if release < 9:
        return (
            f"-Xloggc:{folder}/gc.log -XX:+PrintGCDetails -XX:+PrintGCDateStamps -XX:+UseGCLogFileRotation "
            "-XX:NumberOfGCLogFiles=5 -XX:GCLogFileSize=20M"
        )
    return f"-Xlog:gc*:file={folder}/gc.log:time,uptime,level,tags:filecount=5,filesize=20M"


def console_logging(sheet: Sheet, file: str, subject: str) -> None:
    """Plan a log4j 2 configuration that writes warnings and the service's own news to the journal."""
    because = "the journal keeps, rotates and bounds what a service prints"
    source = "log4j 2 manual, Properties configuration"
    for key, value in (
        ("rootLogger.level", "INFO"),
        ("rootLogger.appenderRef.stdout.ref", "STDOUT"),
        ("appender.console.type", "Console"),
        ("appender.console.name", "STDOUT"),
        ("appender.console.layout.type", "PatternLayout"),
        ("appender.console.layout.pattern", "%p %c{1}: %m%n"),
    ):
        sheet.put(file, key, f"{subject}.logging", Choice(value, because, source, "derived"))
