"""`python -m tests.doubles FOLDER`: pack the sandbox proxy as vendors pack theirs.

A double has a vendor's paths, start script and control, and inside the sandbox: it shows that the kit installs,
configures, starts, gates and tests such a package, and nothing of what the vendor's own code does. Where
``KEDGE_REST_ARCHIVES`` names a folder with the vendor's archive of that version, its software is packed instead.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from kedge.setup import unpacking
from lab.services.rest_proxies import unpack, vendor_archives

_HERE: Final = Path(__file__).parent
_SANDBOX: Final = (
    _HERE.parents[1] / "lab" / "services" / "sandbox_rest" / "target" / "sandbox-rest-1.0.0.tar.gz"
)
_FILES: Final = _HERE / "files"
_MAPR: Final = "opt/mapr/kafka-rest/kafka-rest-5.1.2"
_BRIDGE: Final = "kafka-bridge-0.33.1.tar.gz"
_CONTROL: Final = """Package: {name}
Version: {version}
Architecture: all
Maintainer: Kedge
Description: double of {name}: the sandbox proxy under the vendor's paths
"""


def main(folder: Path) -> None:
    """Make the three archives, each with its checksum beside it, and say which is a double."""
    shutil.rmtree(folder, ignore_errors=True)
    sandbox = folder / "sandbox"
    unpacking.unpack(_SANDBOX, folder)
    (folder / _SANDBOX.name.removesuffix(".tar.gz")).rename(sandbox)
    confluent, bridge = _vendors("confluent", "8.3.1"), _vendors("strimzi", "0.33.1")
    made = [
        _confluent(folder, unpack(confluent, folder / "vendor") if confluent else sandbox),
        _mapr(folder, sandbox),
        Path(shutil.copy(bridge, folder / _BRIDGE)) if bridge else _strimzi(folder, sandbox),
    ]
    for file in made:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        file.with_name(f"{file.name}.sha256").write_text(digest)
    shutil.rmtree(sandbox)
    shutil.rmtree(folder / "vendor", ignore_errors=True)


def _vendors(distribution: str, version: str) -> Path | None:
    """Return the vendor's own archive where it is at hand; say which is packed, and why."""
    archives = vendor_archives()
    found = [] if isinstance(archives, str) else archives
    for each in found:
        if (each.distribution, each.version) == (distribution, version):
            print(f"{distribution} {version}: {each.file}")
            return each.file
    why = archives if isinstance(archives, str) else "the folder of archives lacks this version"
    print(f"{distribution} {version}: a double, for {why}")
    return None


def _confluent(folder: Path, home: Path) -> Path:
    root = folder / "confluent"
    _copy(home / "bin", root / "usr/bin")
    _copy(home / "share", root / "usr/share")
    return _package(folder, root, "confluent-kafka-rest", "8.3.1")


def _mapr(folder: Path, sandbox: Path) -> Path:
    root = folder / "mapr"
    _copy(sandbox, root / _MAPR)
    (root / _MAPR / "etc").rename(root / _MAPR / "config")
    # What the package brings stands where the kit's own file has to go.
    shutil.move(root / _MAPR / "config/kafka-rest/kafka-rest.properties", root / _MAPR / "config")
    for name, place in (("maprcli", "usr/bin"), ("warden-double.service", "usr/lib/systemd/system")):
        (root / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(_FILES / name, root / place)
    (root / "DEBIAN").mkdir()
    shutil.copy(_FILES / "postinst", root / "DEBIAN")
    return _package(folder, root, "mapr-kafka-rest", "5.1.2")


def _strimzi(folder: Path, sandbox: Path) -> Path:
    root = folder / _BRIDGE.removesuffix(".tar.gz")
    _copy(sandbox / "share/java/kafka-rest", root / "libs")
    (root / "bin").mkdir()
    shutil.copy(_FILES / "kafka_bridge_run.sh", root / "bin")
    made = folder / _BRIDGE
    with tarfile.open(made, "w:gz") as archive:
        archive.add(root, root.name)
    shutil.rmtree(root)
    return made


def _copy(source: Path, to: Path) -> None:
    # Linked where it can be: a double holds the same 27 MB as the next.
    shutil.copytree(source, to, copy_function=os.link, dirs_exist_ok=True)


def _package(folder: Path, root: Path, name: str, version: str) -> Path:
    (root / "DEBIAN").mkdir(exist_ok=True)
    (root / "DEBIAN/control").write_text(_CONTROL.format(name=name, version=version))
    made = folder / f"{name}_{version}_all.deb"
    subprocess.run(
        ["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", str(root), str(made)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(root)
    return made


if __name__ == "__main__":
    main(Path(sys.argv[1]))
