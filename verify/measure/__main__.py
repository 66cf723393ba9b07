"""`kedge measure --inventory INV [--cluster C]`: what one partition takes and gives, here.

Produces to and consumes from temporary topics of 1, 2, 4 and 8 partitions as fast as the cluster goes,
some times each, and sums up what came of it. Leaves runs/<run id>/ with the evidence and a report; from
the report's recommendations.yml the plan knows how many partitions a target needs. The load is heavy: it
takes what the cluster has for as long as it runs. Ctrl-C ends it, and the temporary topic is removed.

Exit 0 when it was measured, 1 when a target cannot be reached or the measurement says too little, 2 when
something has to be mended first, 128 + signal when told to end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from kedge.evidence.command_line import described
from verify.addresses import ClusterAccess, PlaceError, add_arguments, chosen
from verify.measure.config import MeasureError, Measurement
from verify.measure.rounds import InterruptedMeasureError, measure
from verify.measure.summary import show, summarize
from verify.process import Ending, leave


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; return the exit status."""
    options = _parser().parse_args(arguments)
    console, errors = Console(), Console(stderr=True)
    ending = Ending()
    try:
        place = chosen(options)
        asked = _asked(options, place)
        targets = targets_of(options.targets, place)
        run_dir = options.runs / asked.run_id
        _announce(errors, asked, run_dir)
        measure(
            asked, run_dir, place.brokers, targets, ending, lambda line: errors.print(line, highlight=False)
        )
    except (MeasureError, PlaceError) as error:
        said = f"error: {error}. Nothing was reported. Fix that, then run this again"
        errors.print(said, style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    except InterruptedMeasureError as error:
        errors.print(str(error), highlight=False)
        return 128 + ending.signal
    summary = summarize(run_dir, options.out)
    show(console, summary, run_dir, options.out)
    return 0 if summary.verdict in ("pass", "measured") else 1


def _announce(errors: Console, asked: Measurement, run_dir: Path) -> None:
    rounds = len(asked.partitions) * asked.repetitions
    seconds = rounds * 2 * (asked.warm_up_s + asked.seconds + 1)
    errors.print(
        f"measuring cluster {asked.cluster} at full load for about {seconds:.0f} s: {asked.record_bytes} "
        "bytes, "
        f"{asked.codec}, acks={asked.acks}, {asked.replication} copies; {run_dir}",
        highlight=False,
        soft_wrap=True,
    )


def _asked(options: argparse.Namespace, place: ClusterAccess) -> Measurement:
    try:
        return Measurement(
            run_id=f"measure-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}",
            cluster=place.cluster,
            bootstrap_servers=place.bootstrap_servers,
            client=dict(place.client),
            record_bytes=options.record_bytes,
            codec=options.codec,
            acks=options.acks,
            replication=options.replication,
            partitions=tuple(sorted({1, *options.partitions})),
            repetitions=options.repetitions,
            seconds=options.seconds,
            warm_up_s=options.warm_up,
            clients=options.clients,
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = "-".join(str(part) for part in first["loc"][:1]).replace("_", "-")
        raise MeasureError(f"--{where}: {first['msg']}, not {first['input']!r}") from error


def targets_of(given: Sequence[str], place: ClusterAccess) -> list[dict[str, Any]]:
    """Return the targets to hold the measurement against: ``TOPIC=MB_PER_S`` words, and the plan's own.

    Raises MeasureError for a word that is none.
    """
    targets = [dict(target) for target in place.targets]
    for word in given:
        name, _, rate = word.partition("=")
        try:
            targets.append({"topic": name, "target_mb_per_s": float(rate), "growth": 1.0, "partitions": None})
        except ValueError:
            raise MeasureError(f"--target {word}: write TOPIC=MB_PER_S, such as orders=40") from None
    return targets


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kedge measure",
        description=described(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, "an Ansible inventory; its brokers are watched too", "instead of an inventory")
    parser.add_argument(
        "--record-bytes", type=int, default=1000, help="size of a record's value (default 1000)"
    )
    parser.add_argument("--codec", default="none", help="none, gzip, snappy, lz4 or zstd (default none)")
    parser.add_argument("--acks", default="all", help="0, 1 or all (default all)")
    parser.add_argument("--replication", type=int, default=1, help="copies of each partition (default 1)")
    parser.add_argument(
        "--partitions", type=_counts, default=(1, 2, 4, 8), help="points of the curve (default 1,2,4,8)"
    )
    parser.add_argument("--repetitions", type=int, default=3, help="of each point (default 3)")
    parser.add_argument("--seconds", type=float, default=4, help="measured, each time (default 4)")
    parser.add_argument("--warm-up", type=float, default=1, help="seconds dropped before that (default 1)")
    parser.add_argument(
        "--clients", type=int, default=1, help="producers, and then consumers, at once (default 1)"
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        dest="targets",
        metavar="TOPIC=MB_PER_S",
        help="beside the plan's",
    )
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), help="where the run's folder goes (default runs)"
    )
    parser.add_argument(
        "--out", type=Path, help="where report/recommendations.yml is copied to (default: nowhere)"
    )
    return parser


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


if __name__ == "__main__":
    leave(main())
