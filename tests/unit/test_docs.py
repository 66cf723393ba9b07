"""The documentation's commands are real: each is run here, or by the test that the table names."""

from __future__ import annotations

import functools
import io
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from kedge import cli

ROOT = Path(__file__).resolve().parents[2]
DOCS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "lab" / "measurements").glob("*.md")),
    ROOT / "lab" / "services" / "sandbox_rest" / "README.md",
]

#: Commands that take a fleet or minutes, and where they run.
ELSEWHERE = {
    "pipx install .": "tests/render/test_outside.py, by the wheel",
    "kedge review docker-compose.yml": "tests/unit/test_review.py",
    "make demo": "tests/e2e/test_demo.py",
    ".venv/bin/python -m lab.bench.mirror": "tests/kafka/test_bench_mirror.py, smaller",
    "make demo-mirror": "tests/e2e/test_mirror_demo.py, with a smaller load",
    "make test": ".ci/run",
    "make setup": "every target of the Makefile calls it",
    "python3 -m kedge.setup --without-fleet": "tests/unit/test_local_setup.py, with --check",
    "make bundle": "tests/setup/test_offline.py, by the same function",
    "sha256sum -c kedge-VERSION-python3.11-x86_64.tar.sha256": "tests/unit/test_bundle.py",
    "make setup BUNDLE=kedge-VERSION-python3.11-x86_64.tar": "tests/setup/test_offline.py",
    "make check": "its commands are those of make lint and make test-fast",
    "make lint": "make test calls it",
    "make bench-clients": "tests/kafka/test_three_brokers.py, its phases one by one",
    "make test-fast": "make test calls it",
    ".venv/bin/kedge explain linger.ms -i inventories/mine": "tests/unit/test_explain.py",
    ".venv/bin/kedge review FILE...": "tests/unit/test_review.py",
    ".venv/bin/ansible-playbook -i HOSTS review.yml": "tests/unit/test_host_review.py, on stubs of hosts",
    ".venv/bin/ansible-playbook -i inventories/mine plan.yml": "tests/e2e/test_demo.py, on the local fleet",
    ".venv/bin/ansible-playbook -i inventories/mine deploy.yml": "tests/e2e/test_demo.py, on the local fleet",
    ".venv/bin/ansible-playbook -i inventories/mine rolling_restart.yml": "verify.yml imports it",
    ".venv/bin/ansible-playbook -i inventories/mine rollback.yml -e service=kafka_rest": "tests/e2e/test_changes.py",
    ".venv/bin/ansible-playbook -i inventories/mine reboot.yml --limit localhost,rest1": "tests/e2e/test_changes.py",
    ".venv/bin/ansible-playbook -i inventories/mine verify.yml": "tests/e2e/test_demo.py, on the local fleet",
    ".venv/bin/ansible-playbook -i inventories/mine verify.yml -e verify_steps=watch": "tests/kafka/test_watch.py",
    ".venv/bin/ansible-playbook -i inventories/mine rolling_restart.yml -e watch=true": "tests/e2e/test_watch_demo.py",
    ".venv/bin/python -m verify.audit --run-dir runs/latest --inventory runs/latest/inventory.yml": "verify.yml starts it",
    "make demo-watch LOAD=5000": "tests/e2e/test_watch_demo.py",
    ".venv/bin/kedge audit --evidence runs/latest/evidence --slo runs/latest/slo.yml "
    "--out runs/latest/report --history runs/history": "tests/spark/test_audit.py, tests/e2e/test_demo.py",
    ".venv/bin/kedge audit compare runs/before runs/after": "tests/unit/test_compare.py",
    ".venv/bin/python -m kedge.setup.jars get hadoop-aws-3.4.1": "set-up of make test-long, by the same function",
    ".venv/bin/python -m spark_checks.package build/audit": "tests/unit/test_package.py",
    ".venv/bin/python -m lab.bench.rebalance": "tests/kafka/test_bench_rebalance.py, smaller",
    ".venv/bin/python -m tests.faults": "tests/faults, with fewer mixtures",
    ".venv/bin/kedge measure --inventory inventories/mine --cluster leaf --record-bytes 1000 "
    "--replication 3": "tests/kafka/test_measure.py, by --bootstrap-servers",
    ".venv/bin/kedge watch-topic --inventory inventories/mine --cluster leaf --topic orders "
    "--by-partition": "tests/kafka/test_watch_topic.py, by --bootstrap-servers",
    ".venv/bin/kedge limits --inventory inventories/mine --cluster leaf": (
        "tests/kafka/test_limits.py, by --bootstrap-servers"
    ),
    ".venv/bin/python -m lab.bench.rest --inventory inventories/mine": (
        "tests/unit/test_bench_rest.py, without a fleet"
    ),
    ".venv/bin/kedge clients --inventory inventories/mine --out build": "test_sizing_client_files.py",
}

