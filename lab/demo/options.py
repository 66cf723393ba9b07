"""What a person asks of the demo, held against what can be: `python3 -m lab.demo.options` before set-up.

Standard library only, and nothing is touched. Exit 0 when it can be done, 2 with one line when it cannot.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kedge.setup.problem import Problem
from lab.demo.archive import VENDORS, checksum, inspect
from lab.demo.load import LEAST, MOST

INVENTORY: Final = "inventories/local"
#: What compare.yml knows by a word; anything else is a file of variables.
_VARIANTS: Final = ("stock", "documented", "planned")
_VERSION: Final = re.compile(r"\d+\.\d+(\.\d+){0,2}")
_CHECKSUM: Final = re.compile(r"(sha256:)?[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class Vendor:
    """A vendor's proxy: the archive, a file of this machine, its SHA-256, and whether that was asked for."""

    distribution: str
    version: str
    archive: Path
    checksum: str
    compared: bool = False


@dataclass(frozen=True)
class DemoOptions:
    """The demo that is asked for; ``load`` is in Kafka records/s, None to have one chosen."""

    inventory: str = INVENTORY
    load: int | None = None
    trials: str = ""
    vendor: Vendor | None = None
    variants: tuple[str, ...] = _VARIANTS[1:]


def parse(arguments: Sequence[str] | None = None) -> DemoOptions:
    """Read the command line; an empty value is as good as none.

    Raises:
        Problem: naming the value that cannot be, and what can.
    """
    parser = argparse.ArgumentParser(prog="python -m lab.demo", description=__doc__)
    parser.add_argument("--inventory", default=INVENTORY, help="of the fleet (default: %(default)s)")
    parser.add_argument("--load", default="", help="Kafka records/s (default: what the machine sustains)")
    parser.add_argument("--distribution", default="", help=f"{' or '.join(VENDORS)}, from its archive")
    parser.add_argument("--version", default="", help="of the distribution, such as 8.3.1")
    parser.add_argument("--archive", default="", help="the vendor's .tar.gz, a file of this machine")
    parser.add_argument("--checksum", default="", help="the SHA-256 that the vendor says it has")
    parser.add_argument(
        "--trials",
        default="",
        choices=("", "canary", "capacity", "compare", "watch"),
        help="instead of verify",
    )
    parser.add_argument("--variants", default="", help="that take turns, separated by commas")
    options = parser.parse_args(arguments)
    variants = _variants(options.variants)
    asked = DemoOptions(options.inventory, _load(options.load), options.trials, _vendor(options), variants)
    if options.inventory != INVENTORY and (asked.load or asked.vendor):
        raise Problem(f"LOAD and DISTRIBUTION are of {INVENTORY}, not of {options.inventory}")
    return asked


def _load(given: str) -> int | None:
    if not given:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", given, flags=re.ASCII) or not LEAST <= int(given) <= MOST:
        raise Problem(
            f"LOAD={given}: write Kafka records/s, a whole number from {LEAST} to {MOST}, such as LOAD=20000"
        )
    return int(given)


def _variants(given: str) -> tuple[str, ...]:
    if not given:
        return DemoOptions.variants
    variants = tuple(given.split(","))
    unknown = [one for one in variants if one not in _VARIANTS and not Path(one).is_file()]
    if unknown or len(variants) == 1:
        raise Problem(
            f"VARIANTS={given}: name two or more of {', '.join(_VARIANTS)} or files of variables, such as "
            "VARIANTS=stock,planned"
        )
    return variants


def _vendor(options: argparse.Namespace) -> Vendor | None:
    given = {name.upper(): getattr(options, name) for name in ("version", "archive", "checksum")}
    distribution = options.distribution
    if distribution in ("", "sandbox"):
        if extra := [name for name, value in given.items() if value]:
            raise Problem(
                f"{extra[0]} is of a vendor's proxy, and DISTRIBUTION is {distribution or 'missing'}: write "
                f"DISTRIBUTION={' or DISTRIBUTION='.join(VENDORS)}"
            )
        return None
    if distribution not in VENDORS:
        raise Problem(
            f"DISTRIBUTION={distribution}: the demo runs {' or '.join(VENDORS)} from an archive, and "
            "without it the sandbox"
        )
    vendor = VENDORS[distribution]
    for name, example in (("VERSION", vendor.example), ("ARCHIVE", f"/path/to/{vendor.archive}")):
        if not given[name]:
            raise Problem(
                f"{name} is missing: DISTRIBUTION={distribution} needs it, such as {name}={example}"
            )
    if not _VERSION.fullmatch(given["VERSION"]):
        raise Problem(f"VERSION={given['VERSION']}: write numbers with dots, such as {vendor.example}")
    if given["CHECKSUM"] and not _CHECKSUM.fullmatch(given["CHECKSUM"]):
        raise Problem(f"CHECKSUM={given['CHECKSUM']}: write the SHA-256, 64 hexadecimal digits")
    archive = Path(given["ARCHIVE"]).expanduser().absolute()
    inspect(archive, distribution, given["VERSION"])
    has, wanted = checksum(archive), given["CHECKSUM"].lower().removeprefix("sha256:")
    if wanted and has != wanted:
        raise Problem(
            f"{archive} has the SHA-256 {has}, and CHECKSUM asks for {wanted}: fetch the archive again, and "
            "compare both with what its publisher says"
        )
    return Vendor(distribution, given["VERSION"], archive, has, bool(wanted))


def main(arguments: Sequence[str] | None = None) -> int:
    """Say in one line what cannot be done; return the exit status."""
    try:
        parse(arguments)
    except Problem as problem:
        print(f"make demo: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
