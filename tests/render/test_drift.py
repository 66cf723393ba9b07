"""What plan.yml says of a host: what differs, key by key, and in one line where it cannot know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.drift import (
    changes_line,
    describe,
    going_back,
    hide_secrets,
    lines_of,
    row_lines,
    text_lines,
    topic_lines,
    unknown_of,
    would_change,
)
from kedge.deploy.release_rows import RowChange, changes, kept_rows, of_release
from kedge.deploy.rendering import render, render_settings
from kedge.plan.inventory.security import put_file
from kedge.plan.settings import Sheet
from tests.compared import Compare, compared, sealed, shipped

PATH = "kafka-rest.properties"


def setting(key: str, value: str, because: str = "two and two are four") -> dict[str, Any]:
    return {
        "file": PATH,
        "key": key,
        "value": value,
        "rule": "rest.x",
        "because": because,
        "source": "sums",
        "basis": "derived",
    }


def properties(*settings: dict[str, Any]) -> str:
    return render_settings(PATH, settings)


def state(name: str, current: str | None = "a", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "release": "a",
        "current": current,
        "in_force": [],
        "pending": False,
        "active": True,
        **more,
    }


@pytest.fixture(params=[True, False], ids=["rows", "texts"])
def compare(request: pytest.FixtureRequest, tmp_path: Path) -> Compare:
    """What a host answers whose release has rows, and one whose release is of Kedge 0.1."""
    return compared(tmp_path, rows=request.param)


def planned(*settings: dict[str, Any], file: str = f"/etc/kafka-rest/8082/{PATH}") -> dict[str, Any]:
    return {
        "name": "8082",
        "settings": [one | {"file": file} for one in settings],
        "software": {"tls": False},
    }


def lines(compare: Compare, was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is said of an instance, without the name of its file."""
    found = describe(compare("kafka-rest", was, now), "kafka-rest", [sealed(now)[0]])
    return [line.removeprefix("  ") for line in found["instances"]["8082"]["lines"][1:]]


def answer(*states: dict[str, Any], diff: Any = (), stale: Any = ()) -> dict[str, Any]:
    return {"instances": list(states), "diff": list(diff), "stale": list(stale)}


