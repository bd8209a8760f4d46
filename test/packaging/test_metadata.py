"""package.xml, setup.py and the pins name the same dependencies as the code."""

from __future__ import annotations

import ast
import email
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from email.message import Message
from pathlib import Path

import pytest
import yaml

import traj_integrator_ros
from traj_integrator_ros import kernels

# Modules whose rosdep key is python3-<name>.
OF_PYTHON = {"numpy", "matplotlib", "hypothesis", "pytest", "scipy", "yaml"}
# Modules without a rosdep key of their own: device kernels, which are imported if installed, PIL, which comes with
# matplotlib, and modules from pip only.
FROM_PIP = {"torch", "ruckig", "rosbags"}
WITHOUT_KEY = {"triton", "lerobot", "PIL", *FROM_PIP}
PACKAGE = "traj_integrator_ros"


@pytest.fixture
def package_xml(project_root: Path) -> ElementTree.Element:
    """The root element of package.xml."""
    return ElementTree.parse(project_root / "package.xml").getroot()


def keys(package: ElementTree.Element, *tags: str) -> set[str]:
    """The rosdep keys under some kinds of dependency."""
    return {element.text for tag in tags for element in package.iter(tag) if element.text}


def keys_of(modules: set[str]) -> set[str]:
    """The rosdep keys of modules."""
    return {f"python3-{name}" if name in OF_PYTHON else name for name in modules - WITHOUT_KEY}


def imported_modules(files: Iterable[Path]) -> set[str]:
    """Top-level names that Python files import, without the standard library and the files beside them."""
    names: set[str] = set()
    for file in files:
        beside = {path.stem for path in file.parent.iterdir()}
        found: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.split(".")[0])
        names |= found - beside
    return names - set(sys.stdlib_module_names)


def python_files(*folders: Path) -> list[Path]:
    """All Python files below some folders, also through the link to kernels/."""
    return [
        Path(parent) / name
        for folder in folders
        for parent, _, names in os.walk(folder, followlinks=True)
        for name in names
        if name.endswith(".py")
    ]


@pytest.fixture
def packaging_files(project_root: Path, tmp_path: Path) -> Path:
    """A folder with the files that metadata are made of, without any modules."""
    for name in ("setup.py", "pyproject.toml", "setup.cfg", "package.xml", "README.md", "LICENSE"):
        shutil.copy(project_root / name, tmp_path)
    return tmp_path


def metadata_of(sources: Path) -> Message:
    """The metadata that a wheel of these sources has."""
    make = "from setuptools import build_meta; print(build_meta.prepare_metadata_for_build_wheel('metadata'))"
    (sources / "metadata").mkdir()
    environment = {**os.environ, "TRAJ_INTEGRATOR_NATIVE": "0"}
    done = subprocess.run([sys.executable, "-c", make], cwd=sources, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (file,) = (sources / "metadata").glob("*.dist-info/METADATA")
    return email.message_from_string(file.read_text(encoding="utf-8"))


def test_versions_agree(project_root: Path, package_xml: ElementTree.Element, packaging_files: Path) -> None:
    interfaces = ElementTree.parse(project_root / "traj_integrator_interfaces" / "package.xml").getroot()
    version = package_xml.findtext("version")
    assert version == interfaces.findtext("version")
    assert metadata_of(packaging_files)["Version"] == version
    # catkin_prepare_release raises the version in setup.py if it finds this line.
    assert len(re.findall(r"""version=(['"])\d+\.\d+\.\d+['"],""", (project_root / "setup.py").read_text())) == 1
    assert re.search(r"^(\d+\.\d+\.\d+) ", (project_root / "CHANGELOG.rst").read_text(), re.MULTILINE)[1] == version
    assert yaml.safe_load((project_root / "CITATION.cff").read_text())["version"] == version
    assert traj_integrator_ros.__version__ == kernels.__version__ == version
    with pytest.raises(AttributeError, match="no attribute 'version'"):
        traj_integrator_ros.version  # noqa: B018


def test_the_kernels_need_torch_and_numpy_and_the_rest_is_an_extra(packaging_files: Path) -> None:
    metadata = metadata_of(packaging_files)
    needed = metadata.get_all("Requires-Dist")
    of_extras = [line for line in needed if "extra ==" in line]
    assert sorted(re.split(r"[<>=;]", line)[0] for line in set(needed) - set(of_extras)) == ["numpy", "torch"]
    for extra in ("node", "demo", "tools"):
        names = {re.split(r"[<>=;]", line)[0] for line in of_extras if re.search(rf"extra == .{extra}.$", line)}
        assert {"ruckig", "PyYAML"} <= names, extra
    minors = {line.rsplit(".", 1)[1] for line in metadata.get_all("Classifier") if ":: 3." in line}
    assert minors == {"10", "11", "12", "13", "14"}  # those of CONTRIBUTING.md


def test_package_xml_names_what_the_code_imports_and_nothing_else(
    project_root: Path, package_xml: ElementTree.Element
) -> None:
    imported = imported_modules(python_files(project_root / "traj_integrator_ros", project_root / "launch"))
    assert keys(package_xml, "depend", "exec_depend") == keys_of(imported - {PACKAGE})


def test_every_requirement_is_pinned_and_those_of_setup_py_too(project_root: Path, packaging_files: Path) -> None:
    pinned: dict[str, set[str]] = {}
    for file in (project_root / "requirements").glob("*.txt"):
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        assert [line for line in lines if not re.match(r"[\w.-]+==[\d.]+(; python_version|\s)", line)] == [], file
        pinned[file.name] = {line.partition("==")[0].lower() for line in lines}
    names = {re.split(r"[<>=;]", line)[0].lower() for line in metadata_of(packaging_files).get_all("Requires-Dist")}
    assert names <= pinned["python.txt"]
