#!/usr/bin/python
"""Finds Kafka's JVMs on a host, and what each runs with: proxies, mirrors, Streams; changes nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_find_jvms
short_description: Find the JVMs of Kafka's REST proxies, mirrors and Streams applications on a host
description:
  - Answers with each process, its unit, ports, command line, environment, limits and the configurations that
    its command line names, and with the host's cores, memory and kernel settings. Reads only.
  - A file is read with the rights of the process that uses it, and in the container that it runs in.
  - Secrets are taken out on the host, by the patterns that the action of this name gives. So are comments.
options:
  mains: {type: list, elements: str, default: [], description: "Main classes that are looked for."}
  kernel: {type: list, elements: str, default: [], description: "Names of sysctls."}
  secret_keys: {type: str, description: "Pattern of keys whose values are secrets; the action gives it."}
  secret_values: {type: str, description: "Pattern of secrets under other keys; the action gives it."}
author: Kedge
"""

EXAMPLES = r"""
- name: Find Kafka's JVMs
  kedge_find_jvms:
  register: running
"""

RETURN = r"""
running:
  description: What runs (C(cores), C(memory_kib), C(kernel), C(processes), C(others)).
  returned: success
  type: dict
refused:
  description: Why there is no account of what runs, in the place of C(running). The play goes on.
  returned: when the module failed on the host, or its answer is none
  type: str
"""

import contextlib
import ctypes
import os
import re
import shlex
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils import host_processes
from ansible.module_utils.basic import AnsibleModule

CGROUPS = Path("/sys/fs/cgroup")
#: What is read of one file, of one process, and of one host; kedge/evidence/border/jvms.py takes no more.
FILE_BYTES = 262_144
PROCESS_BYTES = 262_144
FILES = 8
PROCESSES = 64
JARS = 40
PORTS = 40
READ_SECONDS = 5
#: Over all processes of a host: what is not reached by then is named, so that none keeps the others waiting.
HOST_SECONDS = 60
#: What stands in the place of a secret on a command line or in a variable: it still has the form of one, so
#: that the review says that one stands there.
TAKEN_OUT = "password=TAKEN-OUT"
HIDDEN = "***"
#: What is shorter would be found everywhere.
SHORTEST = 8
#: Variables that decide how a JVM of Kafka's runs; all others stay on the host.
VARIABLE = re.compile(
    r"KAFKA\w*|STRIMZI\w*|JMX_PORT|LOG_DIR|\w*JAVA_OPTS|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|JAVA_HOME"
)
#: Those of them that hold words of a command line.
OPTIONS = re.compile(r"OPT(ION)?S$")
CONFIGURATION = re.compile(r".+\.(properties|config|conf|cfg)")
JAR = re.compile(r"[a-z][a-z0-9_.-]*-\d[\w.+-]*\.jar")
#: Programs of Kafka and of Confluent, which have Kafka Streams on their class path too.
KAFKAS = re.compile(r"(kafka|org\.apache|io\.confluent)\.")
OF_KAFKA = re.compile(r"kafka|connect-mirror|bridge")


#: Of _LINUX_CAPABILITY_VERSION_3, which has two words of 32 bits each.
CAPABILITIES = 0x20080522


class FileRights(NamedTuple):
    """With what a process reads files; a container's root may lack most capabilities of the host's."""

    user: int
    group: int
    groups: list[int]
    capabilities: int


UNKNOWN = FileRights(-1, -1, [], 0)


class Secrets:
    """Takes secrets out of texts, and the ones that it has seen wherever else they stand."""

    def __init__(self, keys: str, values: str) -> None:
        self._keys, self._values = re.compile(keys), re.compile(values)
        self._seen: set[str] = set()

    def of_key(self, key: str, value: str, instead: str = HIDDEN) -> str:
        """Return the value of a key without what is a secret."""
        if not value or not self._keys.search(key):
            return self._values.sub(instead, value)
        within = re.findall(r"""password\s*=\s*["']?([^"';\s]+)""", value)
        self._seen |= {one for one in (value, *within) if len(one) >= SHORTEST}
        return instead if self._values.search(f"{key}={value}") else HIDDEN

    def anywhere(self, value: Any) -> Any:
        """Return an answer without the secrets that were seen under their keys."""
        longest = sorted(map(re.escape, self._seen), key=len, reverse=True)
        # A weak password may be a word that stands within names and paths.
        seen = re.compile("|".join(rf"(?<![\w./-]){one}(?![\w./-])" for one in longest) or "(?!)")
        return _replaced(value, seen)


