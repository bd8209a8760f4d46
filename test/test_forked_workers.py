"""Workers that are forked give what one process gives, also where one of them dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFTEST = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from forked_workers import ForkedWorkers

def prepare():
    os.environ["WORKER"] = str(os.getpid())

def queue_of(item):
    return "one" in item.path.name and "warns" not in item.name

def pytest_configure(config):
    config.pluginmanager.register(ForkedWorkers(2, queue_of, prepare))
"""
ONE = """
import os, warnings
import pytest

@pytest.fixture(scope="module")
def module(tmp_path_factory):
    yield tmp_path_factory.mktemp("module")
    print("after the module", end="")

@pytest.mark.parametrize("number", range(4))
def test_runs_in_a_worker(number, module, capsys):
    print(number)
    assert capsys.readouterr().out == f"{number}\\n" and os.environ["WORKER"] == str(os.getpid())
    assert module.parent.name.startswith("worker")

def test_warns():
    warnings.warn("of this")

@pytest.mark.skip(reason="for a reason")
def test_skipped():
    pass

def test_fails():
    print("said before it failed")
    assert 1 == 2
"""
DIES = """
import os, warnings

def test_before():
    warnings.warn("before the death")

def test_dies():
    os._exit(7)

def test_after():
    pass
"""


def run(folder: Path, *options: str) -> str:
    for name, text in {"conftest.py": CONFTEST, "test_one.py": ONE, "test_dies.py": DIES}.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", "--rootdir", str(folder), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_every_test_is_told_as_by_one_process_and_a_death_is_a_failure(tmp_path: Path) -> None:
    told = run(tmp_path)
    assert "2 failed, 7 passed, 1 skipped, 2 warnings" in told, told
    for part in ("assert 1 == 2", "said before it failed", "of this", "before the death", "for a reason"):
        assert part in told
    assert "test_dies.py::test_dies" in told and "the process that ran it ended with exit code 7" in told