def differing(path: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def said(answered: dict[str, Any], *names: str, unknown: Any = ()) -> list[str]:
    instances = [{"name": n, "settings": [], "software": {"tls": False}} for n in names]
    found = describe(answered, "kafka-rest", instances, unknown)
    return lines_of({"kafka_rest": found}, ["kafka_rest"], {})


def test_a_changed_value_is_shown_with_its_new_reason(compare: Compare) -> None:
    old, new = (
        planned(setting("a", "1"), setting("b", "2")),
        planned(setting("a", "3", "three"), setting("b", "2")),
    )
    assert lines(compare, old, new) == ["-a=1", "+a=3", "    three (rest.x; derived; sums)"]


def test_keys_that_come_and_go_are_shown(compare: Compare) -> None:
    found = lines(compare, planned(setting("old", "1")), planned(setting("new", "2")))
    assert sorted(x for x in found if not x.startswith(" ")) == ["+new=2", "-old=1"]


def test_a_key_that_is_there_several_times_is_compared_one_by_one(tmp_path: Path) -> None:
    old, new = (planned(*(setting("--add", value) for value in values)) for values in ("abc", "axc"))
    assert lines(compared(tmp_path, rows=True), old, new)[:2] == ["---add=b", "+--add=x"]


def test_a_reason_that_alone_changes_is_said_so(compare: Compare) -> None:
    old, new = (planned(setting("a", "1", reason)) for reason in ("one", "another"))
    assert lines(compare, old, new) == ["other reasons, same values: a"]


@pytest.mark.parametrize("secret", [True, False])
def test_secrets_of_old_and_new_files_are_hidden(compare: Compare, secret: bool) -> None:
    key = "a.b" if secret else "ssl.key.password"
    old, new = (planned(setting(key, word) | {"secret": secret}) for word in ("old-one", "new-one"))
    assert lines(compare, old, new)[:2] == [f"-{key}=***", f"+{key}=*** (another one)"]


def test_a_secret_whose_place_in_the_plan_alone_changes_is_the_same(tmp_path: Path) -> None:
    secret = setting("a.password", "planted") | {"secret": True}
    old, new = planned(secret), planned(setting("a", "1"), secret)
    assert [x for x in lines(compared(tmp_path, rows=True), old, new) if "password" in x] == []


def test_what_a_template_has_besides_is_shown_where_no_row_says_it(tmp_path: Path) -> None:
    one = planned(setting("a", "1"))
    answered = compared(tmp_path, rows=True)("kafka-rest", one, one)
    path = f"/etc/kafka-rest/8082/{PATH}"
    diff = differing(path, properties(setting("a", "1", "old")), properties(setting("a", "1")) + "more=1\n")
    found = describe(answered | {"diff": [diff]}, "kafka-rest", [one])["instances"]["8082"]
    assert [line.strip() for line in found["lines"]] == [PATH, "+more=1"]


def test_rows_of_an_instance_hold_no_secret_and_no_path_of_this_machine() -> None:
    secret = setting("a.password", "planted") | {"secret": True}

    def copied(folder: str) -> dict[str, Any]:
        sheet = Sheet("rest1 kafka_rest@8082", "measured", {})
        put_file(sheet, "rest.key", "rest.tls", {"key": f"{folder}/rest.key"})
        (one,) = sheet.settings
        return setting(one.key, one.value, one.because) | {"copied": True}

    of_anna, of_bert = (planned(secret, copied(f"/home/{name}")) for name in ("anna", "bert"))
    for instance in (of_anna, sealed(of_anna)[0]):
        kept = json.dumps(kept_rows("kafka-rest", instance))
        assert "planted" not in kept and "/home" not in kept
        assert kept.count("<secret ") == 2
    # Of whose clone makes no difference on the host.
    rows = [one["rows"] for one in (shipped("kafka-rest", each) for each in (of_anna, of_bert))]
    assert "planted" not in rows[0] and "rest.key holds" in rows[0]
    assert rows[0] == rows[1]


def test_what_a_host_says_of_its_rows_drives_no_terminal() -> None:
    row = {
        "file": PATH,
        "key": "a\x1b[2J",
        "value": "b\x1b[2J",
        "rule": "",
        "because": "",
        "source": "",
        "basis": "",
    }
    state = {"rows": [row]}
    found = changes(*of_release(state, "kafka-rest", planned(), {}))
    assert row_lines(found) == ["-a\\x1b[2J=b\\x1b[2J"]


@pytest.mark.parametrize(
    ("key", "value"), [("ssl.key.password", "{}"), ("url", "http://u:{}@h"), ("KAFKA_OPTS", "-Dx.password={} -Db")]
)  # fmt: skip
def test_a_secret_is_taken_out_of_what_a_deploy_shows_and_its_change_is_not(
    compare: Compare, key: str, value: str
) -> None:
    settings = [setting(key, value.format(word)) for word in ("old", "new")]
    found = lines(compare, *(planned(one) for one in settings))
    assert [line for line in found if "old" in line or "new" in line] == []
    assert len(found) > 1
    files = [properties(one) for one in settings]
    assert [line for line in text_lines(*files) if "old" in line or "new" in line] == []
    assert text_lines("User=a\n", "ExecStart=x --db-password old\n")[1:] == ["+ExecStart=x ***"]
    before, after = hide_secrets(*files)
    assert f"\n{key}=***\n" in before
    assert f"\n{key}=*** (another one)\n" in after
    assert "old" not in before
    assert "new" not in after


def test_of_a_long_list_of_flags_only_the_difference_is_shown(compare: Compare) -> None:
    old, new = (planned(setting("O", flags)) for flags in ("-a -b -c -d", "-a -b -x -d"))
    assert lines(compare, old, new)[:2] == ["-O=-c ...", "+O=-x ..."]


def test_a_unit_file_is_shown_line_by_line() -> None:
    units = [
        render(
            "service.j2",
            unit="u",
            user="u",
            description=description,
            exec_start="/bin/true",
        )
        for description in ("d", "e")
    ]
    lines = text_lines(units[0], units[1])
    assert [x for x in lines if x[0] in "+-"] == [
        "-# d; one unit an instance, its configuration in /etc/u/%i.",
        "+# e; one unit an instance, its configuration in /etc/u/%i.",
        "-Description=d (%i)",
        "+Description=e (%i)",
    ]


def test_instances_that_differ_alike_are_said_once() -> None:
    diff = [
        differing(
            f"/etc/kafka-rest/{n}/{PATH}",
            properties(setting("id", f"h-{n}")),
            properties(setting("id", f"i-{n}")),
        )
        for n in ("8082", "8083")
    ]
    lines = said(answer(state("8082", pending=True), state("8083", pending=True), diff=diff), "8082", "8083")
    assert lines[0] == "kafka_rest@[8082-8083]: differs; a deploy would restart it"
    assert [x.strip() for x in lines[1:4]] == [PATH, "-id=h-INSTANCE", "+id=i-INSTANCE"]


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (state("8082"), "as planned"),
        (state("8082", None), "not deployed yet; a deploy would start it"),
        (state("8082", active=False), "does not run; a deploy would start it"),
        (
            state("8082", pending=True),
            "runs an older release than the one in place; a deploy would restart it",
        ),
    ],
)
def test_the_state_of_an_instance_is_one_line(one: dict[str, Any], line: str) -> None:
    assert said(answer(one), "8082") == [f"kafka_rest@8082: {line}"]


