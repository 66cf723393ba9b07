"""kedge plan --against: what changes since a plan or a commit, and whose change it is."""

from __future__ import annotations

import json
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from kedge.evidence.documents import Plan
from kedge.evidence.release import PLAN_SCHEMA, VERSION
from kedge.plan import rules
from kedge.plan.difference import PlanChange, shown
from kedge.plan.findings import Finding
from kedge.plan.markdown import markdown
from kedge.plan.plan import Plan as Planned
from kedge.plan_command import main
from tests.render.test_plan_command import REST

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "repository" / "hosts.yml"
    path.parent.mkdir()
    path.write_text(REST)
    return path


def kept(inventory: Path, capsys: pytest.CaptureFixture[str], *, by_another_kit: bool = False) -> Path:
    """Keep the plan of an inventory; another kit planned another limit of the requests."""
    assert main(["-i", str(inventory), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    if by_another_kit:
        document["kit"]["version"] = "0.0.9"
        for host in document["hosts"].values():
            for instance in host["services"]["kafka_rest"]["instances"]:
                (one,) = (s for s in instance["settings"] if s["key"] == "consumer.request.max.bytes")
                one["value"] = "4194304"
    return kept_as(json.dumps(document), inventory)


def kept_as(plan: str, inventory: Path) -> Path:
    path = inventory.parent.parent / "old.json"
    path.write_text(plan)
    return path


def commit(inventory: Path) -> None:
    """Commit the repository that the inventory lies at the top of."""
    for arguments in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=x", "-c", "user.email=x@example.net", "commit", "-qm", "x"),
    ):
        subprocess.run(["git", "-C", str(inventory.parent), *arguments], check=True)


def change(inventory: Path) -> None:
    inventory.write_text(REST.replace("host_cores: 16", "host_cores: 8"))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_the_same_kit_and_inventory_change_nothing(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = kept(inventory, capsys)
    assert main(["-i", str(inventory), "--against", str(old), "--exit-code"]) == 0
    assert said(capsys) == "no value changes"


def test_a_rule_that_changed_is_the_kits_change(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = kept(inventory, capsys, by_another_kit=True)
    assert main(["-i", str(inventory), "--against", str(old), "--exit-code"]) == 3
    text = said(capsys)
    assert "4194304 -> " in text
    assert "Kedge's rule changed (rest." in text
    assert "your inventory" not in text


def test_an_inventory_that_changed_is_said_so(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = kept(inventory, capsys)
    change(inventory)
    assert main(["-i", str(inventory), "--against", str(old)]) == 0
    text = said(capsys)
    assert "your inventory changed" in text
    assert "Kedge" not in text


@pytest.mark.process
def test_where_both_changed_nobody_is_blamed_until_a_commit_tells(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(inventory)
    old = kept(inventory, capsys, by_another_kit=True)
    change(inventory)
    main(["-i", str(inventory), "--against", str(old)])
    text = said(capsys)
    assert "Kedge or your inventory changed" in text
    assert "give --against a commit of the inventory as well" in text
    main(["-i", str(inventory), "--against", str(old), "--against", "HEAD"])
    text = said(capsys)
    assert "Kedge's rule changed" in text
    assert "your inventory changed" in text
    assert "Kedge or your inventory" not in text


@pytest.mark.process
def test_a_commit_shows_what_a_change_of_the_inventory_does(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(inventory)
    inventory.write_text(REST.replace("rest2: {}", "rest2: {}, rest3: {}"))
    assert main(["-i", str(inventory), "--against", "HEAD", "--exit-code"]) == 3
    assert "rest3 kafka_rest@[8082-8083] comes: your inventory changed" in said(capsys)


def test_a_merge_request_gets_a_table(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = kept(inventory, capsys, by_another_kit=True)
    main(["-i", str(inventory), "--against", str(old), "--format", "markdown"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "## Kedge plan"
    (row,) = (line for line in lines if "`consumer.request.max.bytes`" in line)
    assert "| `4194304` |" in row
    assert "since 0.1.0): " in row
    tables = [line for line in lines if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables} <= {5, 6}


def test_a_rule_that_a_release_changed_names_that_release(
    inventory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = kept(inventory, capsys, by_another_kit=True)
    monkeypatch.setattr(rules, "CHANGED", {"rest.consumer.request_bytes": "0.2.0"})
    assert main(["-i", str(inventory), "--against", str(old)]) == 0
    assert "Kedge's rule changed (rest.consumer.request_bytes, since 0.2.0): " in said(capsys)


def test_a_pipeline_reads_the_changes_beside_the_plan(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = kept(inventory, capsys, by_another_kit=True)
    assert main(["-i", str(inventory), "--against", str(old), "--format", "json", "--exit-code"]) == 3
    text = capsys.readouterr().out
    plan = Plan.model_validate_json(text)
    assert {(c.key, c.before, c.since, *c.whose) for c in plan.changes} == {
        ("consumer.request.max.bytes", "4194304", "0.1.0", "kit")
    }
    assert not any(one.model_extra for one in plan.changes)
    change(inventory)
    assert main(["-i", str(inventory), "--against", str(kept_as(text, inventory)), "--format", "json"]) == 0
    mine = Plan.model_validate_json(capsys.readouterr().out).changes
    assert {(c.since, *c.whose) for c in mine} == {("", "inventory")}


def test_another_version_and_archive_are_changes(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = kept(inventory, capsys)
    inventory.write_text(REST.replace("8.3.1", "8.3.0").replace("proxy.tar.gz", "older.tar.gz"))
    assert main(["-i", str(inventory), "--against", str(old), "--exit-code"]) == 3
    text = said(capsys)
    assert "rest[1-2] kafka_rest version 8.3.1 -> 8.3.0 your inventory changed" in text
    assert "archive /srv/proxy.tar.gz -> /srv/older.tar.gz" in text
    main(["-i", str(inventory), "--against", str(old), "--format", "markdown"])
    assert "| `version` | `8.3.1` | `8.3.0` | your inventory changed |" in capsys.readouterr().out


def test_another_version_of_the_mirrors_is_a_change(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = (ROOT / "inventories" / "example").resolve()
    capsys.readouterr()
    assert main(["-i", str(example), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    mirrors = [
        h["services"]["mirror_maker"] for h in document["hosts"].values() if "mirror_maker" in h["services"]
    ]
    assert mirrors
    for mirror in mirrors:
        mirror["software"]["version"] = "3.9.0"
    path = inventory.parent / "old.json"
    path.write_text(json.dumps(document))
    main(["-i", str(example), "--against", str(path)])
    assert "mirror_maker version 3.9.0 -> " in said(capsys)


def test_a_password_in_the_address_of_an_archive_is_not_shown(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = "https://me:correct-horse-1@example.net/proxy.tar.gz"
    inventory.write_text(REST.replace("/srv/proxy.tar.gz", address))
    main(["-i", str(inventory), "--format", "json"])
    assert "correct-horse" not in said(capsys)


def test_a_plan_of_a_kit_that_named_no_software_is_read(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = kept(inventory, capsys)
    document = json.loads(old.read_text())
    for host in document["hosts"].values():
        for service in host["services"].values():
            del service["software"]
    old.write_text(json.dumps(document))
    assert main(["-i", str(inventory), "--against", str(old), "--exit-code"]) == 0
    assert said(capsys) == "no value changes"


def test_other_advice_is_named_and_blames_neither_kit_nor_inventory(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = kept(inventory, capsys)
    assert main(["-i", str(inventory), "--advice", "documented", "--against", str(old), "--exit-code"]) == 3
    text = said(capsys)
    assert "the advice changed (rest." in text
    assert "Kedge" not in text
    assert "inventory" not in text


@pytest.fixture(params=[True, False], ids=["filter", "no filter"])
def of_python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python whose archives know the filter for data, and one as the 3.11.2 of Debian 12, without it."""
    if not request.param:
        plain = tarfile.TarFile.extract
        monkeypatch.setattr(
            tarfile.TarFile, "extract", lambda tar, one, path: plain(tar, one, path, filter="fully_trusted")
        )
        for name in ("data_filter", "AbsoluteLinkError", "LinkOutsideDestinationError"):
            monkeypatch.delattr(tarfile, name)


@pytest.mark.process
@pytest.mark.usefixtures("of_python")
def test_a_shared_folder_that_is_a_link_is_read_at_a_commit(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = inventory.parent
    (top / "shared").mkdir()
    (top / "shared" / "all.yml").write_text("host_cores: 16\nhost_memory_mib: 32768\n")
    (top / "prod").mkdir()
    hosts = top / "prod" / "hosts.yml"
    hosts.write_text(REST.replace("    host_cores: 16\n", "").replace("    host_memory_mib: 32768\n", ""))
    (top / "prod" / "group_vars").symlink_to("../shared")
    inventory.unlink()
    commit(inventory)
    assert main(["-i", str(top / "prod"), "--against", "HEAD", "--exit-code"]) == 0
    assert said(capsys) == "no value changes"


@pytest.mark.process
@pytest.mark.usefixtures("of_python")
def test_a_link_out_of_the_repository_is_refused(
    inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vars").mkdir()
    (tmp_path / "vars" / "all.yml").write_text("rack: a\n")
    (inventory.parent / "group_vars").symlink_to(tmp_path / "vars")
    commit(inventory)
    assert main(["-i", str(inventory.parent), "--against", "HEAD"]) == 2
    error = capsys.readouterr().err
    assert "group_vars is a link out of the repository" in error
    assert error.count("\n") == 1


@pytest.mark.process
def test_a_link_elsewhere_in_the_repository_is_no_obstacle(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = inventory.parent / "prod" / "hosts.yml"
    hosts.parent.mkdir()
    inventory.rename(hosts)
    (inventory.parent / "away").symlink_to("/nowhere")
    commit(inventory)
    assert main(["-i", str(hosts), "--against", "HEAD", "--exit-code"]) == 0


@pytest.mark.process
def test_the_folder_of_the_inventory_is_no_change(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory.write_text(REST.replace("/srv/proxy", '"{{ inventory_dir }}/proxy').replace("gz\n", 'gz"\n'))
    commit(inventory)
    assert main(["-i", str(inventory), "--against", "HEAD", "--exit-code"]) == 0
    assert said(capsys) == "no value changes"


@pytest.mark.process
def test_all_of_a_new_inventory_comes(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit(inventory)
    stage = inventory.parent / "stage" / "hosts.yml"
    stage.parent.mkdir()
    stage.write_text(REST)
    assert main(["-i", str(stage), "--against", "HEAD", "--exit-code"]) == 3
    text = said(capsys)
    assert "rest[1-2] kafka_rest@[8082-8083] comes: your inventory changed" in text
    assert "goes" not in text


@pytest.mark.process
def test_a_value_that_kit_and_inventory_leave_as_it_was_is_no_change(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(inventory)
    old = kept(inventory, capsys, by_another_kit=True)
    inventory.write_text(REST + "    kafka_rest_settings: {consumer.request.max.bytes: 4194304}\n")
    main(["-i", str(inventory), "--against", str(old), "--against", "HEAD"])
    text = said(capsys)
    assert "4194304 -> 4194304" not in text


def test_an_empty_value_is_not_one_that_is_not_set() -> None:
    change = PlanChange("rest1 kafka_rest@8082", "f", "key", "", None, ("kit",), "rule", "reason")
    (row,) = (line for line in markdown(Planned(), [change]).splitlines() if "`key`" in line)
    assert "| (empty) | (not set) |" in row
    assert "(empty) -> (not set)" in shown([change])


def test_the_same_change_for_another_reason_stands_by_itself() -> None:
    one = PlanChange("rest1 kafka_rest@8082", "f", "key", "1", "2", ("kit",), "rule", "8 cores")
    text = shown([one, replace(one, where="rest2 kafka_rest@8082", because="16 cores")])
    assert "8 cores" in text
    assert "16 cores" in text


def test_many_findings_of_a_merge_request_are_folded_but_errors_are_not() -> None:
    warnings = [Finding("warning", "a.rule", f"rest{n}", f"what {n}", "fix") for n in range(20)]
    error = Finding("error", "a.rule", "rest0", "what is wrong", "fix")
    text = markdown(Planned(findings=(error, *warnings)), [])
    assert text.index("what is wrong") < text.index("<details>") < text.index("what 1 ")
    assert "<summary>20 warnings</summary>" in text
    assert "<details>" not in markdown(Planned(findings=tuple(warnings[:3])), [])


def test_the_plan_names_its_form_and_its_kit(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(kept(inventory, capsys).read_text())
    assert (document["schema"], document["kit"]["version"]) == (PLAN_SCHEMA, VERSION)
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text()


def test_a_secret_is_neither_shown_nor_part_of_what_names_an_inventory(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "    kafka_rest_settings: {client.ssl.truststore.password: %s}\n"
    inventory.write_text(REST + secret % "correct-horse-1")
    first = kept(inventory, capsys)
    before = json.loads(first.read_text())["inventory"]
    inventory.write_text(REST + secret % "correct-horse-2")
    main(["-i", str(inventory), "--against", str(first)])
    assert "correct-horse" not in said(capsys)
    assert json.loads(kept(inventory, capsys).read_text())["inventory"] == before


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("", "no plan in JSON"),
        ("[]", "no plan; keep one with --format json"),
        ('{"hosts": {"rest1": 1}}', "no whole plan"),
        ('{"hosts": {}, "schema": 99, "kit": "x"}', "a plan of Kedge of a newer form"),
        ('{"hosts": {}, "schema": 99, "kit": {"version": "9.0.0"}}', "a plan of Kedge 9.0.0"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_line(
    inventory: Path, capsys: pytest.CaptureFixture[str], old: str, message: str
) -> None:
    path = inventory.parent / "old.json"
    path.write_text(old)
    assert main(["-i", str(inventory), "--against", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.process
def test_what_is_no_commit_is_refused(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", str(inventory), "--against", "v9"]) == 2
    assert "lies in no git repository" in capsys.readouterr().err
    commit(inventory)
    assert main(["-i", str(inventory), "--against=--output=/tmp/x"]) == 2
    assert "neither a file nor a commit" in capsys.readouterr().err


def test_of_several_inventories_the_later_one_wins(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = inventory.parent / "stage.yml"
    other.write_text("all: {children: {kafka_rest: {hosts: {rest3: {}}}}, vars: {host_cores: 8}}\n")
    assert main(["-i", str(inventory), "-i", str(other), "--format", "json"]) == 0
    merged = json.loads(capsys.readouterr().out)
    assert {"rest1", "rest2", "rest3"} <= {*merged["hosts"]}
    inventory.write_text(
        REST.replace("host_cores: 16", "host_cores: 8").replace("rest2: {}", "rest2: {}, rest3: {}")
    )
    assert main(["-i", str(inventory), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"] == merged["hosts"]
