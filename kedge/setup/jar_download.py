"""Jars straight from the repository that Maven takes them from, many at once.

Maven asks for one file after another, and first for its own plugins. A lock names every file and its
checksum, so nothing is left to resolve. What cannot be had this way is not tried again: it is left to Maven,
with its logins, proxies and retries.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from kedge.deploy.locked_jars import Jar
from kedge.setup import children

_AT_ONCE = 8
_TIMEOUT_S = 30.0
_PART = 1 << 18
_DEFAULTS = "org/apache/maven/model/pom-4.0.0.xml"


def repository() -> str | None:
    """The address of Maven's central repository, as this machine and account have it configured.

    None where more than an address is needed: a login, a proxy, repositories or options of their own.
    """
    program = shutil.which("mvn")
    if program is None or os.environ.get("MAVEN_ARGS"):
        return None
    home = Path(program).resolve().parent.parent
    try:
        return _configured([Path.home() / ".m2" / "settings.xml", home / "conf" / "settings.xml"], home)
    except (OSError, ElementTree.ParseError, zipfile.BadZipFile, KeyError):
        return None


def _configured(files: Iterable[Path], home: Path) -> str | None:
    settings = [ElementTree.parse(file).getroot() for file in files if file.is_file()]  # noqa: S314 - the person's own
    for one in settings:
        if any(one.find(f".//{{*}}{name}") is not None for name in ("proxy", "server", "profile")):
            return None
    mirrors = [mirror for one in settings for mirror in one.iterfind("{*}mirrors/{*}mirror")]
    told = [(mirror.findtext("{*}mirrorOf", ""), mirror.findtext("{*}url", "")) for mirror in mirrors]
    exact = [url for of, url in told if of.strip() == "central"]
    found = exact or [url for of, url in told if _mirrors_central(of)]
    address = (found or [_default(home)])[0].strip().rstrip("/")
    return address if address.startswith("https://") and "$" not in address else None


def _mirrors_central(of: str) -> bool:
    parts = {part.strip() for part in of.split(",")}
    return bool(parts & {"*", "external:*", "central"}) and "!central" not in parts


def _default(home: Path) -> str:
    """The address that Maven itself brings."""
    archives = sorted((home / "lib").glob("maven-model-builder-*.jar"))
    if not archives:
        return ""
    with zipfile.ZipFile(archives[0]) as jar:
        model = ElementTree.fromstring(jar.read(_DEFAULTS))  # noqa: S314 - of the installed Maven
    return model.findtext("{*}repositories/{*}repository/{*}url", "")


def fetch(wanted: Mapping[Path, Sequence[Jar]], address: str) -> None:
    """Put the jars of each folder there, where the repository serves them as they are locked."""
    places: dict[Jar, list[Path]] = {}
    for folder, jars in wanted.items():
        folder.mkdir(parents=True, exist_ok=True)
        for jar in jars:
            places.setdefault(jar, []).append(folder)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(_fetch, jar, folders, address) for jar, folders in places.items()]:
            done.result()


def _fetch(jar: Jar, folders: Sequence[Path], address: str) -> None:
    children.go_on()
    url = f"{address}/{jar.group.replace('.', '/')}/{jar.artifact}/{jar.version}/{jar.file_name}"
    request = urllib.request.Request(url, headers={"User-Agent": "kedge"})  # noqa: S310 - https alone, see above
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folders[0]) as name:
        file = Path(name) / jar.file_name
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer, file.open("wb") as to:  # noqa: S310 - as above
                while part := answer.read(_PART):
                    children.go_on()
                    digest.update(part)
                    to.write(part)
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError):
            return
        if digest.hexdigest() == jar.sha256:
            for folder in folders[1:]:
                shutil.copyfile(file, folder / f".{jar.file_name}")
                (folder / f".{jar.file_name}").replace(folder / jar.file_name)
            file.replace(folders[0] / jar.file_name)
