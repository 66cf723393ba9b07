"""kedge plan: what its exit status says, and that it prints no secret."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from kedge.plan_command import main

ROOT = Path(__file__).resolve().parents[2]

REST = """
all:
  children:
    kafka_rest:
      hosts: {rest1: {}, rest2: {}}
  vars:
    host_cores: 16
    host_memory_mib: 32768
    kafka_clusters: {leaf: {version: 4.3.1, bootstrap_servers: "leaf:9092"}}
    kafka_rest_distribution: confluent
    kafka_rest_version: 8.3.1
    kafka_rest_archive: /srv/proxy.tar.gz
    kafka_rest_archive_checksum: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
    kafka_rest_cluster: leaf
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: a start of its own takes a second, and no test here is about that."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([*map(str, arguments)])
        except SystemExit as ended:
            status = int(ended.code or 0)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(REST)
    return path


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_clean_plan_ends_with_0(inventory: Path, form: str) -> None:
    done = run("-i", inventory, "--format", form)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kafka_rest" in done.stdout


def test_a_plan_fits_a_screen_and_its_settings_are_asked_for_by_all_or_by_host(inventory: Path) -> None:
    short = run("-i", inventory).stdout
    assert re.search(
        r"^kafka_rest rest\[1-2\]: \d instances; heap [\d,]+ MiB each; memory limit [\d,]+ MiB each;\s\d+ settings;\srestarts\sin \d batch",
        short,
        re.MULTILINE,
    )
    assert re.search(r"^0 errors, 2 warnings, [1-9]\d* notes$", short, re.MULTILINE)
    assert "note: " not in short
    assert len(short.splitlines()) < 25
    every = run("-i", inventory, "--all").stdout
    assert "note: " in every
    assert "rest1  kafka_rest@8082" in every
    of_host = run("-i", inventory, "--host", "rest2").stdout
    assert "rest2  kafka_rest@8082" in of_host
    assert "rest1  " not in of_host
    wrong = run("-i", inventory, "--host", "rest22")
    assert wrong.returncode == 2
    assert "--host rest22: the inventory has no such host; did you mean rest2?" in wrong.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_plan_with_an_error_ends_with_1_and_names_the_variable(inventory: Path, form: str) -> None:
    inventory.write_text(REST + "    kafka_rest_instances_per_host: -1\n")
    done = run("-i", inventory, "--format", form)
    assert done.returncode == 1
    assert "kafka_rest_instances_per_host" in done.stdout


def test_beside_errors_a_misspelt_variable_is_shown_and_no_other_warning(inventory: Path) -> None:
    inventory.write_text(REST.replace("kafka_clusters:", "kafka_cluster:"))
    done = run("-i", inventory)
    assert done.returncode == 1
    assert "kafka_rest_cluster is leaf, which is not declared." in done.stdout
    assert "did you mean kafka_clusters?" in done.stdout
    assert done.stdout.count("warning: ") == 1


