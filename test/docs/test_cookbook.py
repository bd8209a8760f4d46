"""The recipe that takes a library of others, where it is installed; test_pages runs the rest of the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation_pages import ROOT, blocks
from test_pages import run


def test_kinematics_in_the_loss_reach_the_goal(folder: Path) -> None:
    pytest.importorskip("pytorch_kinematics")
    (block,) = [block for block in blocks(ROOT / "docs" / "cookbook.md") if "import pytorch_kinematics" in block.text]
    run(block, folder)
