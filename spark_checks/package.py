"""The job as a file that runs elsewhere: ``python -m spark_checks.package OUT``.

Writes ``OUT/kedge-audit.zip``, this package with those that it needs, and ``OUT/kedge-audit.py``, which runs
it. Where Python has what requirements.txt names, the job runs from there without this repository::

    spark-submit --master URL --py-files OUT/kedge-audit.zip OUT/kedge-audit.py --evidence URI ...
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("kedge", "spark_checks")
_KINDS: Final = (".py", ".j2", ".css", ".js", ".properties", ".yml", ".json")
_MAIN: Final = "import sys\n\nfrom spark_checks.command import main\n\nsys.exit(main())\n"
#: The begin of time as zip knows it: the same files give the same archive.
_WHEN: Final = (1980, 1, 1, 0, 0, 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the package and what runs it; return 0."""
    parser = argparse.ArgumentParser(prog="python -m spark_checks.package", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write to")
    out: Path = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    pack(out / "kedge-audit.zip")
    (out / "kedge-audit.py").write_text(_MAIN, encoding="utf-8")
    print(out / "kedge-audit.zip")
    return 0


def pack(archive: Path) -> None:
    """Write the packages of the job into an archive that Python imports from."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in _PACKAGES:
            root = Path(str(resources.files(package)))
            for file in sorted(root.rglob("*")):
                if file.suffix in _KINDS and "__pycache__" not in file.parts:
                    name = Path(package) / file.relative_to(root)
                    packed.writestr(
                        zipfile.ZipInfo(str(name), _WHEN), file.read_bytes(), zipfile.ZIP_DEFLATED
                    )


if __name__ == "__main__":
    sys.exit(main())
