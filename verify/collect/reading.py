"""One command that reads all that is wanted of a host, and what its output says. Pure: text in, text out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from kedge.evidence.border.host_output import LOG_BYTES
from kedge.evidence.secrets import looks_secret

_FILE: Final = "@@kedge file "
_GC: Final = "@@kedge gc "
_SAMPLES: Final = "@@kedge samples "
_MISSING: Final = "@@kedge missing"
#: Stands before each line that is a file's: what a service writes into its log is no marker.
_OF_A_FILE: Final = " "
_SHOWN: Final = f"sed 's/^/{_OF_A_FILE}/'"
#: Services whose "instance" is the host itself; their values are the kernel's, not a file's.
_NOT_READ: Final = frozenset({"host_tuning"})
_GC_FLAG: Final = re.compile(r"-Xlog:gc[^ :]*:file=([^:\s]+)")


@dataclass(frozen=True)
class Wanted:
    """A planned setting of an instance."""

    host: str
    service: str
    instance: str
    file: str
    key: str
    planned: str
    secret: bool


@dataclass(frozen=True)
class GcLog:
    """Where an instance writes the pauses of its collector; older files have a number after the name."""

    host: str
    service: str
    instance: str
    path: str


@dataclass(frozen=True)
class SampleLog:
    """Where a Streams application tells of its memory, and whether its stores share one cache."""

    host: str
    service: str
    instance: str
    path: str
    shared_cache: bool


def wanted_settings(plan: Mapping[str, Any]) -> list[Wanted]:
    """Return the planned settings that can be compared: those in files of ``key=value`` lines."""
    return [
        Wanted(
            host,
            service,
            str(instance["name"]),
            setting["file"],
            setting["key"],
            str(setting["value"]),
            bool(setting.get("secret")) or looks_secret(setting["key"]),
        )
        for host, service, instance in _instances(plan)
        for setting in instance["settings"]
        if _has_pairs(setting["file"])
    ]


def gc_logs(plan: Mapping[str, Any]) -> list[GcLog]:
    """Return the GC logs that planned JVM flags name."""
    return [
        GcLog(host, service, str(instance["name"]), match[1])
        for host, service, instance in _instances(plan)
        for setting in instance["settings"]
        if (match := _GC_FLAG.search(str(setting["value"])))
    ]


def sample_logs(plan: Mapping[str, Any]) -> list[SampleLog]:
    """Return the files into which planned Streams applications tell of their memory."""
    found = []
    for host, service, instance in _instances(plan):
        values = {setting["key"]: str(setting["value"]) for setting in instance["settings"]}
        if path := values.get("KEDGE_SAMPLES_FILE"):
            # The bounded class gives all stores one cache, each of which then tells of the whole.
            found.append(SampleLog(host, service, str(instance["name"]), path, "cache.bytes" in values))
    return found


def _instances(plan: Mapping[str, Any]) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    for host, part in plan["hosts"].items():
        for service, of_service in part["services"].items():
            if service not in _NOT_READ:
                for instance in of_service["instances"]:
                    yield host, service, instance


def _has_pairs(file: str) -> bool:
    path = PurePosixPath(file)
    if path.name == "jaas.conf":  # sections with entries
        return False
    return path.suffix in (".properties", ".conf") or path.name == "environment"


def read_command(files: Sequence[str], logs: Sequence[str], samples: Sequence[str] = ()) -> str:
    """Return one shell command that prints these files, the pauses in these GC logs, and these samples."""
    parts = []
    for file in files:
        name = shlex.quote(file)
        # A last line may lack its end: the echo after it keeps the next marker apart.
        parts.append(
            f"echo {shlex.quote(_FILE + file)}; "
            f"if [ -f {name} ]; then head -c {LOG_BYTES} {name} | {_SHOWN}; echo; "
            f"else echo {shlex.quote(_MISSING)}; fi"
        )
    parts += [
        _of_service(_GC + log, f"{shlex.quote(log)}*", "| grep -aE 'Pause .*ms$'", empty="") for log in logs
    ]
    # Between two files of samples there is a moment with the older one alone.
    parts += [
        _of_service(_SAMPLES + log, f"{shlex.quote(f'{log}.1')} {shlex.quote(log)}", "", empty="; echo")
        for log in samples
    ]
    return "; ".join([*parts, "true"])


def _of_service(marker: str, names: str, sift: str, empty: str) -> str:
    """Return what prints the ends of files in a folder of a service's own, which may put anything there.

    This reads as root: no link is followed, and nothing but a file is read. A file may be something else by
    the time that it is opened, so dd looks at what it opens.
    """
    end = f'size=$(stat -c %s "$f" || echo 0); skip=$((size > {LOG_BYTES} ? size - {LOG_BYTES} : 0)); '
    read = (
        f'dd if="$f" bs=64K skip=$skip count={LOG_BYTES} status=none '
        "iflag=nofollow,nonblock,skip_bytes,count_bytes 2>/dev/null"
    )
    return (
        f"echo {shlex.quote(marker)}; found=; for f in {names}; do "
        f'if [ -f "$f" ] && [ ! -L "$f" ]; then found=1; {end}'
        f"{read} {sift} | {_SHOWN}{empty}; fi; done; "
        f'[ "$found" ] || echo {shlex.quote(_MISSING)}'
    )


@dataclass(frozen=True)
class HostFiles:
    """What a host printed: the lines of each file, GC log and file of samples, without empty ones.

    None: it is not there.
    """

    files: Mapping[str, list[str] | None]
    logs: Mapping[str, list[str] | None]
    samples: Mapping[str, list[str] | None] = field(default_factory=dict)


def read_output(lines: Iterable[str]) -> HostFiles:
    """Take apart the output of :func:`read_command`."""
    files: dict[str, list[str] | None] = {}
    logs: dict[str, list[str] | None] = {}
    samples: dict[str, list[str] | None] = {}
    markers = {_FILE: files, _GC: logs, _SAMPLES: samples}
    into, name = files, ""
    for line in lines:
        marker = next((mark for mark in markers if line.startswith(mark)), None)
        if marker is not None:
            into, name = markers[marker], line.removeprefix(marker)
            into[name] = []
        elif line == _MISSING:
            into[name] = None
        elif len(line) > 1 and line.startswith(_OF_A_FILE) and (known := into.get(name)) is not None:
            known.append(line.removeprefix(_OF_A_FILE))
    return HostFiles(files, logs, samples)


def pairs(lines: Iterable[str]) -> dict[str, str]:
    """Return the pairs of a properties, environment or unit file; a later line wins, as it does there."""
    found = {}
    for line in lines:
        text = line.strip()
        if text and text[0] not in "#!;[" and "=" in text:
            key, _, value = text.partition("=")
            found[key.strip().replace("\\:", ":")] = _unquote(value.strip())
    return found


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return value


def settings_rows(wanted: Iterable[Wanted], reads: Mapping[str, HostFiles]) -> list[dict[str, Any]]:
    """Return rows of the settings table; ``running`` is None where it could not be read.

    A secret's value appears in neither column: that it is there is all that is told.
    """
    parsed = {
        (host, file): pairs(lines)
        for host, read in reads.items()
        for file, lines in read.files.items()
        if lines is not None
    }
    rows = []
    for each in wanted:
        running = parsed.get((each.host, each.file), {}).get(each.key)
        rows.append(
            {
                "host": each.host,
                "service": each.service,
                "instance": each.instance,
                "file": each.file,
                "key": each.key,
                "planned": "***" if each.secret else each.planned,
                "running": "***" if each.secret and running is not None else running,
            }
        )
    return rows
