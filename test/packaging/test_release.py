"""`make release` refuses a tree that is not ready before it builds anything, and wheels with wrong contents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FILES = ("CHANGELOG.rst", "package.xml", "scripts/build_wheel.py", "scripts/release.py")


@pytest.fixture
def checkout(project_root: Path, tmp_path: Path) -> Path:
    """A repository, ready to be released, with the files that a release checks first."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((project_root / name).read_bytes())
    changes = (tmp_path / "CHANGELOG.rst").read_text(encoding="utf-8")
    (tmp_path / "CHANGELOG.rst").write_text(changes.replace("(forthcoming)", "(2026-12-24)"), encoding="utf-8")
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=release", "-c", "user.email=release@localhost")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All of it")


def python(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=checkout / "scripts", capture_output=True, text=True, timeout=60)


def test_what_is_not_ready_is_not_released_and_why_is_said_in_a_line(checkout: Path) -> None:
    version = python(checkout, "-c", "import release; print(release.released_version())").stdout.strip()
    (checkout / "new.txt").write_text("")
    refused = [python(checkout, "release.py")]
    (checkout / "new.txt").unlink()
    git(checkout, "tag", f"v{version}")
    refused.append(python(checkout, "release.py"))
    changes = (checkout / "CHANGELOG.rst").read_text(encoding="utf-8")
    (checkout / "CHANGELOG.rst").write_text(changes.replace("(2026-12-24)", "(forthcoming)"), encoding="utf-8")
    commit(checkout)
    refused.append(python(checkout, "release.py"))
    assert [done.returncode for done in refused] == [1, 1, 1]
    heading = f"first heading of CHANGELOG.rst: expected '{version} (YYYY-MM-DD)', got '{version} (forthcoming)'"
    assert [done.stderr.removeprefix("release: ") for done in refused] == [
        "expected a tree without changes, got ?? new.txt\n",
        f"v{version} is tagged already: raise the version in setup.py and package.xml\n",
        f"{heading}\n",
    ]
