"""What a host says of its JVMs: found in a /proc of files, whatever lies there, and without a secret."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kedge.evidence.border.jvms import running
from kedge.evidence.border.untrusted import UntrustedError
from kedge.evidence.secrets import PATTERNS, holds_secret
from plugins.modules import kedge_find_jvms
from plugins.modules.kedge_find_jvms import Secrets, find, masked

pytestmark = pytest.mark.process

MAIN = "io.confluent.kafkarest.KafkaRestMain"
MAINS = [MAIN, "org.apache.kafka.connect.mirror.MirrorMaker", "kafka.tools.MirrorMaker"]
ALL, NONE = "000001ffffffffff", "0000000000000000"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


class Host:
    """A host's /proc and control groups, as files below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = folder / "proc"
        (self.proc / "net").mkdir(parents=True)
        (self.proc / "self" / "ns").mkdir(parents=True)
        (self.proc / "self" / "ns" / "user").symlink_to("user:[1]")
        (self.proc / "meminfo").write_text("MemFree: 1 kB\nMemTotal:       16384000 kB\n")

    def process(self, pid: int, *words: str, user: int | None = None, **files: str | bytes) -> Path:
        """Add a process with this command line; ``files`` lie in its folder."""
        place = self.proc / str(pid)
        (place / "fd").mkdir(parents=True)
        (place / "net").mkdir()
        (place / "ns").mkdir()
        (place / "ns" / "user").symlink_to("user:[1]")
        given: dict[str, str | bytes] = {
            "cmdline": "\0".join((*words, "")),
            "cgroup": f"0::/system.slice/kafka-{pid}.service\n",
            "status": f"Name:\tjava\nUid:\t{'	'.join([str(os.getuid() if user is None else user)] * 4)}\n"
            f"Gid:\t{'	'.join([str(os.getgid() if user is None else user)] * 4)}\nGroups:\t\n"
            f"CapEff:\t{ALL}\n",
        }
        for name, content in (given | files).items():
            (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        (place / "cwd").symlink_to(self.folder)
        (place / "root").symlink_to("/")
        return place

    def found(self) -> dict[str, Any]:
        """What the module answers."""
        return find(MAINS, ["net.core.somaxconn", "vm.missing"], Secrets(*PATTERNS))

    def one(self) -> dict[str, Any]:
        """The only process that it finds."""
        (process,) = self.found()["processes"]
        return dict(process)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path)
    monkeypatch.setattr(kedge_find_jvms.host_processes, "PROC", made.proc)
    monkeypatch.setattr(kedge_find_jvms, "CGROUPS", tmp_path / "groups")
    return made


def test_a_proxy_is_found_with_all_that_it_runs_with(host: Host, tmp_path: Path) -> None:
    (tmp_path / "kafka-rest.properties").write_text("# why\na = 1\n")
    place = host.process(
        7,
        *("/usr/bin/java", "-Xmx1g", "-cp", "/usr/share/java/kafka-rest/*", MAIN, "kafka-rest.properties"),
        environ="KAFKAREST_HEAP_OPTS=-Xmx1g\0HOME=/root\0AWS_THING=x\0",
        limits="Limit  Soft Hard Units\nMax open files            4096                 524288               files\n",
    )
    (place / "fd" / "3").symlink_to("/usr/share/java/kafka-rest/kafka-rest-7.9.1.jar")
    (place / "fd" / "4").symlink_to("socket:[99]")
    line = "0: 00000000:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 99 1 x"
    (place / "net" / "tcp").write_text(f"  sl  local_address\n  {line}\n")
    group = tmp_path / "groups" / "system.slice" / "kafka-7.service"
    group.mkdir(parents=True)
    for name, value in (("memory.max", "1073741824"), ("pids.max", "max"), ("cpu.max", "150000 100000")):
        (group / name).write_text(f"{value}\n")
    (host.proc / "sys" / "net" / "core").mkdir(parents=True)
    (host.proc / "sys" / "net" / "core" / "somaxconn").write_text("4096\n")
    found = host.found()
    assert found["memory_kib"] == 16_384_000
    assert found["kernel"] == {"net.core.somaxconn": "4096"}
    assert running(found).processes[0].model_dump() == {
        "pid": 7,
        "main": MAIN,
        "unit": "kafka-7.service",
        "command": f"/usr/bin/java -Xmx1g {MAIN} kafka-rest.properties",
        "java": "",
        "jars": ["kafka-rest-7.9.1.jar"],
        "ports": [8082],
        "environment": {"KAFKAREST_HEAP_OPTS": "-Xmx1g"},
        "limits": {"LimitNOFILE": "4096", "MemoryMax": "1024M", "CPUQuota": "150%"},
        "files": [{"path": "kafka-rest.properties", "lines": ["", "a = 1", ""]}],
        "missed": [],
    }


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([MAIN, "/etc/a.properties"], ["/etc/a.properties"]),
        ([MAIN, "--config-file=/etc/b"], ["/etc/b"]),
        (["kafka.tools.MirrorMaker", "--consumer.config", "/c", "--producer.config", "p", "--whitelist", "x.cfg|y"],
         ["/c", "p"]),
        ([MAIN, "--help", "word"], []),
        ([MAIN, "--consumer.config"], []),
    ],
)  # fmt: skip
def test_files_are_those_that_the_command_line_names(words: list[str], named: list[str]) -> None:
    assert kedge_find_jvms.configurations(["java", "-Dx=y.properties", *words], words[0]) == named