def _replaced(value: Any, seen: re.Pattern[str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(one, seen) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, seen) for one in value]
    return seen.sub(HIDDEN, value) if isinstance(value, str) else value


def find(mains: list[str], kernel: list[str], secrets: Secrets) -> dict[str, Any]:
    """Return what the module answers."""
    processes, others = [], []
    ends = time.monotonic() + HOST_SECONDS
    for pid in sorted(host_processes.processes(), key=int):
        rights, words = _seen(pid)
        main = host_processes.main_class(words)
        if Path(words[0] if words else "").name != "java":
            continue
        jars = jars_of(pid, words)
        application = not KAFKAS.match(main) and any(jar.startswith("kafka-streams-") for jar in jars)
        if main in mains or application:
            if time.monotonic() > ends:
                said = f"{main}: not read, as {HOST_SECONDS} s of the host are over"
                others.append(f"{host_processes.told(pid)}: {said}"[:300])
                continue
            with contextlib.suppress(ProcessLookupError):  # ended meanwhile
                processes.append(process(pid, rights, words, main, jars, secrets, ends))
        elif jars:
            others.append(f"{host_processes.told(pid)}: {main or 'a jar'}"[:300])
    found = {
        "cores": len(os.sched_getaffinity(0)),
        "memory_kib": memory_kib(),
        "kernel": {key: value for key in kernel if (value := sysctl(key))},
        "processes": processes[:PROCESSES],
        "others": others[:PROCESSES],
    }
    return secrets.anywhere(found)  # type: ignore[no-any-return] # a dict stays one


def _seen(pid: str) -> tuple[FileRights, list[str]]:
    """Return a process's rights and its command line; no command line where they are not of one program.

    One that becomes another user's between the two looks would name files for rights that it has not.
    """
    try:
        rights = _rights(host_processes.PROC / pid)
        words = host_processes.words_of(pid)
        same = _rights(host_processes.PROC / pid) == rights
    except (OSError, LookupError, ValueError):  # ended meanwhile, or not to be seen
        return UNKNOWN, host_processes.words_of(pid)
    return rights, words if same else []


def process(
    pid: str, rights: FileRights, words: list[str], main: str, jars: list[str], secrets: Secrets, ends: float
) -> dict[str, Any]:
    """Return one process, its files as far as there is time; raises ProcessLookupError where it has ended."""
    files, missed = [], []
    for name in configurations(words, main)[:FILES]:
        try:
            lines = list(masked(text_of(pid, name, rights, ends), secrets))
        except (OSError, ValueError) as error:
            missed.append(f"{name}: {getattr(error, 'strerror', None) or error}"[:500])
        else:
            files.append({"path": name[:4096], "lines": lines})
    found = {
        "pid": int(pid),
        "main": main[:500],
        "unit": host_processes.unit_of(pid)[:300],
        "command": command(words, secrets),
        "java": link(pid, "exe"),
        "jars": jars,
        "ports": ports(pid),
        "environment": environment(pid, secrets),
        "limits": limits(pid),
        "files": files,
        "missed": missed,
    }
    if not (host_processes.PROC / pid).is_dir():
        raise ProcessLookupError(pid)
    return found


def configurations(words: list[str], main: str) -> list[str]:
    """Return the files that a command line names behind its main class, as it names them."""
    at = words.index(main) + 1 if main else words.index("-jar") + 2 if "-jar" in words else len(words)
    found: list[str] = []
    before = ""
    for word in words[at:]:
        option, equals, value = word.partition("=")
        name = value if equals and option.startswith("--") else word
        named = (option if equals else before).endswith((".config", "config-file"))
        if name and not name.startswith("-") and (named or CONFIGURATION.fullmatch(name)):
            found.append(name)
        before = word
    return list(dict.fromkeys(found))


def text_of(pid: str, name: str, rights: FileRights, ends: float) -> str:
    """Return a file as the process itself could read it: in its container, with its rights and no others.

    Whoever may start a process could else have root read any file of the host by naming it.

    Raises:
        OSError, ValueError: where it cannot be read; the message says why.
    """
    if rights == UNKNOWN:
        raise ValueError("the rights of its process are not to be seen")
    seconds = min(READ_SECONDS, ends - time.monotonic())
    if seconds <= 0:
        raise ValueError(f"not read, as {HOST_SECONDS} s of the host are over")
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        _child(pid, name, rights, into, seconds)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        data = pipe.read(FILE_BYTES + 100)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        raise ValueError(f"could not be read within {seconds:.1g} s")
    if os.WEXITSTATUS(status):
        raise ValueError(data.decode(errors="replace"))
    text = data.decode()  # UnicodeDecodeError is a ValueError
    if "\0" in text:
        raise ValueError("is no text")
    return text