def test_an_instance_that_is_no_longer_planned_is_named() -> None:
    lines = said(answer(state("8082"), stale=["8083"]), "8082")
    assert lines[1] == "kafka_rest@8083: no longer planned; a deploy would stop it"


def test_a_file_that_somebody_edited_is_shown_as_such() -> None:
    path = f"/etc/kafka-rest/8082/{PATH}"
    diff = [differing(path, properties(setting("id", "by hand")), properties(setting("id", "a")))]
    edited = state("8082", pending=True, edited=True, touched=True, same_rows=True)
    lines = said(answer(edited, diff=diff), "8082")
    assert lines[0] == (
        "kafka_rest@8082: was edited on the host; a deploy would put back what is planned, and keep a copy"
    )
    assert "    -id=by hand" in lines


def test_a_drop_in_of_others_is_shown_and_one_that_is_not_linked_would_be_put_back() -> None:
    place = "/etc/systemd/system/kafka-rest@8082.service.d"
    theirs = state("8082", dropins=[f"{place}/override.conf"])
    assert said(answer(theirs), "8082") == [
        "kafka_rest@8082: as planned",
        f"  {place}/override.conf is not Kedge's: it counts, and a deploy leaves it",
    ]
    diff = [differing(f"{place}/10-kedge.conf", "", "link\n")]
    lines = said(answer(state("8082", pending=True, edited=True), diff=diff), "8082")
    assert lines[0].startswith("kafka_rest@8082: was edited on the host; a deploy would put back")


def test_a_file_that_somebody_added_is_shown_as_such() -> None:
    diff = [differing("/etc/kafka-rest/8082/mine.conf", "not of Kedge\n", "")]
    lines = said(answer(state("8082"), diff=diff), "8082")
    assert lines[0].startswith(
        "kafka_rest@8082: has files that are not Kedge's; a deploy would move them into a copy"
    )


def test_an_instance_that_differs_and_does_not_run_would_be_started() -> None:
    diff = [differing(f"/etc/kafka-rest/8082/{PATH}", properties(), properties(setting("id", "a")))]
    lines = said(answer(state("8082", pending=True, active=False), diff=diff), "8082")
    assert lines[0] == "kafka_rest@8082: differs and does not run; a deploy would start it as planned"


def test_changed_software_is_a_difference() -> None:
    diff = [differing("/etc/kafka-rest/8082/dist", "/opt/kedge/a\n", "/opt/kedge/b\n")]
    assert [x.strip() for x in said(answer(state("8082"), diff=diff), "8082")[1:]] == [
        "dist",
        "-/opt/kedge/a",
        "+/opt/kedge/b",
    ]


def test_software_that_is_not_known_here_is_not_called_a_difference() -> None:
    diff = [differing("/etc/kafka-rest/8082/dist", "/opt/kedge/a\n", "\n")]
    lines = said(answer(state("8082", pending=True), diff=diff), "8082", unknown=["dist"])
    assert lines[0] == "kafka_rest@8082: as planned"
    assert "its software is not compared" in lines[1]


def test_a_host_that_cannot_be_reached_has_one_line() -> None:
    found = {"kafka_broker": {"unreachable": "no route"}, "kafka_rest": {"unreachable": "no route"}}
    assert lines_of(found, ["kafka_broker", "kafka_rest"], {}) == ["cannot be reached: no route"]


