"""`kedge watch-topic --inventory INV --cluster C --topic T`: how fast a topic grows, live.

Records/s and MB/s from end offsets, every --every seconds, until Ctrl-C or --samples. MB/s is records/s times
the size of some of the newest records (key and value, before compression), or what maprcli says of the bytes.
--append RUN writes the samples into that run's evidence, table end_offsets.

Exit 0 at the end, 2 when something has to be mended first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from kedge.evidence.command_line import described
from kedge.evidence.writing import EvidenceWriter
from verify.addresses import PlaceError, add_arguments, chosen
from verify.process import Ending, leave
from verify.watch.end_offsets import end_columns
from verify.watch.topic_growth import (
    KafkaTopic,
    MaprTopic,
    Rate,
    TopicReading,
    TopicSource,
    WatchError,
    rates,
    total,
)

_TICK_S: Final = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Watch until told to end; return the exit status."""
    options = _parser().parse_args(arguments)
    console, errors, ending = Console(), Console(stderr=True), Ending()
    try:
        with contextlib.ExitStack() as stack:
            cluster, source = _source(options)
            writer = _writer(options)
            if writer is not None:
                stack.callback(writer.close)
            live = (
                stack.enter_context(Live(console=console, auto_refresh=False))
                if console.is_terminal
                else None
            )
            _watch(options, cluster, source, writer, live, console, ending)
    except (WatchError, PlaceError) as error:
        said = f"error: {error}. Nothing was changed. Fix that, then run this again"
        errors.print(said, style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    return 0


def table(topic: str, found: Sequence[Rate], by_partition: bool) -> Table:
    """Return what is shown of one interval."""
    drawn = Table("partition", "records/s", "MB/s", title=topic)
    for rate in found if by_partition else ():
        drawn.add_row(str(rate.partition), _shown(rate.records_per_s, 0), _shown(rate.mb_per_s, 3))
    records, megabytes = total(list(found))
    drawn.add_row("all", _shown(records, 0), _shown(megabytes, 3))
    return drawn


def _watch(
    options: argparse.Namespace,
    cluster: str,
    source: TopicSource,
    writer: EvidenceWriter | None,
    live: Live | None,
    console: Console,
    ending: Ending,
) -> None:
    before, due, taken = source.read(), time.monotonic(), 0
    _append(writer, cluster, options.topic, before, None)
    while not ending and (options.samples is None or taken < options.samples):
        due += options.every
        while not ending and time.monotonic() < due:
            time.sleep(min(_TICK_S, max(0.0, due - time.monotonic())))
        if ending:
            return
        after = source.read()
        size = source.record_bytes(before, after)
        found = rates(before, after, size)
        _append(writer, cluster, options.topic, after, size)
        if live is not None:
            live.update(table(options.topic, found, options.by_partition), refresh=True)
        else:
            _lines(console, found, options.by_partition)
        before, taken = after, taken + 1


def _lines(console: Console, found: Sequence[Rate], by_partition: bool) -> None:
    """Print an interval for a file or a pipe: one line, and one for each partition if wanted."""
    at = time.strftime("%H:%M:%S")
    records, megabytes = total(list(found))
    for rate in found if by_partition else ():
        shown = f"{_shown(rate.records_per_s, 0)} records/s {_shown(rate.mb_per_s, 3)} MB/s"
        console.print(f"{at} partition {rate.partition}: {shown}", highlight=False)
    console.print(f"{at} {_shown(records, 0)} records/s {_shown(megabytes, 3)} MB/s", highlight=False)
    console.file.flush()


def _shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _append(
    writer: EvidenceWriter | None, cluster: str, topic: str, reading: TopicReading, size: float | None
) -> None:
    if writer is None:
        return
    ends = {(topic, partition): end for partition, end in sorted(reading.ends.items())}
    writer.append(end_columns(cluster, ends, reading.at_us, None if size is None else round(size)))


def _writer(options: argparse.Namespace) -> EvidenceWriter | None:
    if options.append is None:
        return None
    if not (options.append / "run.json").is_file() and not (options.append / "evidence").is_dir():
        raise WatchError(f"--append {options.append}: no run is there; give a folder such as runs/latest")
    return EvidenceWriter(options.append / "evidence", "end_offsets", f"watch-topic-{os.getpid()}")


def _source(options: argparse.Namespace) -> tuple[str, TopicSource]:
    if options.every <= 0:
        raise WatchError(f"--every {options.every:g}: say seconds above 0")
    if options.mapr:
        return options.cluster or "mapr", MaprTopic(options.topic, options.maprcli)
    place = chosen(options, "--mapr")
    return place.cluster, KafkaTopic(place.bootstrap_servers, place.client, options.topic)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kedge watch-topic",
        description=described(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--topic", required=True, help="of MapR: /path/of/stream:topic")
    add_arguments(parser, "an Ansible inventory", "instead of an inventory")
    parser.add_argument("--mapr", action="store_true", help="ask maprcli, on a machine that has it")
    parser.add_argument("--maprcli", default="maprcli", help="its path (default: on the PATH)")
    parser.add_argument("--by-partition", action="store_true", help="a line for each partition too")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between samples (default 1)")
    parser.add_argument("--samples", type=int, help="end after so many")
    parser.add_argument("--append", type=Path, metavar="RUN", help="a run's folder, such as runs/latest")
    return parser


if __name__ == "__main__":
    leave(main())
