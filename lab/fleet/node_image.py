"""The image of a node: a Debian root made by mmdebstrap, without any registry of images.

``KEDGE_NODE_IMAGE`` chooses it. ``prepared``, the default, has the packages that roles install: fast;
``bookworm`` and ``trixie`` have systemd, sshd and Python alone, and empty package lists.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from kedge.setup import children
from kedge.setup.paths import PROJECT, cache_root
from kedge.setup.problem import Problem
from lab.fleet.engine import Engine
from lab.fleet.lock import alone

RECIPE = PROJECT / "lab" / "fleet" / "image"
SUITE = "bookworm"
CHOICE = "KEDGE_NODE_IMAGE"
_PREPARED = "prepared"
_BARE = ("bookworm", "trixie")
_AUTHORITIES = Path("/usr/local/share/ca-certificates")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Nobody reads manuals or builds Java runtimes in a node.
LEFT_OUT = ("/usr/share/man/man*/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/lib/jvm/*/jmods/*")
WORK = Path("/var/tmp")  # noqa: S108 - mkdtemp makes a folder of its own there
PACKED_MB, UNPACKED_MB = 500, 700
STEPS = ("I: downloading", "I: extracting", "I: installing", "I: creating tarball")
_TARGETS = "$(ORIGIN) $(CODENAME) $(REPO_URI) $(RELEASE) $(COMPONENT)"


def chosen() -> str:
    """Return which image is asked for; raises Problem for one that is not known."""
    choice = os.environ.get(CHOICE) or _PREPARED
    if choice not in (_PREPARED, *_BARE):
        raise Problem(f"{CHOICE}={choice}: write {', '.join((_PREPARED, *_BARE))}, or take it out")
    return choice


def recipe_key() -> str:
    """Names the recipe: it changes with every change under lab/fleet/image and of what is left out."""
    digest = hashlib.sha256(repr((chosen(), LEFT_OUT)).encode())
    for path in sorted(RECIPE.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def image_name() -> str:
    """The image that nodes are started from."""
    return f"localhost/kedge-node-{chosen()}:{recipe_key()}"


def is_present(engine: Engine) -> bool:
    """Whether the engine has the image of the present recipe."""
    return bool(engine.inspect("image", [image_name()]))


def needs(engine_name: str) -> list[tuple[Path, int]]:
    """The space that making the image takes: folders and megabytes."""
    return [(cache_root(), PACKED_MB), (WORK, UNPACKED_MB), (store(engine_name), PACKED_MB)]


def store(engine_name: str) -> Path:
    """Where the engine keeps images and what containers write."""
    return Path("/var/lib/docker" if engine_name == "docker" else "/var/lib/containers")


def root_file() -> Path:
    """The packed root that the image is imported from; it outlives the image."""
    return cache_root() / "images" / f"node-{chosen()}-{recipe_key()}.tar"


def debian_sources(targets: Iterable[str]) -> list[str]:
    """The machine's own apt sources of the nodes' suite, as one-line entries; empty where it has none.

    `targets` are lines of `apt-get indextargets`: origin, codename, URI, release, component.
    """
    components: dict[tuple[str, str], list[str]] = {}
    for line in targets:
        fields = line.split()
        if len(fields) == 5 and fields[0] == "Debian" and fields[1].split("-")[0] == SUITE:
            components.setdefault((fields[2], fields[3]), []).append(fields[4])
    if not any(release == SUITE for _, release in components):
        return []
    return [f"deb {uri} {release} {' '.join(names)}" for (uri, release), names in components.items()]


def machine_sources(suite: str = SUITE) -> list[str]:
    """This machine's sources, of another suite where one is named, for a root that is made here; or none."""
    command = ["apt-get", "indextargets", "--format", _TARGETS, "Identifier: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line.replace(f" {SUITE}", f" {suite}") for line in debian_sources(done.stdout.splitlines())]


def proxies() -> list[str]:
    """The proxies that this machine's apt uses, and how it takes a mirror's age, as options of apt."""
    done = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=False)
    told = ("::Proxy ", "::Check-Valid-Until ", "::Check-Date ")
    return [line.rstrip(";") for line in done.stdout.splitlines() if any(name in line for name in told)]


