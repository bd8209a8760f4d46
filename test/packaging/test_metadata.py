"""package.xml, setup.py and the pins name the dependencies of the code; its rooms import as CONTRIBUTING.md says."""

from __future__ import annotations

import ast
import email
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from email.message import Message
from importlib.util import resolve_name
from pathlib import Path

import pytest
import yaml

import traj_integrator_ros
from traj_integrator_ros import kernels

# Modules whose rosdep key is python3-<name>.
OF_PYTHON = {"numpy", "matplotlib", "scipy", "yaml"}
# Modules without a rosdep key: device kernels, which are imported if installed, and modules from pip only.
WITHOUT_KEY = {"triton", "torch", "ruckig", "rosbags"}
PACKAGE = "traj_integrator_ros"


@pytest.fixture
def package_xml(project_root: Path) -> ElementTree.Element:
    """The root element of package.xml."""
    return ElementTree.parse(project_root / "package.xml").getroot()


def imports(file: Path, root: Path) -> Iterator[str]:
    """Full names of all that a file imports, anywhere in it; packages begin in `root`."""
    package = ".".join(file.relative_to(root).parts[:-1])
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imported_modules(files: Iterable[Path], root: Path) -> set[str]:
    """Top-level names that Python files import, without the standard library and the files beside them."""
    names: set[str] = set()
    for file in files:
        found = {name.partition(".")[0] for name in imports(file, root)}
        names |= found - {path.stem for path in file.parent.iterdir()}
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
    imported = imported_modules(python_files(project_root / PACKAGE, project_root / "launch"), project_root)
    named = {one.text for tag in ("depend", "exec_depend") for one in package_xml.iter(tag) if one.text}
    needed = imported - {PACKAGE} - WITHOUT_KEY
    assert named == {f"python3-{name}" if name in OF_PYTHON else name for name in needed}


def test_every_requirement_is_pinned_and_those_of_setup_py_too(project_root: Path, packaging_files: Path) -> None:
    pinned: dict[str, set[str]] = {}
    for file in (project_root / "requirements").glob("*.txt"):
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        assert [line for line in lines if not re.match(r"[\w.-]+==[\d.]+(; python_version|\s)", line)] == [], file
        pinned[file.name] = {line.partition("==")[0].lower() for line in lines}
    names = {re.split(r"[<>=;]", line)[0].lower() for line in metadata_of(packaging_files).get_all("Requires-Dist")}
    assert names <= pinned["python.txt"]


def test_imports_run_downwards_only(project_root: Path) -> None:
    page = (project_root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms, within_kernels = (
        {room: set(re.findall(r"\w+", others)) for room, others in re.findall(r"^ {4}(\w+)/ +-> +(.*)$", part, re.M)}
        for part in page.partition("what each may import:")[2].split("In `kernels/`")
    )
    wrong = []
    for file in python_files(project_root / PACKAGE):
        _, room, inner, *_ = (*file.relative_to(project_root).parts[:-1], "", "")
        for name in imports(file, project_root) if room else ():
            package, other, *rest = (*name.split("."), "")
            if package != PACKAGE or other in ("", "__version__"):
                continue
            allowed = other in rooms[room] | {room}
            if room == "kernels" == other and inner and len(rest) > 2 and rest[0] in within_kernels:
                allowed = rest[0] in within_kernels[inner] | {inner}
            if not allowed:
                wrong.append(f"{file.relative_to(project_root)} imports {name}")
    assert wrong == []
