"""Every step that answers a message has run before the node is active, so that the first message is not slower."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ros, pytest.mark.slow]
PROGRAM = Path(__file__).with_name("first_messages.py")


@pytest.mark.parametrize("limits", ["given", pytest.param("described", marks=pytest.mark.thorough)])
def test_the_first_messages_load_nothing(limits: str) -> None:
    folders = [str(PROGRAM.parent), str(PROGRAM.parent.parent)]
    code = f"import sys, runpy; sys.argv[1:] = [{limits!r}]; sys.path[:0] = {folders}; runpy.run_path({str(PROGRAM)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
