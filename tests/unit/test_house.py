"""The house keeps its order: imports go one way (`make lint` holds the arrows), and no path is mended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "evidence",
    "border",
    "sizing",
    "control",
    "spark_checks",
    "plugins",
    "verify",
    "trials",
    "local",
    "bench",
)
#: What a process of the load imports: it must not carry Spark.
LOAD = "evidence.load, evidence.writing, verify.load.worker, verify.watch.process, verify.collect.remote"


def test_no_module_mends_the_path_that_python_imports_from() -> None:
    sources = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(sources) > 200
    assert [str(file.relative_to(ROOT)) for file in sources if "sys.path" in file.read_text()] == []


def test_a_process_of_the_load_imports_no_spark() -> None:
    code = f"import sys, {LOAD}; print(sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "pyspark" not in done.stdout
    assert "evidence" in done.stdout
