"""Says what a deploy would change, as a person reads it. Pure: a module's answer in, lines out."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kedge.deploy.breaking_changes import notices
from kedge.deploy.release_rows import RowChange, changes, of_release, own_texts
from kedge.evidence.printable import plain_lines
from kedge.evidence.secrets import holds_secret, looks_secret, without_secrets
from kedge.plan.compact_names import fold

_COLUMNS = 100
#: As many values are named in a warning; plan.yml has all of them.
_GOING_BACK: Final = 8


def describe(
    answer: Mapping[str, Any],
    unit: str,
    instances: Sequence[Mapping[str, Any]],
    unknown: Iterable[str] = (),
    *,
    balanced: bool = False,
) -> dict[str, Any]:
    """Return what kedge_release answered in check mode, by instance.

    ``unknown`` names links whose targets are not known here. The result has ``instances``, name to ``state``
    (a key of ``_STATES``), ``lines``, ``keys`` whose values change, ``beside``, drop-ins of others, and
    ``added``, the files that are new;
    ``units``, lines for the service's unit files; ``stale``, names of instances that are no longer planned;
    ``unknown``; ``noticed``, what clients notice (``kedge.deploy.breaking_changes``), where ``balanced``
    says that balancers stand before the instances.
    """
    unknown = list(unknown)
    differences = {d["before_header"]: (d["before"], d["after"]) for d in answer.get("diff", [])}
    described = {}
    for instance, state in zip(instances, answer["instances"], strict=True):
        own = own_texts(answer, unit, instance)
        rows = changes(*of_release(state, unit, instance, own))
        lines = [
            line
            # A changed unit file is shown once, with the unit.
            for path, (before, after) in own.items()
            if path not in unknown and path != "unit.service"
            for line in (path, *indented(_file_lines(state, path, rows, before, after)))
        ]
        if state.get("predecessor"):
            held = "holds its port" if instance.get("port") else "runs"
            lines = [f"from {state['predecessor']}, which {held} now"]
        changed = set(own) - set(unknown)
        described[instance["name"]] = {
            "state": _state(state, changed, unknown),
            "lines": lines,
            "keys": [row.key for row in rows if row.valued],
            "beside": state.get("dropins", []),
            "added": [path for path, (before, _) in own.items() if not before],
        }
    units = [
        line
        for path, (before, after) in differences.items()
        if path.startswith("/etc/systemd/system/") and before
        for line in (path, *indented(text_lines(before, after)))
    ]
    noticed = [list(notice) for notice in notices(answer, unit, instances, balanced=balanced)]
    found = {"instances": described, "units": units, "stale": list(answer["stale"]), "unknown": unknown}
    return found | {"noticed": noticed}


def _state(state: Mapping[str, Any], changed: set[str], unknown: list[str]) -> str:
    if state.get("predecessor"):
        return "adopt"
    if state["current"] is None:
        return "new"
    if state.get("comments"):
        changed = set()
    if not state["active"]:
        return "off" if changed else "stopped"
    # The release in force is the planned one, and its files, or the links to its drop-ins, are not.
    if state.get("edited"):
        return "edited"
    if changed:
        return "differs" if state["pending"] else "extra"
    # With a link that is not known, the release's name says nothing.
    return "older" if state["pending"] and not unknown else "same"


def _file_lines(
    state: Mapping[str, Any], path: str, rows: Iterable[RowChange], before: str, after: str
) -> list[str]:
    """Return the lines of a file that changes: by its rows where they say it, otherwise its own."""
    # What somebody did on the host, and what a template has besides, no row says.
    unsaid = state.get("touched") and (state.get("same_rows") or state.get("rows") is not None)
    told = [] if unsaid else [row for row in rows if row.file == path]
    lines = row_lines(told)
    return lines if any(row.valued for row in told) else [*text_lines(before, after), *lines]


def row_lines(rows: Iterable[RowChange]) -> list[str]:
    """Return the lines of what changes, key by key, each value with its reason."""
    lines: list[str] = []
    reasons: list[str] = []
    for row in rows:
        if not row.valued:
            reasons.append(row.key)
            continue
        lines += [f"{sign}{row.key}={value}" for sign, value in _signed(row.was, row.now)]
        lines += indented(textwrap.wrap(row.reason, _COLUMNS - 12, break_on_hyphens=False), 4)
    if reasons:
        said = f"other reasons, same values: {', '.join(reasons)}"
        lines += textwrap.wrap(said, _COLUMNS - 8, break_on_hyphens=False)
    return lines


def text_lines(before: str, after: str) -> list[str]:
    """Return the lines of a text that change; of one that was rendered, not its reasons."""
    texts = [*map(without_secrets, (before, after))]
    rendered = "# Rendered from the plan" in before + after
    if rendered:
        lines = ([*map(str.strip, text.splitlines())] for text in hide_secrets(before, after))
        texts = ["\n".join(line for line in each if line and line[0] != "#") for each in lines]
    old, new = (text.splitlines() for text in texts)
    # A key of a rendered file says what it is without the lines around it.
    both = difflib.unified_diff(old, new, n=0 if rendered else 1, lineterm="")
    differing = [line for line in both if not line.startswith(("---", "+++", "@@"))]
    hidden = before.splitlines() != after.splitlines() and not rendered
    return differing or ["-***", "+***"] * hidden


def _signed(was: str | None, now: str | None) -> Iterator[tuple[str, str]]:
    values = _apart(was, now)
    # A list of flags that only grows or only shrinks has one line.
    if was is not None and values[0] != "...":
        yield "-", values[0]
    if now is not None and values[1] != "...":
        yield "+", values[1]


def _apart(was: str | None, is_: str | None) -> tuple[str, str]:
    """Return two values; of long lists of flags only what is not in both."""
    if was is None or is_ is None or min(len(was.split()), len(is_.split())) < 4:
        return was or "", is_ or ""
    old, new = was.strip('"').split(), is_.strip('"').split()
    less, more = ([w for w in a if w not in b] for a, b in ((old, new), (new, old)))
    return (" ".join([*less, "..."]), " ".join([*more, "..."])) if less or more else (was, is_)


def hide_secrets(before: str, after: str) -> tuple[str, str]:
    """Return two texts of a file without secrets and control characters; a change stays visible."""
    old = before.split("\n")
    keys = {line.partition("=")[0] for line in old}

    def masked(line: str, changed: str) -> str:
        key, equals, value = line.partition("=")
        if not equals or line.startswith("#") or not (looks_secret(key) or holds_secret(value)):
            return without_secrets(line)
        return f"{key}=***{changed if key in keys and line not in old else ''}"

    # What is there is the host's word, and goes to a terminal.
    return (
        plain_lines("\n".join(masked(line, "") for line in before.split("\n"))),
        plain_lines("\n".join(masked(line, " (another one)") for line in after.split("\n"))),
    )


def going_back(kit: str, newer: str, changed: Iterable[RowChange]) -> str:
    """Return the warning of a deploy by an older Kedge than the last, with the values that it changes.

    Args:
        kit: the version that deploys.
        newer: the version that deployed before.
        changed: what becomes of all instances.
    """
    values: dict[str, None] = {}
    for row in sorted(changed, key=lambda row: row.key):
        if row.valued:
            was, is_ = _apart(row.was, row.now)
            values[f"{row.key} from {was or 'unset'} to {is_ or 'unset'}"] = None
    shown = list(values)[:_GOING_BACK]
    more = f" and {len(values) - len(shown)} more" if len(values) > len(shown) else ""
    return (
        f"Kedge {kit} deploys what Kedge {newer} deployed before. It changes "
        f"{'; '.join(shown) or 'no value of this service'}{more}. Deploy with {newer} to keep what it chose; "
        f"plan.yml of {kit} shows all that would change"
    )


def indented(lines: Iterable[str], by: int = 2) -> Iterator[str]:
    """Return the lines further in."""
    return (f"{' ' * by}{line}" for line in lines)


_STATES = {
    "new": "not deployed yet; a deploy would start it",
    "adopt": "a deploy would take it over",
    "differs": "differs; a deploy would restart it",
    "off": "differs and does not run; a deploy would start it as planned",
    "edited": "was edited on the host; a deploy would put back what is planned, and keep a copy",
    "extra": "has files that are not Kedge's; a deploy would move them into a copy",
    "older": "runs an older release than the one in place; a deploy would restart it",
    "stopped": "does not run; a deploy would start it",
    "set": "differs; a deploy would set it",
    "same": "as planned",
}


def lines_of(
    compared: Mapping[str, Mapping[str, Any]], services: Sequence[str], why_not: Mapping[str, str]
) -> list[str]:
    """Return what is said of one host: a line an instance that is not as planned, with what differs in it.

    Args:
        compared: service to what ``describe`` returned, or ``{"lines": what differs}`` of a service that is
            no release, or ``{"unreachable": why}``, or ``{"failed": why}``.
        services: what is planned for the host.
        why_not: service to why no role compares it.
    """
    if why := next((c["unreachable"] for c in compared.values() if "unreachable" in c), None):
        return [f"cannot be reached: {why}"]
    if not services:
        return ["nothing is planned"]
    lines: list[str] = []
    for service, found in compared.items():
        lines += _service(service, found)
    reasons: dict[str, list[str]] = {}
    for service in services:
        if service not in compared:
            reasons.setdefault(why_not.get(service, "its role did not answer"), []).append(service)
    lines += [f"{', '.join(rest)}: not compared, for {why}" for why, rest in reasons.items()]
    in_short = "; ".join(lines)
    whole = len(in_short) < _COLUMNS - 20 and not any(line.startswith(" ") for line in lines)
    return [in_short] if whole else lines


def would_change(compared: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a deploy would change a host; arguments as of :func:`lines_of`."""
    return any(
        found.get("lines")
        or found.get("stale")
        or found.get("units")
        or any(one["state"] != "same" for one in found.get("instances", {}).values())
        for found in compared.values()
    )


