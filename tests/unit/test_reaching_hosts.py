"""Hosts behind a bastion, and a sudo that asks: ssh gets options as arguments, sudo its password by standard input.

``ssh`` is a stub on the PATH that writes down what it was called with and reads what it is given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import context
from ansible.module_utils.common.collections import ImmutableDict
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

from plugins.action.kedge_plan import _become, _connection
from verify.collect import remote
from verify.collect.hosts import CollectError, forward, ssh, to_access
from verify.watch.host_watcher import HostWatcher

PASSWORD = "sesame-sesame"
BASTION = {
    "ansible_host": "10.0.0.1",
    "ansible_become": True,
    "ansible_ssh_common_args": "-o ProxyJump=jump@bastion:2222 -o StrictHostKeyChecking=yes -C",
    "ansible_ssh_extra_args": "-oCompression=yes -o Port=1",
}


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_SECRETS", json.dumps({"become": {"h": PASSWORD}}))


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stub of ssh: its arguments and its standard input go to a file."""
    said = tmp_path / "said.json"
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"open({str(said)!r}, 'w').write(json.dumps([sys.argv[1:], sys.stdin.read()]))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return said


@pytest.mark.process
def test_options_of_the_inventory_reach_ssh_as_arguments_and_what_kedge_says_stays(stub: Path) -> None:
    command = ssh(
        to_access("h", BASTION | {"ansible_ssh_extra_args": "-o 'ProxyCommand=a; touch /b'"}), ["true"]
    )
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    given, _ = json.loads(stub.read_text())
    assert [given[at + 1] for at, word in enumerate(given) if word == "-o"][-2:] == [
        "ProxyJump=jump@bastion:2222",
        "ProxyCommand=a; touch /b",
    ]
    assert "-C" not in given
    assert given.count("StrictHostKeyChecking=yes") == 1
    assert given[-2:] == ["10.0.0.1", "sudo -n true"]


def test_arguments_that_ssh_is_given_otherwise_are_left_out() -> None:
    assert to_access("h", BASTION).options == ("-o", "ProxyJump=jump@bastion:2222", "-o", "Compression=yes")
    assert to_access("h", {"ansible_ssh_extra_args": "-J a,b -J"}).options == ("-J", "a,b")
    args = "-C -o ControlMaster=auto -o ControlPersist=60s -F /own/ssh.cfg -J bastion -o StrictHostKeyChecking=yes"
    later = {"ansible_ssh_common_args": "-o StrictHostKeyChecking=no"}
    access = to_access("h", {"ansible_ssh_args": args} | later)
    assert access.options == ("-J", "bastion")
    assert access.strict == "yes"
    with pytest.raises(CollectError, match="ansible_ssh_common_args or ansible_ssh_extra_args of host h"):
        to_access("h", {"ansible_ssh_common_args": "-o 'ProxyJump=b"})


@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        ("-J bastion", ["-W", "10.0.0.1:22", "bastion"]),
        ("-o ProxyJump=a,jump@b:2222", ["-J", "a", "-W", "10.0.0.1:22", "ssh://jump@b:2222"]),
        ("-o ProxyJump=none", None),
        ("", None),
    ],
)
def test_evidence_goes_over_the_same_bastion(arguments: str, way: list[str] | None) -> None:
    command = forward(to_access("h", {"ansible_host": "10.0.0.1", "ansible_ssh_common_args": arguments}))
    if way is None:
        assert command == []
    else:
        assert command == ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *way]


def test_a_proxy_command_is_words_with_host_and_port_in_their_places() -> None:
    arguments = "-o ProxyCommand='ssh -W %h:%p bastion'"
    access = to_access("h", {"ansible_host": "10.0.0.1", "ansible_ssh_common_args": arguments})
    assert forward(access) == ["ssh", "-W", "10.0.0.1:22", "bastion"]


