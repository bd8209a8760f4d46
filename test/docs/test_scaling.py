"""The actors of docs/scaling.md, where Ray is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from documentation_pages import ROOT, blocks


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install ray")
@pytest.mark.timeout(300)
def test_actors_sample_a_plan_and_one_may_die() -> None:
    (block,) = [block for block in blocks(ROOT / "docs" / "scaling.md") if "import ray" in block.text]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", block.text],
        env={**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    found = re.search(r"a plan of cost ([\d.]+), the last step by (\d) of 2 workers", result.stdout)
    assert found, result.stdout
    # Resting where it is costs 14.4: 0.1 x 32 rows x 7 x 0.25, and 5 x 7 x 0.25 at the end.
    assert float(found[1]) < 10 and int(found[2]) >= 1