def _child(pid: str, name: str, rights: FileRights, into: int, seconds: float) -> None:
    """Write a file, or why it is not to be had, into a pipe; never returns."""
    status = 1
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        os.write(into, _read(pid, name, rights))
        status = 0
    except OSError as error:
        os.write(into, (error.strerror or str(error)).encode())
    except (ValueError, LookupError) as error:
        os.write(into, str(error).encode()[:400])
    finally:
        os._exit(status)


def _read(pid: str, name: str, rights: FileRights) -> bytes:
    place = host_processes.PROC / pid
    os.chdir(place / "cwd")
    if os.geteuid() == 0:
        os.chroot(place / "root")
        os.setgroups(rights.groups)
        os.setgid(rights.group)
        os.setuid(rights.user)
        if rights.user == 0:  # every other user has none left
            _keep(rights.capabilities)
    elif str((place / "root").readlink()) != "/":
        raise ValueError("it lies in a container, which only root may look into")
    file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise ValueError("is no file")
    with os.fdopen(file, "rb") as opened:
        data = opened.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise ValueError(f"has more than {FILE_BYTES:,} bytes")
    return data


def _keep(capabilities: int) -> None:
    """Give up all capabilities but these: root without them reads no more than its own files.

    Raises:
        OSError: where the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    failed = libc.capget(header, sets)
    for at, kept in ((0, capabilities & 0xFFFFFFFF), (3, capabilities >> 32)):
        # Effective, permitted and inheritable ones; none is there that the reader itself has not.
        sets[at] &= kept
        sets[at + 1] &= kept
        sets[at + 2] = 0
    if failed or libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _status(place: Path) -> dict[str, str]:
    lines = (place / "status").read_text(errors="replace").splitlines()
    return {key: value for key, _, value in (line.partition(":") for line in lines)}


def _rights(place: Path) -> FileRights:
    said = _status(place)
    # In a user namespace of its own a process has capabilities over that alone.
    same = (place / "ns" / "user").readlink() == (host_processes.PROC / "self" / "ns" / "user").readlink()
    # Of the four ids, the one that decides which files may be read.
    return FileRights(
        int(said["Uid"].split()[3]),
        int(said["Gid"].split()[3]),
        [int(n) for n in said.get("Groups", "").split()],
        int(said["CapEff"], 16) if same else 0,
    )


def masked(text: str, secrets: Secrets) -> Iterator[str]:
    """Yield a properties file's lines without secrets and comments; each key stays in the line it has."""
    held, behind = "", 0
    for raw in text.replace("\r\n", "\n").split("\n"):
        line = raw.lstrip(" \t\f")
        if not held and line[:1] in ("#", "!", ""):
            yield ""
        elif (len(line) - len(line.rstrip("\\"))) % 2:
            held, behind = held + line[:-1], behind + 1
        else:
            yield _masked(held + line, secrets)
            yield from [""] * behind
            held, behind = "", 0
    if held:
        yield _masked(held, secrets)


def _masked(line: str, secrets: Secrets) -> str:
    found = re.match(r"((?:\\.|[^=:\s\\])+)(\s*[=:\s]\s*)(.*)", line)
    if not found:
        return secrets.of_key("", line)
    return f"{found[1]}{found[2]}{secrets.of_key(found[1], found[3])}"