@pytest.mark.process
@pytest.mark.usefixtures("asking")
def test_samples_give_sudo_its_password_by_standard_input(stub: Path, tmp_path: Path) -> None:
    access = to_access("h", BASTION)
    command = ssh(access, ["true"])
    assert command[-1] == "sudo -S -p '' true"
    assert PASSWORD not in " ".join(command)
    watcher = HostWatcher("h", {}, command, tmp_path / "evidence", PASSWORD)
    watcher._read()
    given, read = json.loads(stub.read_text())
    assert read == f"{PASSWORD}\n"
    assert PASSWORD not in " ".join(given)


@pytest.mark.usefixtures("asking")
def test_evidence_gives_sudo_its_password_by_standard_input() -> None:
    sent: list[Any] = []
    channel = SimpleNamespace(
        exec_command=sent.append,
        sendall=sent.append,
        shutdown_write=lambda: sent.append(None),
        settimeout=lambda _: None,
        recv=lambda _: b"",
        status_event=threading.Event(),
        exit_status=0,
        close=lambda: None,
    )
    channel.status_event.set()
    client = SimpleNamespace(get_transport=lambda: SimpleNamespace(open_session=lambda timeout: channel))
    remote._printed(client, "date", to_access("h", BASTION), float("inf"))
    assert sent == ["sudo -S -p '' sh -c date", f"{PASSWORD}\n".encode(), None]


@pytest.mark.parametrize(
    ("variables", "command", "reached"),
    [
        (
            {"ansible_ssh_host": "10.0.0.9", "ansible_ssh_user": "x", "ansible_ssh_port": 2222},
            {"remote_user": "bob", "private_key_file": "/k"},
            {
                "ansible_host": "10.0.0.9",
                "ansible_user": "x",
                "ansible_port": 2222,
                "ansible_ssh_private_key_file": "/k",
            },
        ),
        (
            {"ansible_private_key_file": "/own"},
            {"remote_user": "bob", "become": True, "become_method": "doas", "connection": "ssh"},
            {
                "ansible_host": "h",
                "ansible_user": "bob",
                "ansible_become": True,
                "ansible_become_method": "doas",
                "ansible_ssh_private_key_file": "/own",
            },
        ),
        (
            {"ansible_connection": "local", "ansible_user": "own"},
            {"remote_user": "bob", "become": False, "become_method": "sudo", "connection": "ssh"},
            {"ansible_host": "h", "ansible_connection": "local", "ansible_user": "own"},
        ),
        (
            {"ansible_ssh_args": "-J bastion"},
            {"connection": "ssh"},
            {"ansible_host": "h", "ansible_ssh_args": "-J bastion"},
        ),
    ],
)
def test_a_run_reaches_hosts_as_ansible_does(
    variables: dict[str, Any],
    command: dict[str, Any],
    reached: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader()
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict(command))
    found = _connection("h", variables)
    assert found.pop("ansible_ssh_common_args").startswith("-o ControlPath=")
    default = {"ansible_ssh_args": found["ansible_ssh_args"]}  # of the configuration
    assert found == default | reached


@pytest.mark.parametrize(
    "variables", [{"ansible_connection": "local"}, {"ansible_become": True, "ansible_become_method": "doas"}]
)
def test_what_collects_says_what_it_does_not_reach(variables: dict[str, Any]) -> None:
    with pytest.raises(CollectError, match=r"of host h is (local|doas): evidence comes by (ssh|sudo)"):
        to_access("h", variables)


def test_the_password_of_a_host_is_its_own_or_the_one_that_was_asked_for() -> None:
    hosts: dict[str, dict[str, Any]] = {
        "a": {"ansible_become": True, "ansible_become_password": "of-a"},
        "b": {"ansible_become": True},
        "c": {},
    }
    assert _become(hosts, hosts, "asked") == {"become": {"a": "of-a", "b": "asked"}}
    assert _become(hosts, ["b", "c"], None) == {}