def unknown_of(compared: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether something of a host could not be compared, so that nobody knows what would change."""
    return any("unreachable" in found or "failed" in found for found in compared.values())


def changes_line(changed: Sequence[str], unknown: Sequence[str]) -> str:
    """Return what would change and what is not known, as one line; empty where all is as planned."""
    parts = [f"a deploy would change {fold(changed)}"] if changed else []
    parts += [f"{fold(unknown)} could not be compared"] if unknown else []
    return "; ".join(parts)


def _service(service: str, found: Mapping[str, Any]) -> list[str]:
    if "failed" in found:
        return [f"{service}: cannot be compared: {found['failed']}"]
    if "lines" in found:
        if not found["lines"]:
            return [f"{service}: as planned"]
        return [f"{service}: differs; a deploy would change it", *indented(found["lines"])]
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, one in found["instances"].items():
        # The plan has every value of a new instance already.
        shown = () if one["state"] == "new" else tuple(_lines_of_instance(one))
        # Two instances that differ in the same but for their own names are one.
        own = tuple(re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "INSTANCE", line) for line in shown)
        alike.setdefault((one["state"], own), []).append(name)
    lines = []
    for (state, own), names in alike.items():
        alone = own and len(names) == 1
        told = _lines_of_instance(found["instances"][names[0]]) if alone else own
        lines += [f"{service}@{fold(names)}: {_STATES[state]}", *indented(told)]
    lines += [f"{service}@{name}: no longer planned; a deploy would stop it" for name in found["stale"]]
    if found["units"]:
        lines += [f"{service}: its unit differs", *indented(found["units"])]
    if found["unknown"]:
        lines.append(f"{service}: its software is not compared: it is not on this machine")
    return lines


def _lines_of_instance(one: Mapping[str, Any]) -> list[str]:
    """Return what differs, and what systemd reads besides."""
    return [
        *one["lines"],
        *(f"{path} is not Kedge's: it counts, and a deploy leaves it" for path in one.get("beside", ())),
    ]


def topic_lines(changes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what kafka_topics_present answered in check mode: a line a topic that would change."""
    lines = []
    for topic, what in changes.items():
        if "create" in what:
            said = ", ".join(f"{key}={value}" for key, value in what["create"].items())
            lines.append(f"topic {topic}: not there yet; a deploy would create it with {said}")
            continue
        lines.append(f"topic {topic}: differs; a deploy would set")
        rows = dict(what.get("set", {}))
        if "grow" in what:
            rows = {"partitions": what["grow"]} | rows
        for key, (was, is_) in rows.items():
            lines += [f"  -{key}={was}", f"  +{key}={is_}"]
    return lines