def test_services_that_are_not_compared_are_named_with_the_reason() -> None:
    why_not = dict.fromkeys(("mirror_maker", "host_tuning"), "no role deploys it")
    assert lines_of({}, ["mirror_maker", "host_tuning", "kafka_rest"], why_not) == [
        "mirror_maker, host_tuning: not compared, for no role deploys it",
        "kafka_rest: not compared, for its role did not answer",
    ]


def test_a_service_that_is_no_release_is_shown_by_the_lines_that_its_role_noted() -> None:
    found = {"lines": ["-no Java", "+openjdk-17-jre-headless"]}
    assert lines_of({"java": found}, ["java"], {}) == [
        "java: differs; a deploy would change it",
        "  -no Java",
        "  +openjdk-17-jre-headless",
    ]
    assert lines_of({"java": {"lines": []}}, ["java"], {}) == ["java: as planned"]


def test_topics_that_would_be_made_or_changed_are_shown() -> None:
    changes: dict[str, dict[str, Any]] = {
        "new": {"create": {"partitions": "6", "retention.ms": "1"}},
        "live": {"grow": [6, 12], "set": {"retention.ms": ["1", "2"]}},
    }
    assert topic_lines(changes) == [
        "topic new: not there yet; a deploy would create it with partitions=6, retention.ms=1",
        "topic live: differs; a deploy would set",
        "  -partitions=6",
        "  +partitions=12",
        "  -retention.ms=1",
        "  +retention.ms=2",
    ]


def test_what_a_deploy_would_change_is_one_line_and_nothing_where_all_is_as_planned() -> None:
    assert changes_line([], []) == ""
    assert changes_line(["rest1", "rest2", "topics of leaf"], ["rest3"]) == (
        "a deploy would change rest[1-2], topics of leaf; rest3 could not be compared"
    )


@pytest.mark.parametrize(
    ("found", "changes"),
    [
        ({"instances": {"8082": {"state": "same", "lines": []}}, "stale": [], "units": []}, False),
        ({"instances": {"8082": {"state": "stopped", "lines": []}}, "stale": [], "units": []}, True),
        ({"instances": {}, "stale": ["8082"], "units": []}, True),
        ({"instances": {}, "stale": [], "units": ["x"]}, True),
        ({"lines": []}, False),
        ({"lines": ["x"]}, True),
        ({"unreachable": "no route"}, False),
    ],
)
def test_a_host_drifts_where_an_instance_a_unit_or_a_file_differs(
    found: dict[str, Any], changes: bool
) -> None:
    assert would_change({"kafka_rest": found}) is changes
    assert unknown_of({"kafka_rest": found}) is ("unreachable" in found)


def changed(key: str, was: str | None, now: str | None) -> RowChange:
    return RowChange(PATH, key, was, now, "")


def test_an_older_kedge_names_what_it_changes_once_for_all_instances() -> None:
    rows = [changed("new.key", "1", None), changed("linger.ms", "20", "5"), changed("same", None, None)]
    warning = going_back("0.9.1", "0.10.0", [*rows, *rows])
    assert warning.startswith("Kedge 0.9.1 deploys what Kedge 0.10.0 deployed before. It changes ")
    assert "linger.ms from 20 to 5; new.key from 1 to unset. Deploy with 0.10.0" in warning
    assert "same" not in warning


def test_an_older_kedge_that_changes_many_values_names_some() -> None:
    many = [changed(f"k{n:02}", "1", None) for n in range(20)]
    assert "k07 from 1 to unset and 12 more." in going_back("0.9.1", "0.10.0", many)
    assert "It changes no value of this service." in going_back("0.9.1", "0.10.0", [])


def test_an_instance_whose_files_have_other_reasons_alone_is_as_planned() -> None:
    path = "/etc/kafka-rest/8082/kafka-rest.properties"
    texts = [properties(setting("a", "1", why)) for why in ("first reason", "second reason")]
    answer = {
        "instances": [{"current": "x", "pending": False, "comments": True, "active": True, "in_force": []}],
        "diff": [
            dict(zip(("before", "after", "before_header", "after_header"), (*texts, path, path), strict=True))
        ],
        "stale": [],
    }
    instances = [{"name": "8082", "settings": [], "software": {"tls": False}}]
    assert describe(answer, "kafka-rest", instances)["instances"]["8082"]["state"] == "same"