@pytest.mark.parametrize("text", ["all: [", "", "[a\n=b"])
def test_an_inventory_that_cannot_be_read_ends_with_2_and_says_so_in_one_line(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(text)
    done = run("-i", path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert str(path) in done.stderr


@pytest.mark.parametrize(
    ("variables", "place", "what"),
    [
        ("a: 1\nb:\n  - {c: 1\n", "main.yml:4:1: no YAML", "flow mapping"),
        ("a: b: c\n", "main.yml:1:5: no YAML", "mapping values are not allowed here"),
        (
            'kafka_rest_version: "{{ version }}"\n',
            "main.yml:1:21: kafka_rest_version",
            "'version' is undefined",
        ),
        (
            'kafka_rest_workload:\n  consumers: "{{ 2 * them }}"\n',
            "main.yml:2:14: kafka_rest_workload",
            "'them' is undefined",
        ),
        ("a: 1\nb:\n\tc: 1\n", "main.yml:3:1: no YAML", "indent with spaces, not with tabs"),
        (
            "kafka_rest_workload:\n  readers: 5\n  readers: 6\n",
            "main.yml:3:3: readers is here a second time",
            "line 2 would be passed over",
        ),
        ('kafka_rest_cluster: "{{ leaf"\n', "main.yml:1:21: kafka_rest_cluster", "Syntax error in template"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_with_file_and_line(
    inventory: Path, variables: str, place: str, what: str
) -> None:
    folder = inventory.parent / "group_vars" / "kafka_rest"
    folder.mkdir(parents=True)
    (folder / "main.yml").write_text(variables)
    done = run("-i", inventory)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert place in done.stderr
    assert what in done.stderr


@pytest.mark.parametrize(
    ("hosts", "what"),
    [
        ("kafka_rest: {host: {rest1: }}", "the group kafka_rest has the key host"),
        ("kafka_rest: {hosts: [rest1]}", "hosts of the group kafka_rest is no mapping; write each as a key"),
    ],
)
def test_a_group_whose_hosts_would_be_lost_is_refused(inventory: Path, hosts: str, what: str) -> None:
    inventory.write_text(f"all: {{children: {{{hosts}, mirror_maker: {{hosts: {{mm1: }}}}}}}}\n")
    done = run("-i", inventory)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert what in done.stderr
    assert "class" not in done.stderr


def test_a_mapping_may_be_merged_from_several(inventory: Path) -> None:
    merged = (
        "    one: &one {a: 1}\n    two: &two {a: 2}\n    both:\n      <<: *one\n      <<: *two\n      a: 3\n"
    )
    inventory.write_text(REST + merged)
    assert run("-i", inventory).returncode == 0


def test_templates_are_resolved_as_a_playbook_would(inventory: Path) -> None:
    inventory.write_text(REST + '    kafka_rest_first_port: "{{ base + 1 }}"\n    base: 9000\n')
    done = run("-i", inventory, "--all")
    assert done.returncode == 0, done.stderr
    assert "rest1  kafka_rest@9001" in done.stdout


def test_a_plan_can_be_read_without_the_vaults_password(inventory: Path) -> None:
    vault = "!vault |\n        $ANSIBLE_VAULT;1.1;AES256\n        33333333\n"
    inventory.write_text(f"{REST}    kafka_rest_settings:\n      producer.ssl.key.password: {vault}")
    done = run("-i", inventory, "--all")
    assert done.returncode == 0, done.stderr
    assert "producer.ssl.key.password=***   (yours)" in done.stdout


def test_a_password_in_a_vault_need_not_be_open_for_a_plan(inventory: Path) -> None:
    vault = "!vault |\n        $ANSIBLE_VAULT;1.1;AES256\n        33333333\n"
    inventory.write_text(f"{REST}    kafka_rest_users:\n      alice: {vault}")
    done = run("-i", inventory)
    assert "cannot be used" not in done.stdout + done.stderr


def test_a_file_that_is_a_vault_as_a_whole_is_named(inventory: Path) -> None:
    (inventory.parent / "group_vars").mkdir()
    file = inventory.parent / "group_vars" / "all.yml"
    file.write_text("$ANSIBLE_VAULT;1.1;AES256\n33333333\n")
    done = run("-i", inventory)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{file}: is encrypted as a whole, and no vault password is at hand; ")


def test_a_difference_of_a_plan_with_errors_is_not_shown_but_these_are(inventory: Path) -> None:
    inventory.write_text(f"{REST}    kafka_rest_settings: {{producer.ack: all}}\n")
    done = run("-i", inventory, "--diff", "documented")
    assert done.returncode == 1
    assert "does not know producer.ack" in done.stdout
    assert "no difference is shown" in done.stderr
    assert run("-i", inventory, "--diff", "documented", "--format", "json").returncode == 2


@pytest.mark.process
def test_an_inventory_that_is_not_there_ends_the_process_with_2(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "kedge", "plan", "-i", str(tmp_path / "none")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no such inventory" in done.stderr


def test_an_unknown_option_ends_with_2(inventory: Path) -> None:
    assert run("-i", inventory, "--format", "xml").returncode == 2


@pytest.mark.parametrize("arguments", [["--all"], ["--full"], ["--format", "json"], ["--diff", "documented"]])
def test_a_secret_is_never_printed(inventory: Path, arguments: list[str]) -> None:
    key = "producer.ssl.keystore.password"
    inventory.write_text(f"{REST}    kafka_rest_settings: {{{key}: hunter2}}\n")
    done = run("-i", inventory, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    if "--diff" not in arguments:
        assert key in done.stdout
        assert "***" in done.stdout


def test_recommendations_are_taken_as_ansible_takes_them_and_what_they_change_is_printed(
    inventory: Path, tmp_path: Path
) -> None:
    file = tmp_path / "recommendations.yml"
    file.write_text('recommended: {kafka_rest_heap_mib: "{{ 1000 * 3 }}"}\n')
    done = run("-i", inventory, "-e", f"@{file}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kafka_rest_heap_mib: not set -> 3000" in done.stdout
    assert "recommended: -Xms3000m -Xmx3000m" in done.stdout


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("@none.yml", "no such file"),
        ("none.yml", "write @FILE for a file of variables"),
        ("@broken.yml", "-e @broken.yml: "),
    ],
)
def test_extra_variables_that_cannot_be_read_are_one_line(
    inventory: Path, tmp_path: Path, word: str, said: str
) -> None:
    (tmp_path / "broken.yml").write_text("recommended: [\n")
    done = run("-i", inventory, "-e", word.replace("@broken", f"@{tmp_path}/broken"))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert said.replace("@broken", f"@{tmp_path}/broken") in done.stderr


def test_files_beside_an_inventory_in_its_folder_are_no_inventories(tmp_path: Path) -> None:
    """As docs/rest_security.md has them, and where people put them."""
    (tmp_path / "hosts.yml").write_text(REST)
    (tmp_path / "files").mkdir()
    for name in ("files/ca.pem", "files/rest1.key", "files/notes", "ca.srl", "keys.jks"):
        (tmp_path / name).write_text("4A0BFF1E\n")
    done = run("-i", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4A0BFF1E" not in done.stdout + done.stderr
