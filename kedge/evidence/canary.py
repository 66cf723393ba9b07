"""A canary's files: what it is to do, its windows (window.json) and their verdicts (verdict.json)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kedge.evidence.files import replace_text
from kedge.evidence.load_options import LoadSpec
from kedge.evidence.printable import plain

#: Topics and groups come in turns, so that a window begins before the one before it is read to its end.
TURNS: Final = 2
#: The names of their topics and groups, as :func:`own_name` makes them.
OWN: Final = re.compile(r"kedge-canary-.+-(kafka|rest)-\d+")
WINDOWS: Final = "windows"
_WINDOW: Final = "window.json"
_VERDICT: Final = "verdict.json"
#: In the folder of all canaries of a host; as many at a time.
_PAUSE: Final = "pause.json"
_PAUSES: Final = 20
_SPAN: Final = re.compile(r"([1-9]\d{0,4})([smh])", re.ASCII)
#: A pause that nobody ends would hide a fault for as long.
_LONGEST_S: Final = 12 * 3600

WindowState = Literal["running", "closed", "broken", "hole"]
WindowVerdict = Literal["pass", "fail", "unknown", "measured"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CanaryError(Exception):
    """Something that the person has to mend; its text is one line."""


class CanaryConfig(_Model):
    """What a canary is to do, of the folder of its configuration.

    canary.yaml has the numbers; loads.json the ``loads`` of its turns (load.json each) and levels. ``levels``
    hold for a window with a planned change; ``steady`` are laid over them for all others.
    """

    name: str
    window_s: float = Field(gt=0)
    keep_windows: int = Field(gt=0)
    keep_mib: float = Field(gt=0)
    scrape_address: str
    scrape_port: int
    loads: list[LoadSpec] = Field(min_length=TURNS, max_length=TURNS)
    levels: dict[str, Any] = {}
    steady: dict[str, Any] = {}


class Window(_Model):
    """A stretch of a canary's time; times in microseconds since the epoch.

    One that is ``closed`` has whole evidence; ``why`` says what is wrong with a broken one. Nothing was sent
    in a ``hole``. ``planned`` are the changes that somebody announced.
    """

    run_id: str
    state: WindowState = "running"
    began_us: int
    ended_us: int | None = None
    why: str = ""
    planned: list[str] = []


class WindowResult(_Model):
    """What is known of a window: by the audit's checks, or why it was not audited.

    Where its topics could not be read, the audit looks again at ``again_us``, while evidence is there.
    """

    window: Window
    verdict: WindowVerdict
    because: list[str] = []
    anomalies: dict[str, int] = {}
    figures: list[dict[str, Any]] = []
    audited_us: int
    audit_s: float = 0
    tries: int = 1
    again_us: int | None = None


def own_name(host: str, way: Literal["kafka", "rest"], turn: int) -> str:
    """Return the topic of a turn, which is the name of its group as well; nothing else may use it."""
    return f"kedge-canary-{host}-{way}-{turn}"


def read_config(folder: Path) -> CanaryConfig:
    """Read canary.yaml and loads.json of a folder; raises CanaryError."""
    try:
        numbers = yaml.safe_load((folder / "canary.yaml").read_text(encoding="utf-8"))
        loads = json.loads((folder / "loads.json").read_text(encoding="utf-8"))
        return CanaryConfig.model_validate({**numbers, **loads})
    except OSError as error:
        raise CanaryError(
            f"{error.filename} cannot be read: {error.strerror}; deploy.yml writes it"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise CanaryError(f"{folder}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise CanaryError(f"{folder}: canary.yaml or loads.json is broken: {error}") from None


def folders(home: Path) -> list[Path]:
    """Return the windows' folders, the oldest first: their names begin with their time."""
    return sorted(folder for folder in (home / WINDOWS).glob("[!.]*") if folder.is_dir())


def write_window(folder: Path, window: Window) -> None:
    """Replace window.json at once; raises OSError."""
    replace_text(folder / _WINDOW, window.model_dump_json(indent=1) + "\n")


def read_window(folder: Path) -> Window | None:
    """Return what a window says of itself; None where it says nothing that is whole."""
    try:
        return Window.model_validate_json((folder / _WINDOW).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def write_result(folder: Path, result: WindowResult) -> None:
    """Replace verdict.json at once; raises OSError."""
    replace_text(folder / _VERDICT, result.model_dump_json(indent=1) + "\n")


def read_result(folder: Path) -> WindowResult | None:
    """Return what became of a window; None where it was not audited."""
    try:
        return WindowResult.model_validate_json((folder / _VERDICT).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def thresholds(levels: Mapping[str, Any], kind: Literal["ack", "delivery"]) -> list[float]:
    """Return the seconds of each latency level of a kind, of which a histogram needs a bound."""
    parts = (levels.get("latency") or {}).values()
    found = {
        ms / 1e3 for part in parts for key, ms in (part or {}).items() if key.startswith(f"{kind}_") and ms
    }
    return sorted(found)


def announced(leases: Path, home: Path, now_us: int) -> Iterator[str]:
    """Yield the changes that are going on: runs that hold a lease on this host, and pauses by hand.

    A file that cannot be read announces nothing: a window is judged by the strict levels then.
    """
    for lease in _entries(leases, "leases"):
        if float(lease.get("until", 0)) * 1e6 > now_us:
            yield str(lease.get("run", {}).get("playbook", "a playbook"))
    for pause in _entries(home.parent / _PAUSE, "pauses"):
        if float(pause.get("from_us", 0)) <= now_us < float(pause.get("until_us", 0)):
            yield f"pause: {pause.get('why') or 'by hand'}"


def announce(folder: Path, span: str, why: str, now_us: int) -> tuple[int, bool]:
    """Announce a change to the canaries of a host, beside what is announced there; the folder is of them all.

    Returns:
        Until when a change is announced (us), and whether it was so before.

    Raises:
        CanaryError: for a span that is none.
        OSError: when it cannot be written.
    """
    file, until_us = folder / _PAUSE, now_us + seconds_of(span) * 1_000_000
    others = [one for one in _entries(file, "pauses") if float(one.get("until_us", 0)) > now_us]
    others = sorted(others, key=lambda one: float(one["until_us"]))[1 - _PAUSES :]
    own = {"from_us": now_us, "until_us": until_us, "why": plain(why)[:200]}
    replace_text(file, json.dumps({"pauses": [*others, own]}) + "\n")
    file.chmod(0o644)
    last = max([until_us, *(int(one["until_us"]) for one in others)])
    return last, last > until_us


def seconds_of(span: str) -> int:
    """Return the seconds of 90s, 20m or 2h; raises CanaryError for anything else, and for more than 12 h."""
    match = _SPAN.fullmatch(span)
    seconds = int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else 0
    if not 0 < seconds <= _LONGEST_S:
        raise CanaryError(f"--for {plain(span)!r}: write 90s, 20m or 2h, 12h at most. Nothing was announced")
    return seconds


def _entries(path: Path, key: str) -> Sequence[Mapping[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))[key]
        rows = list(found.values()) if isinstance(found, dict) else list(found)
        return [row for row in rows if isinstance(row, dict)]
    except (OSError, ValueError, LookupError, TypeError):
        return []
