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
# Packages that tests need and never import.
PYTEST_PLUGINS = {"python3-pytest-timeout"}
PACKAGE = "traj_integrator_ros"
PACKAGES = {PACKAGE, "traj_integrator_interfaces", "benchmarks", "kit", "rig", "soak"}
LINKS = re.compile(r"(!?)\[([^\]]*)\]\(([^)]*)\)")
"""Links and images of a page: an exclamation mark or nothing, the text, the path."""
# The tests of the packaging run these tools only if they are installed.
BUILD_TOOLS = {"setuptools", "catkin_pkg", "packaging", "colcon"}


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


def test_sources_on_the_path_alone_have_an_unknown_version(project_root: Path, tmp_path: Path) -> None:
    (tmp_path / PACKAGE).symlink_to(project_root / PACKAGE)  # without set-up's own files
    say = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import traj_integrator_ros as t; print(t.__version__)"
    printed = subprocess.run([sys.executable, "-ISc", say], capture_output=True, text=True, check=True).stdout
    assert printed == "0+unknown\n"


@pytest.mark.parametrize("repository", ["", "https://repository.example/team/traj_integrator_ros"])
def test_no_link_of_the_index_page_is_broken(packaging_files: Path, repository: str) -> None:
    manifest = packaging_files / "package.xml"
    given = f'<url type="repository">{repository}.git</url>' * bool(repository)
    manifest.write_text(manifest.read_text().replace("<license ", f"{given}<license ", 1))
    metadata = metadata_of(packaging_files)
    version, page = metadata["Version"], metadata.get_payload()
    readme = (packaging_files / "README.md").read_text(encoding="utf-8")
    links = LINKS.findall(page)
    assert [link for _, _, link in links if "://" not in link] == []
    assert metadata.get_all("Project-URL") == ([f"Repository, {repository}.git"] if repository else None)
    own = [(image, told, path) for image, told, path in LINKS.findall(readme) if "://" not in path]
    assert {image for image, _, _ in own} == {"!", ""}
    kinds = {"!": "raw", "": "blob"}
    absolute = [f"{image}[{told}]({repository}/{kinds[image]}/v{version}/{path})" for image, told, path in own]
    assert [link for link in absolute if link not in page] == [] or not repository
    assert [told for _, told, _ in own if told not in page] == []


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


def test_package_xml_names_what_the_tests_import_and_nothing_else(
    project_root: Path, package_xml: ElementTree.Element
) -> None:
    imported = imported_modules(python_files(project_root / "test", project_root / "examples"))
    ours = [*(project_root / "test").rglob("*.py"), *(project_root / "scripts").glob("*.py")]
    of_tests = {file.stem for file in ours}  # tests borrow from one another, and try the scripts
    of_tests |= {file.parent.name for file in (project_root / "examples").glob("*/*/__init__.py")}  # and the examples
    needed = keys_of(imported - PACKAGES - BUILD_TOOLS - of_tests)
    run, test = keys(package_xml, "depend", "exec_depend"), keys(package_xml, "test_depend")
    assert not test & run
    assert needed <= test | run and test <= needed | PYTEST_PLUGINS


def test_every_requirement_is_pinned_and_those_of_setup_py_too(project_root: Path, packaging_files: Path) -> None:
    pinned: dict[str, set[str]] = {}
    for file in (project_root / "requirements").glob("*.txt"):
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        assert [line for line in lines if not re.match(r"[\w.-]+==[\d.]+(; python_version|\s)", line)] == [], file
        pinned[file.name] = {line.partition("==")[0].lower() for line in lines}
    names = {re.split(r"[<>=;]", line)[0].lower() for line in metadata_of(packaging_files).get_all("Requires-Dist")}
    assert names <= pinned["python.txt"]


def test_helper_modules_of_the_tests_have_different_names(project_root: Path) -> None:
    """Pytest puts each test's folder on sys.path: of two modules with one name, all tests would import the first."""
    folders: dict[str, list[str]] = {}
    for file in python_files(project_root / "test"):
        if file.name != "conftest.py":
            folders.setdefault(file.name, []).append(str(file.parent.relative_to(project_root)))
    assert {name: where for name, where in folders.items() if len(where) > 1} == {}