#: A module that is run, and what is given to it, in a block or between backticks.
CALL = re.compile(r"python3? -m\s+([a-z_.]+)([^`\n|]*(?:\n[^`\n]+(?=`))?)")
COMMAND = re.compile(r"(?:\.venv/bin/|`)kedge ([a-z-]+)([^`\n|]*)")


@functools.cache
def asked(*module: str) -> str:
    """Return what a module answers to --help."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as monkeypatch, redirect_stdout(said):
        monkeypatch.setattr(sys, "argv", [*module, "--help"])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(module[0], run_name="__main__", alter_sys=True)
    assert not ended.value.code
    return said.getvalue()


def commands(path: Path) -> list[str]:
    text = path.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    found = [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]
    return found + re.findall(r"\| `(\.venv/bin/[^`]+)` \|", text)


@pytest.mark.process
def test_every_command_of_the_readme_is_tested_here_or_elsewhere(tmp_path: Path) -> None:
    own = [c for c in commands(ROOT / "README.md") if c not in ELSEWHERE]
    assert not [
        c for page in ("README", "demo") for c in commands(ROOT / f"docs/{page}.md") if c not in ELSEWHERE
    ]
    assert own == [
        "cp -rn inventories/example/. inventories/mine",
        ".venv/bin/kedge plan --inventory inventories/mine --all",
    ]
    mine = tmp_path / "mine"
    for _ in "once", "again":
        subprocess.run(own[0].replace("inventories/mine", str(mine)).split(), cwd=ROOT, check=True)
    assert not (mine / "example").exists()
    done = subprocess.run(
        [sys.executable, "-m", "kedge", "plan", "--inventory", str(mine), "--all"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "0 errors" in done.stdout
    shown = re.search(r"(?m)^    (KAFKAREST_HEAP_OPTS=.*)$", (ROOT / "README.md").read_text())
    assert shown
    assert shown[1] in done.stdout


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for path in DOCS:
        named = set(re.findall(r"(?:`|^)make\s([a-z-]+)", path.read_text(), flags=re.MULTILINE))
        assert named <= targets, path


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page, as GitHub makes them of its headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_of_it(path: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", path.read_text()):
        linked = path.parent / link if link else path
        assert linked.exists(), link
        assert not anchor or anchor in anchors(linked), f"{link}#{anchor}"


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "docs/supported.md"])
def test_every_path_that_is_named_exists(page: str) -> None:
    for path in re.findall(r"`([\w.-]+/[\w./-]*)`", (ROOT / page).read_text()):
        if not path.startswith(("runs/", ".venv/")) and "NAME" not in path:
            assert (ROOT / path).exists(), path


@pytest.mark.filterwarnings("ignore:.*found in sys.modules after import:RuntimeWarning")
@pytest.mark.parametrize("path", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_that_is_called_exists_and_has_the_options(path: Path) -> None:
    for module, arguments in CALL.findall(path.read_text()):
        if module == "pytest":
            continue
        # local.py leads from the name of 0.1.0 to it.
        place = ROOT / {"local.setup": "kedge.setup"}.get(module, module).replace(".", "/")
        assert (place / "__main__.py").exists() or place.with_suffix(".py").exists(), module
        for option in re.findall(r"(?<!\S)(--[a-z-]+)", arguments):
            word = arguments.split()[0]
            text = asked(module, *([word] if word.isalpha() else []))
            assert re.search(rf"{option}(?![a-z-])", text), f"{module} {option}"


@pytest.mark.process
@pytest.mark.parametrize("path", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_that_is_called_exists_and_has_the_options(path: Path) -> None:
    for command, arguments in COMMAND.findall(path.read_text()):
        assert command in cli.COMMANDS, command
        for option in re.findall(r"(?<!\S)(--[a-z-]+)", arguments):
            assert re.search(rf"{option}(?![a-z-])", asked("kedge", command)), f"kedge {command} {option}"
