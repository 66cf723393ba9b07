"""What trials start is reached as the person reached the playbook, and no secret of a file is shown."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ansible.cli.playbook import PlaybookCLI
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader

from plugins.action.kedge_command import words


def given(*options: str) -> dict[str, Any]:
    cli = PlaybookCLI(["ansible-playbook", *options, "capacity.yml"])
    cli.init_parser()
    return vars(cli.post_process_args(cli.parser.parse_args(cli.args[1:])))


def called(*options: str) -> list[str]:
    return words(given(*options), ["inventories/mine"], DataLoader())[0][1:]


def test_hosts_are_reached_and_vaults_opened_as_before(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    found = called(
        "--vault-password-file", str(secret), "--vault-id", f"prod@{secret}", "--user", "ops", "--become",
        "--private-key", str(secret), "--become-password-file", str(secret),
    )  # fmt: skip
    pairs = list(pairwise(found))
    assert found[:2] == ["-i", "inventories/mine"]
    for pair in (
        ("--vault-password-file", str(secret)),
        ("--vault-id", f"prod@{secret}"),
        ("--user", "ops"),
        ("--private-key", str(secret)),
        ("--become-password-file", str(secret)),
    ):
        assert pair in pairs
    assert "--become" in found


def test_variables_in_a_file_stay_there_and_those_of_the_command_line_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secrets.yml").write_text("kafka_password: s3cret\n")
    options = given(
        "-e", "db_pass=planted resume=1 trials_full_s=9", "-e", "@secrets.yml", "-e", '{"arms": "a,b"}',
        "-e", '{"verify": {"rest": {"password": "planted"}}}',
    )  # fmt: skip
    command, variables = words(options, ["inventories/mine"], DataLoader())
    files = f"@{tmp_path / 'secrets.yml'}"
    # In their order, for the last one wins.
    assert command[3:] == ["-e", "@<variables>0", "-e", files, "-e", "@<variables>1"]
    assert [json.loads(one) for one in variables] == [
        {"db_pass": "planted"},
        {"verify": {"rest": {"password": "planted"}}},
    ]


@pytest.mark.parametrize(
    ("option", "named"),
    [
        (("--ask-pass",), "--ask-pass"),
        (("--ask-become-pass",), "--ask-become-pass"),
        (("--ask-vault-pass",), "--ask-vault-pass"),
        (("--vault-id", "prod@prompt"), "--vault-id prod@prompt"),
    ],
)
def test_what_would_be_asked_again_is_refused_by_its_name(option: tuple[str, ...], named: str) -> None:
    with pytest.raises(AnsibleActionFail, match=f"^{named} cannot be typed for every load test"):
        called(*option)
