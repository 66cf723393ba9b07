"""The JVM flags of a REST proxy: its collector, the buffers that it keeps, and what its own options need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kedge.plan import jvm_flags
from kedge.plan.settings import Choice, Sheet
from kedge.services.rest.memory import ProcessWorkload, cached_buffers
from kedge.services.rest.source_names import GUIDE, MEASURED, REAL

_REGIONS: Final = 2048  # G1 aims at about this many regions; OpenJDK, G1 ergonomics
_GUIDE_REGION_MIB: Final = 16


def collectors(heap_mib: int, logs: str, load: ProcessWorkload, release: int | None) -> tuple[Choice, Choice]:
    """Return the flags of the collector, of buffers and of its log, the guide's and the measured ones."""
    flags, source = (
        f"{jvm_flags.REST_G1} {jvm_flags.gc_log(logs, release)}",
        f"{MEASURED}, Garbage collectors",
    )
    documented = Choice(flags, "the G1 flags of the guide", f"{GUIDE}, JVM", "documented")
    measured = documented
    if heap_mib < _REGIONS * _GUIDE_REGION_MIB:
        regions = heap_mib // _GUIDE_REGION_MIB
        measured = Choice(
            flags.replace(f"-XX:G1HeapRegionSize={_GUIDE_REGION_MIB}M ", ""),
            f"the guide's G1 flags without the region size: regions of {_GUIDE_REGION_MIB} MiB would leave "
            f"{regions} of the {_REGIONS} that G1 aims at, for 65 to 80 percent more pauses; without it, "
            "records/s were 1.1 times as many, within the spread",
            f"{source}; {REAL}, The advice on a fleet",
            "measured",
        )
    buffers = cached_buffers(load)
    if buffers is not None:
        because = f"{measured.because}; {buffers.because}"
        measured = Choice(
            f"{measured.value} {buffers.value}", because, f"{source}; {buffers.source}", "measured"
        )
    return documented, measured


def put_options(sheet: Sheet, file: str, key: str, flags: Sequence[tuple[str, str]]) -> None:
    """Plan a variable of further JVM flags, each with its reason; a person's own value needs them too."""
    if not flags:
        return
    check_options(sheet, key, flags)
    because = "; ".join(because for _, because in flags)
    value = " ".join(flag for flag, _ in flags)
    sheet.put(file, key, "rest.options", Choice(value, because, "kafka-rest-run-class", "derived"))


def check_options(sheet: Sheet, key: str, flags: Sequence[tuple[str, str]]) -> None:
    """Find JVM flags that a person's own value of their variable leaves out."""
    own = sheet.own(key)
    for flag, because in flags:
        if own is not None and flag not in own:
            sheet.error(
                "rest.options",
                f"{key} is set{sheet.inside}, and leaves out {flag.partition('=')[0]}: {because}",
                f"add {flag} to it, or take {key} out",
                key,
            )
