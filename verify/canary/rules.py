"""Rules for Prometheus and a dashboard for Grafana, made of an inventory's canaries and its service levels.

Burn rates as in Google's SRE workbook (Alerting on SLOs): a page needs a long and a short window above the
same rate, so that it comes early and ends soon. A latency level is an objective by itself: a p99 of 100 ms
asks that 99 percent of the records take no longer; a record without an acknowledgement took longer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kedge.evidence.canary import CanaryError
from kedge.evidence.secrets import merged
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.yaml_files import InventoryError
from kedge.services.canary.loads import SERVICE
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES

RULES: Final = "kedge-canary.rules.yml"
DASHBOARD: Final = "kedge-canary.dashboard.json"
_BUDGET: Final = {"p50": 0.5, "p95": 0.05, "p99": 0.01, "p999": 0.001}
#: Times of the budget, the long and the short window, severity: SRE workbook, table 5-8.
_BURNS: Final = (
    (14.4, "1h", "5m", "page"),
    (6.0, "6h", "30m", "page"),
    (1.0, "3d", "6h", "ticket"),
)
#: Seconds without an answer before a person is told; while a change goes on, so many more.
_SILENT_S: Final = 20
_SILENT_PLANNED_S: Final = 180
#: Paths of REST instances that are sent to directly (rest-HOST:PORT).
_DIRECT: Final = "rest-.+"
_STEADY: Final = "unless on (cluster) kedge_canary_planned == 1"


@dataclass(frozen=True)
class CanaryOf:
    """A canary as its rules know it."""

    host: str
    cluster: str
    window_s: int
    levels: Mapping[str, Any]

    @property
    def command(self) -> str:
        """What a person runs to see what the audit knows."""
        return f"ssh {self.host} sudo -u canary /opt/kedge/canary show --home /var/lib/canary/{self.cluster}"


def run(inventory: Path, out: Path) -> int:
    """Write both files; return 0.

    Raises:
        CanaryError: when the inventory has no canary, or cannot be read or planned.
        OSError: when they cannot be written.
    """
    try:
        plan = make_plan(read_inventory(inventory, SERVICES))
    except InventoryError as error:
        raise CanaryError(str(error)) from None
    if plan.has_errors:
        raise CanaryError("the plan has errors: kedge plan shows them")
    found = [
        CanaryOf(
            host,
            one.name,
            int(one.value("window_s")),
            merged(dict(one.software["levels"]), dict(one.software["steady"])),  # type: ignore[call-overload]
        )
        for host, of_host in plan.services.items()
        for one in of_host.get(SERVICE, ())
    ]
    if not found:
        raise CanaryError("the inventory has no host in the group canary")
    out.mkdir(parents=True, exist_ok=True)
    text = "# Made by kedge canary rules; a change here is lost.\n"
    text += yaml.safe_dump(rules(found), sort_keys=False, width=1000)
    (out / RULES).write_text(text, encoding="utf-8")
    (out / DASHBOARD).write_text(json.dumps(dashboard(found), indent=1) + "\n", encoding="utf-8")
    for name in (RULES, DASHBOARD):
        print(out / name, file=sys.stdout)
    return 0


def rules(canaries: Iterable[CanaryOf]) -> dict[str, Any]:
    """Return the document of recording and alerting rules."""
    groups = []
    for one in canaries:
        groups.append({"name": f"kedge-canary-{one.cluster}", "interval": "15s", "rules": [*_alerts(one)]})
        if burns := [*_burn_rules(one)]:
            groups.append({"name": f"kedge-canary-{one.cluster}-levels", "interval": "30s", "rules": burns})
    return {"groups": groups}


def _alerts(one: CanaryOf) -> Iterator[dict[str, Any]]:
    of, on = f'cluster="{one.cluster}"', "on cluster {{ $labels.cluster }}"
    for kind, what in (("ack", "acknowledgement"), ("delivery", "delivery")):
        age = f'kedge_canary_last_{kind}_age_seconds{{{of},path!~"{_DIRECT}"}}'
        expr = f"({age} > {_SILENT_S} {_STEADY}) or {age} > {_SILENT_PLANNED_S}"
        said = f"No {what} {on} by {{{{ $labels.path }}}} for {{{{ $value | humanizeDuration }}}}."
        yield _alert(one, f"No{kind.capitalize()}", expr, "page", said)
    # What failed in a change is no news after it.
    steady = "unless on (cluster) max_over_time(kedge_canary_planned[2m]) == 1"

    def errors(path: str) -> str:
        lost = f'kedge_canary_records_total{{{of},path{path}"{_DIRECT}",outcome=~"failed|unknown"}}'
        return f"sum by (cluster, path) (increase({lost}[2m])) > 0 {steady}"

    said = f"Records failed, or got no answer, {on} by {{{{ $labels.path }}}}."
    yield _alert(one, "Errors", errors("!~"), "page", said)
    # Others may serve meanwhile; one that is down on purpose stays down until the change ends.
    age = f'max by (cluster, path) (kedge_canary_last_ack_age_seconds{{{of},path=~"{_DIRECT}"}})'
    said = f"A REST instance fails records {on}, or takes none: {{{{ $labels.path }}}}."
    expr = f"({age} > {_SILENT_S} {steady}) or ({errors('=~')})"
    yield _alert(one, "Instance", expr, "ticket", said)
    verdict = f"kedge_canary_window_verdict{{{of},verdict="
    said = f"The audit of a window {on} failed."
    # A window that comes after it may be over before anybody asks for the verdict.
    failed = f'delta(kedge_canary_windows{{{of},verdict="fail"}}[{2 * one.window_s}s]) > 0'
    yield _alert(one, "WindowFailed", f'{verdict}"fail"}} == 1 or {failed}', "page", said)
    said, lasts = f"Of the last windows {on} nothing is known.", f"{2 * one.window_s}s"
    yield _alert(one, "WindowUnknown", f'{verdict}"unknown"}} == 1', "ticket", said, lasts)
    late = f"time() - kedge_canary_window_end_timestamp_seconds{{{of}}} > {3 * one.window_s + 900}"
    said = f"No window {on} was audited for {{{{ $value | humanizeDuration }}}}."
    yield _alert(one, "AuditLate", late, "ticket", said)
    sending = f"kedge_canary_sending{{{of}}}"
    said = (
        f"The canary of cluster {one.cluster} on {one.host} sends nothing, or does not answer: nothing is "
        "verified."
    )
    yield _alert(one, "Silent", f"{sending} == 0 or absent({sending})", "page", said, "45s")


def _alert(
    one: CanaryOf, name: str, expr: str, severity: str, summary: str, lasts: str = "0s", **labels: str
) -> dict[str, Any]:
    about = {"summary": summary, "command": one.command, "page": "docs/canary.md"}
    labels = {"severity": severity, **labels}
    return {
        "alert": f"KedgeCanary{name}", "expr": expr, "for": lasts, "labels": labels, "annotations": about,
    }  # fmt: skip


def _burn_rules(one: CanaryOf) -> Iterator[dict[str, Any]]:
    for level, via, kind, budget, seconds in _objectives(one.levels):
        record = f"kedge_canary:{level}:slow"
        spans = sorted({span for _, long, short, _ in _BURNS for span in (long, short)})
        for span in spans:
            yield {
                "record": f"{record}:ratio_rate{span}",
                "expr": _slow(one.cluster, via, kind, seconds, span),
            }
        for times, long, short, severity in _BURNS:
            most = times * budget
            over = [f'{record}:ratio_rate{s}{{cluster="{one.cluster}"}} > {most:g}' for s in (long, short)]
            said = (
                f"On cluster {one.cluster} by {via}, {{{{ $value | humanizePercentage }}}} of the records of "
                f"{long} missed {seconds:g} s; the level allows {100 * budget:g} percent."
            )
            if most < 1:
                expr = " and ".join(over)
                yield _alert(one, "Burn", expr, severity, said, level=level, within=long)


def _objectives(levels: Mapping[str, Any]) -> Iterator[tuple[str, str, str, float, float]]:
    """Yield name, way, kind, budget and bound (s) of each latency level that a histogram can be asked for."""
    for via, part in sorted((levels.get("latency") or {}).items()):
        for key, value in (part or {}).items():
            kind, rank, _ = key.split("_")
            if value is not None and kind in ("ack", "delivery") and rank in _BUDGET:
                yield f"{via}_{kind}_{rank}", via, kind, _BUDGET[rank], float(value) / 1e3


def _slow(cluster: str, via: str, kind: str, seconds: float, span: str) -> str:
    """Return the share of records that took longer than a bound, or got no answer at all."""
    of = f'cluster="{cluster}",path="{via}"'
    name = f"kedge_canary_{kind}_seconds"
    within = f'sum by (cluster, path) (rate({name}_bucket{{{of},le="{seconds}"}}[{span}]))'
    lost = f'kedge_canary_records_total{{{of},outcome=~"failed|unknown"}}'
    all_of = f"sum by (cluster, path) (rate({name}_count{{{of}}}[{span}]))"
    all_of += f" + sum by (cluster, path) (rate({lost}[{span}]))"
    return f"clamp_min(1 - {within} / ({all_of}), 0)"


_OF: Final = 'cluster=~"$cluster"'


def _quantiles(kind: str, *ranks: float) -> dict[str, str]:
    rate = f"sum by (path, le) (rate(kedge_canary_{kind}_seconds_bucket{{{_OF}}}[5m]))"
    return {f"{{{{path}}}} p{100 * rank:g}": f"histogram_quantile({rank}, {rate})" for rank in ranks}


#: Title, kind of panel, unit, and queries by their legends.
_PANELS: Final[tuple[tuple[str, str, str, Mapping[str, str]], ...]] = (
    ("Verdict of the last audited window", "stat", "none",
     {"{{verdict}}": f"kedge_canary_window_verdict{{{_OF}}} == 1"}),
    ("Verdicts of the windows that are kept", "bargauge", "none",
     {"{{verdict}}": f"sum by (verdict) (kedge_canary_windows{{{_OF}}})"}),
    ("Records", "timeseries", "cps",
     {"{{path}} {{outcome}}": f"sum by (path, outcome) (rate(kedge_canary_records_total{{{_OF}}}[1m]))",
      "{{path}} delivered": f"sum by (path) (rate(kedge_canary_delivered_total{{{_OF}}}[1m]))"}),
    ("Since the last acknowledgement and delivery", "timeseries", "s",
     {"{{path}} ack": f"kedge_canary_last_ack_age_seconds{{{_OF}}}",
      "{{path}} delivery": f"kedge_canary_last_delivery_age_seconds{{{_OF}}}"}),
    ("Until the acknowledgement", "timeseries", "s", _quantiles("ack", 0.5, 0.99, 0.999)),
    ("Until the delivery", "timeseries", "s", _quantiles("delivery", 0.5, 0.99)),
    ("Anomalies of the last audited window", "timeseries", "none",
     {"{{kind}}": f"kedge_canary_anomalies{{{_OF}}}"}),
    ("Since the last audited window ended", "timeseries", "s",
     {"{{cluster}}": f"time() - kedge_canary_window_end_timestamp_seconds{{{_OF}}}"}),
)  # fmt: skip
_WIDE: Final = 12
_HIGH: Final = 8


def dashboard(canaries: Iterable[CanaryOf]) -> dict[str, Any]:
    """Return Grafana's JSON of the dashboard, with announced changes as annotations."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    panels = [
        {
            "id": number + 1,
            "title": title,
            "type": kind,
            "datasource": source,
            "gridPos": {"x": number % 2 * _WIDE, "y": number // 2 * _HIGH, "w": _WIDE, "h": _HIGH},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + place), "expr": query, "legendFormat": legend, "datasource": source}
                for place, (legend, query) in enumerate(queries.items())
            ],
        }
        for number, (title, kind, unit, queries) in enumerate(_PANELS)
    ]
    choice = {
        "name": "cluster", "type": "custom", "query": ",".join(sorted({one.cluster for one in canaries})),
        "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip
    changes = {
        "name": "announced changes", "datasource": source, "enable": True, "iconColor": "orange",
        "expr": f"kedge_canary_planned{{{_OF}}} == 1", "titleFormat": "change on {{cluster}}",
    }  # fmt: skip
    return {
        "uid": "kedge-canary",
        "title": "Kedge canary",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}, choice]},
        "annotations": {"list": [changes]},
        "panels": panels,
    }
