"""package.xml, setup.py and the pins name the same dependencies as the code."""

from __future__ import annotations

import ast
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

import pytest

# Where the rosdep key differs from the name of the module.
ROSDEP_KEYS = {
    "torch": "python3-pytorch-pip",
    "numpy": "python3-numpy",
    "matplotlib": "python3-matplotlib",
    "rich": "python3-rich",
    "rosbags": "python3-rosbags-pip",
    "hypothesis": "python3-hypothesis",
    "pytest": "python3-pytest",
    "scipy": "python3-scipy",
    "yaml": "python3-yaml",
}
# Without a rosdep key: device kernels, which are imported if installed, and what plans are joined with.
WITHOUT_KEY = {"triton", "ruckig"}
# Packages that tests need and never import.
PYTEST_PLUGINS = {"python3-pytest-timeout"}
PACKAGES = {"traj_integrator_ros", "traj_integrator_interfaces", "benchmarks", "rig", "soak"}
# The tests of the packaging run these only where they are.
BUILD_TOOLS = {"setuptools", "catkin_pkg", "packaging", "colcon"}


@pytest.fixture
def package_xml(project_root: Path) -> ElementTree.Element:
    """The root element of package.xml."""
    return ElementTree.parse(project_root / "package.xml").getroot()


def keys(package: ElementTree.Element, *tags: str) -> set[str]:
    """The rosdep keys under some kinds of dependency."""
    return {element.text for tag in tags for element in package.iter(tag) if element.text}


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


def test_package_xml_is_valid(project_root: Path) -> None:
    catkin_package = pytest.importorskip("catkin_pkg.package")
    for folder, build_type in ((".", "ament_python"), ("traj_integrator_interfaces", "ament_cmake")):
        warnings: list[str] = []
        package = catkin_package.parse_package(str(project_root / folder), warnings=warnings)
        package.validate(warnings=warnings)
        assert not warnings
        assert (package.package_format, package.get_build_type()) == (3, build_type)


def test_versions_agree(project_root: Path, package_xml: ElementTree.Element) -> None:
    interfaces = ElementTree.parse(project_root / "traj_integrator_interfaces" / "package.xml").getroot()
    version = package_xml.findtext("version")
    assert version == interfaces.findtext("version")
    assert f'version="{version}"' in (project_root / "setup.py").read_text()
    assert re.search(r"^(\d+\.\d+\.\d+) ", (project_root / "CHANGELOG.rst").read_text(), re.MULTILINE)[1] == version


def test_package_xml_names_what_the_code_imports_and_nothing_else(
    project_root: Path, package_xml: ElementTree.Element
) -> None:
    imported = imported_modules(python_files(project_root / "traj_integrator_ros", project_root / "launch"))
    needed = {ROSDEP_KEYS.get(name, name) for name in imported - WITHOUT_KEY - {"traj_integrator_ros"}}
    assert keys(package_xml, "depend", "exec_depend") == needed


def test_package_xml_names_what_the_tests_import_and_nothing_else(
    project_root: Path, package_xml: ElementTree.Element
) -> None:
    imported = imported_modules(python_files(project_root / "test", project_root / "examples"))
    of_tests = {file.stem for file in (project_root / "test").rglob("*.py")}  # they borrow from one another
    outside = imported - WITHOUT_KEY - PACKAGES - BUILD_TOOLS - of_tests
    needed = {ROSDEP_KEYS.get(name, name) for name in outside}
    run = keys(package_xml, "depend", "exec_depend")
    test = keys(package_xml, "test_depend")
    assert not test & run
    assert needed <= test | run
    assert test <= needed | PYTEST_PLUGINS


def pins(file: Path) -> dict[str, list[str]]:
    """Normalized names of the packages in a requirements file, each with the rest of its lines."""
    result: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, rest = re.match(r"([A-Za-z0-9._-]+)(.*)", line).groups()
            result.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append(rest)
    return result


REQUIREMENTS = sorted(path.name for path in (Path(__file__).parents[2] / "requirements").glob("*.txt"))


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_requirement_is_pinned_and_says_why(project_root: Path, name: str) -> None:
    lines = [line for rests in pins(project_root / "requirements" / name).values() for line in rests]
    assert lines
    for line in lines:
        assert re.fullmatch(r'==[\d.]+(; python_version (>=|<) "3\.\d+")? +# .+', line), line


def test_what_setup_py_requires_is_pinned(project_root: Path) -> None:
    tree = ast.parse((project_root / "setup.py").read_text())
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "setup")
    arguments = {keyword.arg: keyword.value for keyword in call.keywords}
    required = ast.literal_eval(arguments["install_requires"])
    extras = ast.literal_eval(arguments["extras_require"])
    names = {re.split(r"[<>=]", entry)[0].lower() for entries in [required, *extras.values()] for entry in entries}
    assert {re.split(r"[<>=]", entry)[0] for entry in required} == {"torch", "numpy", "ruckig"}
    assert names <= set(pins(project_root / "requirements" / "python.txt"))


def test_helper_modules_of_the_tests_have_different_names(project_root: Path) -> None:
    """Pytest puts the folder of each test on sys.path: of two modules with one name, all tests would get the first."""
    folders: dict[str, list[str]] = {}
    for file in python_files(project_root / "test"):
        if file.name != "conftest.py":
            folders.setdefault(file.name, []).append(str(file.parent.relative_to(project_root)))
    assert {name: where for name, where in folders.items() if len(where) > 1} == {}