def test_programs_of_kafka_itself_are_named_alone_and_others_not_at_all(host: Host) -> None:
    host.process(
        1, "java", "-cp", "/opt/kafka/libs/kafka-clients-4.3.1.jar:kafka-streams-4.3.1.jar", "kafka.Kafka"
    )
    host.process(2, "java", "-cp", "x.jar", "com.acme.Shop")
    host.process(3, "vim", MAIN)
    host.process(4, "java", "-cp", "lib/kafka-streams-4.3.1.jar", "com.acme.Joins", "joins.properties")
    found = host.found()
    assert [one["main"] for one in found["processes"]] == ["com.acme.Joins"]
    assert [other.rpartition(": ")[2] for other in found["others"]] == ["kafka.Kafka"]


def test_no_secret_leaves_the_host_wherever_it_stands(host: Host, tmp_path: Path) -> None:
    (tmp_path / "r.properties").write_text(
        "client.ssl.key.password=sesame-one\n#old.password=sesame-two\n"
        'client.sasl.jaas.config=x required username="me" \\\n   password="sesame-three";\n'
        "schema.registry.url=https://u:sesame-four@sr\nmy.hint=sesame-three\nplain=\\\n  two\n"
    )
    host.process(
        7,
        *(
            "java",
            "-Dssl.password=sesame-five",
            "-Dsasl.jaas.config=a",
            MAIN,
            "r.properties",
            "--token",
            "sesame-six",
            "db.password=ab,sesame-nine",
        ),
        environ="KAFKA_OPTS=-Dx.password=ab,sesame-seven -Dok=1\0KAFKA_REST_CLIENT_PASSWORD=sesame-eight\0",
    )
    found = host.one()
    assert "sesame" not in json.dumps(found)
    assert found["files"][0]["lines"] == [
        "client.ssl.key.password=***",
        "",
        "client.sasl.jaas.config=***",
        "",
        "schema.registry.url=***sr",
        "my.hint=***",
        "plain=two",
        "",
        "",
    ]
    # What stands where everybody may read it is said to do so.
    assert holds_secret(found["command"])
    assert holds_secret(found["environment"]["KAFKA_OPTS"])


def test_a_key_without_a_value_and_a_file_that_ends_within_a_line_are_read() -> None:
    secrets = Secrets(*PATTERNS)
    assert list(masked("alone\na=1\\", secrets)) == ["alone", "a=1"]
    assert list(masked("p.password:sesame-one\\\n", secrets)) == ["p.password:***", ""]


def test_a_huge_environment_is_read_up_to_a_whole_variable(host: Host) -> None:
    secret = "KAFKA_OPTS=http://user:" + "s" * kedge_find_jvms.PROCESS_BYTES + "@host"
    host.process(7, "java", MAIN, environ=f"KAFKA_HEAP_OPTS=-Xmx1g\0{secret}\0")
    assert host.one()["environment"] == {"KAFKA_HEAP_OPTS": "-Xmx1g"}


def test_a_file_that_is_no_configuration_is_left_out_with_the_reason(host: Host, tmp_path: Path) -> None:
    (tmp_path / "binary.properties").write_bytes(bytes(range(256)))
    (tmp_path / "nul.properties").write_bytes(b"a=1\0")
    (tmp_path / "large.properties").write_bytes(b"a" * (kedge_find_jvms.FILE_BYTES + 1))
    (tmp_path / "folder.properties").mkdir()
    os.mkfifo(tmp_path / "pipe.properties")
    (tmp_path / "round.properties").symlink_to("round.properties")
    names = ["binary", "nul", "large", "folder", "pipe", "round", "gone"]
    host.process(7, "java", MAIN, *(f"{name}.properties" for name in names))
    found = host.one()
    assert found["files"] == []
    said = {line.partition(".")[0]: line.partition(": ")[2] for line in found["missed"]}
    assert list(said) == names
    assert said["pipe"] == said["folder"] == "is no file"
    assert said["large"] == "has more than 262,144 bytes"
    assert said["gone"] == "No such file or directory"
    assert all(said.values())


@ROOT_ONLY
def test_no_file_is_read_that_the_process_itself_may_not_read(host: Host, tmp_path: Path) -> None:
    """Somebody without rights starts a program called java, and names a file of root's."""
    (tmp_path / "shadow").write_text("root:hash\n")
    (tmp_path / "shadow").chmod(0o600)
    (tmp_path / "link.properties").symlink_to("shadow")
    host.process(7, "java", MAIN, "link.properties", user=65_534)
    found = host.one()
    assert (found["files"], len(found["missed"])) == ([], 1)
    assert "Permission denied" in found["missed"][0]