def command(words: list[str], secrets: Secrets) -> str:
    """Return a command line without secrets, and without its class path."""
    kept = []
    rest = iter(word for word in words if word)
    for word in rest:
        if word in host_processes.WITH_VALUE:
            next(rest, None)
            continue
        key, equals, value = word.partition("=")
        kept.append(f"{key}={secrets.of_key(key, value, TAKEN_OUT)}" if equals else word)
    return secrets.of_key("", " ".join(map(shlex.quote, kept)), TAKEN_OUT)[: PROCESS_BYTES // 2]


def environment(pid: str, secrets: Secrets) -> dict[str, str]:
    """Return the variables that decide how a JVM runs, without secrets."""
    try:
        with (host_processes.PROC / pid / "environ").open("rb") as file:
            data = file.read(PROCESS_BYTES + 1)
    except OSError:
        return {}
    # What is cut off may be half a secret, which no pattern finds.
    whole = data if len(data) <= PROCESS_BYTES else data[:PROCESS_BYTES].rpartition(b"\0")[0]
    pairs = whole.decode(errors="replace").split("\0")
    named = (pair.partition("=") for pair in pairs)
    wanted = {k: v for k, _, v in named if VARIABLE.fullmatch(k)}
    plain = {k: _options(v, secrets) if OPTIONS.search(k) else v for k, v in wanted.items()}
    return {k: secrets.of_key(k, v, TAKEN_OUT)[:20_000] for k, v in plain.items()}


def _options(value: str, secrets: Secrets) -> str:
    """Return a variable's options without the secrets among them, each whole."""
    try:
        return command(shlex.split(value), secrets)
    except ValueError:  # its quotes are open
        return HIDDEN if value else value


def link(pid: str, name: str) -> str:
    """Return where a link of a process leads; empty where that is not to be seen."""
    try:
        return str((host_processes.PROC / pid / name).readlink())[:4096]
    except OSError:
        return ""


def jars_of(pid: str, words: list[str]) -> list[str]:
    """Return the names of Kafka's jars that a process was given, or has open: they carry their versions."""
    given = [one for word in words for one in word.split(":")]
    names = {Path(one).name for one in (*given, *host_processes.opened(pid)) if one.endswith(".jar")}
    return sorted(name for name in names if JAR.fullmatch(name) and OF_KAFKA.search(name))[:JARS]


def ports(pid: str) -> list[int]:
    """Return the TCP ports on which a process listens, in its own network."""
    opened = host_processes.opened(pid)
    listens = host_processes.listening(host_processes.PROC / pid / "net")
    return sorted({port for inode, port in listens if f"socket:[{inode}]" in opened})[:PORTS]


def limits(pid: str) -> dict[str, str]:
    """Return the limits in force, as a unit writes them."""
    found = {}
    with contextlib.suppress(OSError, LookupError):
        text = (host_processes.PROC / pid / "limits").read_text(errors="replace")
        found["LimitNOFILE"] = re.findall(r"(?m)^Max open files\s+(\d+)", text)[0]
    for name, directive in (("memory.max", "MemoryMax"), ("pids.max", "TasksMax"), ("cpu.max", "CPUQuota")):
        said = _of_group(pid, name).split()
        if not said or not said[0].isdigit():
            continue
        if directive == "CPUQuota" and len(said) == 2 and said[1].isdigit() and int(said[1]):
            found[directive] = f"{int(said[0]) * 100 // int(said[1])}%"
        elif directive != "CPUQuota":
            found[directive] = f"{int(said[0]) >> 20}M" if directive == "MemoryMax" else said[0]
    return {key: value[:40] for key, value in found.items()}


def _of_group(pid: str, name: str) -> str:
    with contextlib.suppress(OSError):
        for line in (host_processes.PROC / pid / "cgroup").read_text(errors="replace").splitlines():
            number, _, path = line.rpartition(":")
            if number == "0:" and ".." not in path.split("/"):
                text: str = (CGROUPS / path.lstrip("/") / name).read_text(errors="replace")
                return text
    return ""


def memory_kib() -> int:
    """Return the host's memory; 0 where the kernel does not say."""
    with contextlib.suppress(OSError, LookupError):
        text = str((host_processes.PROC / "meminfo").read_text(errors="replace"))
        return int(re.findall(r"(?m)^MemTotal:\s+(\d{1,15}) kB", text)[0])
    return 0


def sysctl(key: str) -> str:
    """Return what the kernel has of a key; empty where it has none."""
    with contextlib.suppress(OSError):
        return " ".join(
            (host_processes.PROC / "sys" / key.replace(".", "/")).read_text(errors="replace").split()
        )[:200]
    return ""


def main() -> None:
    """Run the module."""
    pattern = {"type": "str", "no_log": False}
    names: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={"mains": names, "kernel": names, "secret_keys": pattern, "secret_values": pattern},
        supports_check_mode=True,
    )
    given = module.params
    if not given["secret_keys"] or not given["secret_values"]:
        module.fail_json(
            msg="secret_keys and secret_values are missing, and nothing was read. Run review.yml"
        )
    secrets = Secrets(given["secret_keys"], given["secret_values"])
    module.exit_json(changed=False, running=find(given["mains"], given["kernel"], secrets))


if __name__ == "__main__":
    main()
