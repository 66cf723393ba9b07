"""``make demo`` with each vendor's proxy whose archive is at hand (KEDGE_REST_ARCHIVES)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lab.services.rest_proxies import VendorArchive
from tests.e2e.playing import ROOT, local_fleet

RUN = ROOT / "runs" / "latest"
INVENTORY = "inventories/local"

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.long,
    pytest.mark.timeout(1500),
    pytest.mark.promise("deployed on a fleet, restarted under load, audited"),
]


def test_the_demo_passes_with_a_vendors_proxy_and_the_report_names_it(vendor: VendorArchive) -> None:
    asked = {"distribution": vendor.distribution, "version": vendor.version, "archive": vendor.file}
    command = [sys.executable, "-m", "lab.demo", *(f"--{key}={value}" for key, value in asked.items())]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    finally:
        local_fleet("down", INVENTORY)
    assert done.returncode == 0, done.stdout[-6000:]
    verdicts = json.loads((RUN / "report" / "verdicts.json").read_text())
    assert verdicts["verdict"] == "pass"
    page = (RUN / "report" / "report.html").read_text()
    assert f"kafka_rest: {vendor.distribution} {vendor.version}, 4 instances" in page