@ROOT_ONLY
@pytest.mark.parametrize(
    ("capabilities", "namespace", "read"),
    [(ALL, "user:[1]", True), (NONE, "user:[1]", False), (ALL, "user:[2]", False)],
)
def test_root_of_a_container_has_no_file_read_with_capabilities_that_it_lacks(
    host: Host, tmp_path: Path, capabilities: str, namespace: str, read: bool
) -> None:
    """Root without capabilities may read what is root's, as in a container, and no other user's file."""
    for name, owner in (("own", 0), ("other", 65_534)):
        file = tmp_path / f"{name}.properties"
        file.write_text("a=1\n")
        file.chmod(0o600)
        os.chown(file, owner, owner)
    place = host.process(7, "java", MAIN, "own.properties", "other.properties", user=0)
    (place / "status").write_text((place / "status").read_text().replace(ALL, capabilities))
    (place / "ns" / "user").unlink()
    (place / "ns" / "user").symlink_to(namespace)
    found = host.one()
    assert [file["path"] for file in found["files"]] == ["own.properties", *["other.properties"] * read]
    assert found["missed"] == ([] if read else ["other.properties: Permission denied"])


@ROOT_ONLY
def test_a_reader_cannot_take_back_the_capabilities_that_it_gave_up() -> None:
    if not (child := os.fork()):
        kedge_find_jvms._keep(1)
        status = Path("/proc/self/status").read_text()
        sets = [
            int(line.split()[1], 16)
            for line in status.splitlines()
            if line[:6] in ("CapInh", "CapPrm", "CapEff")
        ]
        os._exit(int(any(held & ~1 for held in sets)))
    assert os.waitpid(child, 0)[1] == 0


def test_a_file_that_hangs_keeps_the_other_processes_of_its_host_waiting_no_longer_than_their_time(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.process(7, "java", MAIN, "one.properties", "two.properties")
    host.process(8, "java", MAIN)
    monkeypatch.setattr(kedge_find_jvms, "HOST_SECONDS", 0.2)
    monkeypatch.setattr(kedge_find_jvms, "_read", lambda *_: signal.pause())
    found = host.found()
    (one,) = found["processes"]
    assert one["missed"] == [
        "one.properties: could not be read within 0.2 s",
        "two.properties: not read, as 0.2 s of the host are over",
    ]
    assert [other.partition(": ")[2] for other in found["others"]] == [
        f"{MAIN}: not read, as 0.2 s of the host are over"
    ]
    assert running(found)


@ROOT_ONLY
def test_a_name_leads_within_the_container_of_its_process(host: Host, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    (inside / "etc").mkdir(parents=True)
    (inside / "etc" / "r.properties").write_text("a=inside\n")
    (inside / "etc" / "out.properties").symlink_to(tmp_path / "outside.properties")
    (tmp_path / "outside.properties").write_text("a=outside\n")
    place = host.process(7, "java", MAIN, "/etc/r.properties", "/etc/out.properties")
    (place / "root").unlink()
    (place / "root").symlink_to(inside)
    found = host.one()
    assert [file["lines"][0] for file in found["files"]] == ["a=inside"]
    assert [line.partition(":")[0] for line in found["missed"]] == ["/etc/out.properties"]


def test_a_process_that_ends_meanwhile_is_no_failure(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    place = host.process(7, "java", MAIN)
    host.process(8, "java", MAIN)
    kept = kedge_find_jvms.environment

    def ends(pid: str, secrets: Secrets) -> dict[str, str]:
        if pid == "7":
            place.rename(place.with_name("ended"))
        return kept(pid, secrets)

    monkeypatch.setattr(kedge_find_jvms, "environment", ends)
    assert host.one()["pid"] == 8


def test_what_lies_in_proc_is_taken_as_it_comes(host: Host) -> None:
    host.process(7, "java", MAIN, "x.properties", cmdline=b"java\0" + MAIN.encode() + b"\0\xff\x1b[2J\0", cgroup="0::/../..\n",
                 limits=b"\xff", environ=b"KAFKA_OPTS=\xff\x1b\0=\0\0", status="")  # fmt: skip
    found = host.found()
    assert running(found).processes[0].environment["KAFKA_OPTS"].isprintable()
    assert running(found).processes[0].command.isprintable()
    (host.proc / "8").mkdir()  # a process of which nothing is to be seen
    assert len(host.found()["processes"]) == 1


@pytest.mark.parametrize(
    "change", [{"pid": -1}, {"files": [{"path": "/x"}]}, {"ports": [0]}, {"more": 1}, {"unit": 1}]
)
def test_an_answer_that_is_no_account_is_refused(host: Host, change: dict[str, Any]) -> None:
    host.process(7, "java", MAIN)
    found = host.found()
    found["processes"][0] |= change
    with pytest.raises(UntrustedError, match="no account of what runs"):
        running(found)