def _bootstrap_command(target: Path) -> list[str]:
    choice = chosen()
    bare = choice in _BARE
    listed = (RECIPE / ("packages_bare" if bare else "packages")).read_text(encoding="utf-8")
    packages = [line for line in listed.split("\n") if line and line[0] != "#"]
    command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}"]
    command += ['--setup-hook=mkdir -p "$1/usr/share/man/man1"']  # Java's alternatives end in a link there
    command += [f'--customize-hook={RECIPE / "customize.sh"} "$1"']
    if bare:  # its packages come later, from where this machine takes them
        command += [
            f"--customize-hook=printf '%s;\\n' '{line}' >> \"$1/etc/apt/apt.conf.d/machine\""
            for line in proxies()
        ]
        if _AUTHORITIES.is_dir():
            command += [f"--customize-hook=copy-in {_AUTHORITIES} {_AUTHORITIES.parent}"]
    # What is packed as soon as it is there need not be on the disk after every package.
    command += ["--dpkgopt=force-unsafe-io", *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT)]
    command += [f"--aptopt={option}" for option in ['Acquire::Languages "none"', *proxies()]]
    if KEYRING.is_file():
        command.append(f"--keyring={KEYRING}")
    suite = choice if bare else SUITE
    return [*command, suite, str(target), *machine_sources(suite)]


def _build(engine: Engine, target: Path, say: Callable[[str], None]) -> None:
    if not shutil.which("mmdebstrap"):
        raise Problem("mmdebstrap is missing, which makes the nodes' image: run 'make setup'")
    with tempfile.TemporaryDirectory(prefix=".node-", dir=target.parent) as folder:
        unfinished = Path(folder) / "root.tar"
        # The root is put together where apt's own user may look, which is seldom so under a home folder.
        work = Path(tempfile.mkdtemp(prefix="kedge-node-", dir=WORK))
        work.chmod(0o755)
        try:
            children.run(
                ["env", f"TMPDIR={work}", *_bootstrap_command(unfinished)],
                "mmdebstrap could not make the nodes' root",
                prefix=engine.prefix,
                line=lambda text: say(text[3:].strip().rstrip(".")) if text.startswith(STEPS) else None,
            )
        finally:
            subprocess.run([*engine.prefix, "rm", "-rf", "--one-file-system", str(work)], check=False)
        unfinished.replace(target)
    for former in target.parent.glob(f"node-{chosen()}-*.tar"):
        if former != target:
            former.unlink()


def ensure(engine: Engine, say: Callable[[str], None]) -> bool:
    """Make the image present, building it where the recipe changed; return whether it was absent."""
    if is_present(engine):
        return False
    with alone(root_file().parent / "lock", "node image"):
        if is_present(engine):
            return True
        if not root_file().is_file():
            say(f"building a Debian root, {chosen()} (about a minute)")
            _build(engine, root_file(), say)
        say("importing the image")
        changes = ['CMD ["/sbin/init"]', "STOPSIGNAL SIGRTMIN+3", f"LABEL kedge.image={recipe_key()}"]
        options = [part for change in changes for part in ("--change", change)]
        engine.run("import", *options, str(root_file()), image_name())
        remove_images(engine, keep=image_name())
    return True


def remove_images(engine: Engine, keep: str = "") -> None:
    """Remove former images of the kind to keep, or all, unless a container still uses them."""
    listing = engine.run(
        "images", "--filter", "label=kedge.image", "--format", "{{.Repository}}:{{.Tag}}", check=False
    )
    for name in listing.split():
        if name != keep and name.startswith(keep.partition(":")[0]):
            engine.run("rmi", name, check=False)
