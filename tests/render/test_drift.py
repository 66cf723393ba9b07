"""What plan.yml says of a host: what differs, key by key, and in one line where it cannot know."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.deploy.drift import (
    change,
    changes_line,
    describe,
    describe_files,
    going_back,
    hide_secrets,
    lines_of,
    topic_lines,
    unknown_of,
    would_change,
)
from kedge.deploy.rendering import render, render_settings

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


def answer(*states: dict[str, Any], diff: Any = (), stale: Any = ()) -> dict[str, Any]:
    return {"instances": list(states), "diff": list(diff), "stale": list(stale)}


def differing(path: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def said(answered: dict[str, Any], *names: str, unknown: Any = ()) -> list[str]:
    instances = [{"name": n, "settings": [], "software": {"tls": False}} for n in names]
    found = describe(answered, "kafka-rest", instances, unknown)
    return lines_of({"kafka_rest": found}, ["kafka_rest"], {})


def test_a_changed_value_is_shown_with_its_new_reason() -> None:
    old, new = (
        properties(setting("a", "1"), setting("b", "2")),
        properties(setting("a", "3", "three"), setting("b", "2")),
    )
    assert change(old, new, set()) == ["-a=1", "+a=3", "    three (rest.x; derived; sums)"]


def test_keys_that_come_and_go_are_shown() -> None:
    lines = change(properties(setting("old", "1")), properties(setting("new", "2")), set())
    assert [x for x in lines if not x.startswith(" ")] == ["-old=1", "+new=2"]


def test_a_reason_that_alone_changes_is_said_so() -> None:
    lines = change(properties(setting("a", "1")), properties(setting("a", "1", "another")), set())
    assert lines == ["other reasons, same values: a"]


@pytest.mark.parametrize("hidden", [{"a.b"}, set()])
def test_secrets_of_old_and_new_files_are_hidden(hidden: set[str]) -> None:
    key = "a.b" if hidden else "ssl.key.password"
    lines = change(properties(setting(key, "old")), properties(setting(key, "new")), hidden)
    assert lines[:2] == [f"-{key}=***", f"+{key}=***"]


@pytest.mark.parametrize(
    ("key", "value"), [("ssl.key.password", "{}"), ("url", "http://u:{}@h"), ("KAFKA_OPTS", "-Dx.password={} -Db")]
)  # fmt: skip
def test_a_secret_is_taken_out_of_what_a_deploy_shows_and_its_change_is_not(key: str, value: str) -> None:
    files = [properties(setting(key, value.format(word))) for word in ("old", "new")]
    assert [line for line in change(*files, set()) if "old" in line or "new" in line] == []
    assert change("User=a\n", "ExecStart=x --db-password old\n", set())[1:] == ["+ExecStart=x ***"]
    before, after = hide_secrets(*files)
    assert f"\n{key}=***\n" in before
    assert f"\n{key}=*** (another one)\n" in after
    assert "old" not in before
    assert "new" not in after


def test_of_a_long_list_of_flags_only_the_difference_is_shown() -> None:
    lines = change(properties(setting("O", "-a -b -c -d")), properties(setting("O", "-a -b -x -d")), set())
    assert lines[:2] == ["-O=-c ...", "+O=-x ..."]


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
    lines = change(units[0], units[1], set())
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
    lines = said(answer(state("8082", pending=True, edited=True), diff=diff), "8082")
    assert lines[0] == (
        "kafka_rest@8082: was edited on the host; a deploy would put back what is planned, and keep a copy"
    )
    assert "    -id=by hand" in lines


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


def test_a_service_that_is_no_release_is_shown_by_what_its_modules_would_change() -> None:
    diff = {
        "before_header": "/etc/haproxy/haproxy.cfg (content)",
        "after_header": "/etc/haproxy/haproxy.cfg (content)",
        "before": "defaults\n    timeout server 60s\n",
        "after": "defaults\n    timeout server 90s\n",
    }
    found = {"lines": describe_files([diff])}
    assert lines_of({"rest_balancer": found}, ["rest_balancer"], {}) == [
        "rest_balancer: differs; a deploy would change it",
        "  /etc/haproxy/haproxy.cfg",
        "     defaults",
        "    -    timeout server 60s",
        "    +    timeout server 90s",
    ]
    same = {"lines": describe_files([diff | {"after": diff["before"]}])}
    assert lines_of({"rest_balancer": same}, ["rest_balancer"], {}) == ["rest_balancer: as planned"]


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


def test_an_older_kedge_names_what_it_changes_once_for_all_instances() -> None:
    difference = {
        "before": properties(setting("linger.ms", "20"), setting("new.key", "1"), setting("same", "x")),
        "after": properties(setting("linger.ms", "5"), setting("same", "x")),
    }
    warning = going_back("0.9.1", "0.10.0", [difference, difference])
    assert warning.startswith("Kedge 0.9.1 deploys what Kedge 0.10.0 deployed before. It changes ")
    assert "linger.ms from 20 to 5; new.key from 1 to unset. Deploy with 0.10.0" in warning
    assert "same" not in warning


def test_an_older_kedge_that_changes_many_values_names_some() -> None:
    many = {"before": properties(*(setting(f"k{n:02}", "1") for n in range(20))), "after": ""}
    assert "k07 from 1 to unset and 12 more." in going_back("0.9.1", "0.10.0", [many])
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
