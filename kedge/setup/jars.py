"""Jar sets of this project: `python -m kedge.setup.jars lock NAME COORDINATE...` and `... get [NAME...]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kedge.deploy.locked_jars import JarError, archive, archive_path, lock_text, missing, read_lock, resolve
from kedge.setup import children, jar_download
from kedge.setup.paths import LOCKS, archive_folder, jar_folder


def sets() -> list[str]:
    """The names of all locked sets."""
    return sorted(path.stem for path in LOCKS.glob("*.lock"))


def get(name: str) -> tuple[list[str], Path]:
    """Make the set `name` present and packed; return the files that changed and the archive's path."""
    lock = LOCKS / f"{name}.lock"
    if not lock.is_file():
        raise JarError(f"there is no jar set {name!r}; there are: {', '.join(sets())}")
    changed = resolve(lock, jar_folder(name))
    return changed, archive(lock, jar_folder(name), archive_folder())


def wanting(names: Sequence[str]) -> str:
    """Which of these sets are not present and packed, in words; empty where all are."""
    absent = []
    for name in names:
        lock = LOCKS / f"{name}.lock"
        if resolve(lock, jar_folder(name), check=True) or not archive_path(lock, archive_folder()).is_file():
            absent.append(name)
    return f"fetches {', '.join(absent)} into {jar_folder('').resolve()}" if absent else ""


def make(names: Sequence[str], bundled: Path | None = None) -> None:
    """Make these sets present and packed: straight from the repository, and through Maven what is left.

    With `bundled`, a folder of the sets' folders, they are moved from there.
    """
    wanted = {name: missing(read_lock(LOCKS / f"{name}.lock"), jar_folder(name)) for name in names}
    if bundled:
        for name, jars in wanted.items():
            jar_folder(name).mkdir(parents=True, exist_ok=True)
            for jar in jars:
                (bundled / name / jar.file_name).replace(jar_folder(name) / jar.file_name)
    elif address := jar_download.repository():
        jar_download.fetch({jar_folder(name): jars for name, jars in wanted.items()}, address)
    for name in names:
        children.go_on()
        get(name)


def main(arguments: list[str] | None = None) -> int:
    """Lock a set or make sets present; 0 when done, 2 when a jar cannot be had or is wrong."""
    parser = argparse.ArgumentParser(prog="python -m kedge.setup.jars", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    lock = actions.add_parser(
        "lock", help="resolve coordinates with their transitives and write roles/jar_set/files/NAME.lock"
    )
    lock.add_argument("name")
    lock.add_argument("coordinates", nargs="+", metavar="GROUP:ARTIFACT:VERSION")
    lock.add_argument(
        "--without", action="append", default=[], metavar="GROUP:ARTIFACT", help="brought by something else"
    )
    fetch = actions.add_parser("get", help="make sets present in the cache")
    fetch.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    try:
        if options.action == "lock":
            left_out = "".join(f" --without {name}" for name in options.without)
            command = (
                f"python -m kedge.setup.jars lock {options.name} {' '.join(options.coordinates)}{left_out}"
            )
            (LOCKS / f"{options.name}.lock").write_text(
                lock_text(options.coordinates, options.without, command), encoding="utf-8"
            )
        else:
            for name in options.names or sets():
                changed, packed = get(name)
                done = f"{len(changed)} jars fetched or removed" if changed else "complete"
                print(f"{name}: {done}, packed as {packed}")
    except JarError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
