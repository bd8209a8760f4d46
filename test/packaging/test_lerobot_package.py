"""The package of examples/lerobot as an index gets it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip("setuptools", "77", reason="setuptools is not installed, or too old for names of licenses")


def test_the_package_for_lerobot_is_found_by_it_and_of_this_version(project_root: Path, tmp_path: Path) -> None:
    source = shutil.copytree(project_root / "examples" / "lerobot", tmp_path / "source")  # without the link to LICENSE
    for kind in ("sdist", "wheel"):
        build = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
        subprocess.run([sys.executable, "-c", build, tmp_path], cwd=source, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    assert list(tmp_path.glob("*.tar.gz"))
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata] = (name for name in names if name.endswith("METADATA"))
        found = BytesParser().parsebytes(archive.read(metadata))
    assert found["Name"] == "lerobot_robot_ros2_control", "LeRobot imports what has a name like this"
    assert found["Version"] == ElementTree.parse(project_root / "package.xml").findtext("version")
    modules = {path.relative_to(source).as_posix() for path in source.glob("lerobot_robot_ros2_control/*.py")}
    assert modules == {name for name in names if name.endswith(".py")}
    assert any(name.endswith("LICENSE") for name in names)
    page = found.get_payload()
    assert "--robot.type=smooth" in page and not re.search(r"\]\((?!http|#)", page), "links lead somewhere"
