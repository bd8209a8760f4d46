"""The package works in every way of installing it, and without ROS 2 it needs torch and numpy only."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

PACKAGE = "traj_integrator_ros"
TOOLS = ("node", "demo", "check_trajectory", "integrate", "monitor", "plot_trajectory", "replay", "retime")
CONSOLE_SCRIPTS = {f"traj_integrator_{name}" for name in TOOLS}
# In a Python with torch and numpy only, the kernels compute, and no ROS or heavy module is imported.
USE_KERNELS = """
import importlib.util, sys, numpy, torch
import traj_integrator_ros, traj_integrator_ros.engine.integrator
from traj_integrator_ros.execution.motion import resting
from traj_integrator_ros.kernels.retime.native import native
from traj_integrator_ros.kernels import Backend, MAPS, backend_info
assert importlib.util.find_spec("ruckig") is None
unwanted = {"rclpy", "traj_integrator_interfaces", "triton", "matplotlib", "scipy"} & set(sys.modules)
assert not unwanted, unwanted
assert resting(numpy.ones(1), 1.0).state_at(0.5).position == 1.0
assert native() is not None
assert backend_info()[0].backend is Backend.NATIVE, backend_info()
for name, kernel in MAPS.items():
    given = [torch.randn(*shape, dtype=torch.float64) for shape in ((3, 6, 7), (3, 7), (3, 7), (3, 7))]
    ours, right = (kernel.step(*given, dt=0.1, backend=backend) for backend in (None, "reference"))
    torch.testing.assert_close(ours, right, rtol=1e-9, atol=1e-9)
print(traj_integrator_ros.kernels.__file__)
print(len(MAPS))
"""
BUILD_WHEEL = "from setuptools import build_meta; build_meta.build_wheel('dist')"


def output_of(command: list[object], cwd: Path | None = None, **variables: str) -> str:
    """Output of a command; fails with all of its output if the command fails."""
    variables = {"TRAJ_INTEGRATOR_NATIVE": "0", **variables}  # compiling takes minutes
    # A separate Python, which does not inherit the paths of this process.
    outer = ("PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    options = {"cwd": cwd or "/", "env": {**environment, **variables}, "text": True, "timeout": 500}
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, so that builds leave nothing in the original folder."""
    copy = tmp_path_factory.mktemp("checkout") / PACKAGE
    left_out = (".git", ".venv*", "build", "dist", "install", "log", "*.so", "*.egg-info", "__pycache__", ".*_cache")
    shutil.copytree(project_root, copy, symlinks=True, ignore=shutil.ignore_patterns(".hypothesis", *left_out))
    return copy


@pytest.fixture(scope="module")
def sdist(checkout: Path) -> Path:
    """A source distribution, unpacked."""
    build = "from setuptools import build_meta; build_meta.build_sdist('dist')"
    output_of([sys.executable, "-c", build], cwd=checkout)
    (archive,) = (checkout / "dist").glob("*.tar.gz")
    folder = checkout.parent / "sdist"
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(folder)
    (unpacked,) = folder.iterdir()
    return unpacked


def built_wheel(sdist: Path, folder: Path, **variables: str) -> tuple[str, Path]:
    """Build a wheel of the unpacked source distribution in a folder; returns the output, and the wheel."""
    shutil.copytree(sdist, folder / PACKAGE)
    printed = output_of([sys.executable, "-c", BUILD_WHEEL], cwd=folder / PACKAGE, **variables)
    (wheel,) = (folder / PACKAGE / "dist").iterdir()
    return printed, wheel


def installed_alone(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, with links to its requirements, for torch is large; returns its
    Python."""
    output_of([sys.executable, "-m", "venv", "--without-pip", folder])
    (site_packages,) = folder.glob("lib/python*/site-packages")
    for distribution in with_requirements("torch", "numpy", "pip"):
        for name in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            source, link = Path(str(distribution.locate_file(name))), site_packages / name
            if source.exists() and not link.exists():
                link.symlink_to(source)
    python = folder / "bin" / "python"
    output_of([python, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", wheel])
    return python


def with_requirements(*names: str) -> list[importlib.metadata.Distribution]:
    """Installed distributions of some names, and those that they require, without extras and without triton."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found or name == "triton":
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # not needed on this platform
            continue
        requires = [line for line in found[name].requires or [] if "extra ==" not in line]
        waiting += [re.match(r"[A-Za-z0-9._-]+", line)[0] for line in requires]
    return list(found.values())


def sources(folder: Path) -> set[str]:
    """Files below the two source folders, with their names after installation."""
    links = {"kernels": folder / "kernels", ".": folder / PACKAGE}
    return {
        (Path(PACKAGE) / where / path.relative_to(root)).as_posix()
        for where, root in links.items()
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not (where == "." and "kernels" in path.parts)
    }


# Compiles nothing: modules are those that set-up has compiled with the same setup.py.
NO_COMPILER = """#!/bin/sh
output=; wants=
for word do
  case "$wants$word" in -o*) output=$word ;; esac
  case "$word" in -o) wants=-o ;; *) wants= ;; esac
done
case "$output" in
  *.so) exec cp "{root}/${{output##*/traj_integrator_ros/}}" "$output" ;;
  *) : > "$output" ;;
esac
"""


@pytest.mark.thorough
def test_one_wheel_computes_every_map_without_a_compiler(
    checkout: Path, sdist: Path, tmp_path: Path, project_root: Path
) -> None:
    if importlib.util.find_spec(f"{PACKAGE}.kernels.native._loops") is None:
        pytest.skip("set-up has not compiled the C++ kernels")
    compiler = tmp_path / "c++"
    compiler.write_text(NO_COMPILER.format(root=project_root / PACKAGE))
    compiler.chmod(0o755)
    _, wheel = built_wheel(sdist, tmp_path, TRAJ_INTEGRATOR_NATIVE="1", CXX=str(compiler))
    assert "-cp310-abi3-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        modules = {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
        packed = {name for name in archive.namelist() if name.startswith(f"{PACKAGE}/")}
    assert {Path(name).name for name in modules} == {"_loops.abi3.so", "_native.abi3.so"} and len(modules) == 3
    assert packed - modules.keys() == sources(checkout)
    for name, content in modules.items():
        assert b"libtorch" not in content and b"libc10" not in content and b"libpython" not in content, name
    python = installed_alone(wheel, tmp_path / "venv")
    printed = output_of([python, "-c", USE_KERNELS], PATH="/nonexistent", CXX="/nonexistent/c++").splitlines()
    assert any(line.startswith(f"{tmp_path}/venv/") for line in printed) and int(printed[-1]) >= 8
    assert_ament_package(tmp_path / "venv")
    assert installed_scripts(tmp_path / "venv") == CONSOLE_SCRIPTS


def test_without_a_compiler_the_cpp_kernels_are_left_out_which_is_said(sdist: Path, tmp_path: Path) -> None:
    printed, wheel = built_wheel(sdist, tmp_path, TRAJ_INTEGRATOR_NATIVE="", CXX="/nonexistent/c++")
    assert "no C++ parts, since there is no C++ compiler (/nonexistent/c++)" in printed.splitlines()[0], printed
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]


def installed_scripts(prefix: Path) -> set[str]:
    """Executables of this package in the bin of an environment."""
    (metadata,) = prefix.glob(f"lib/python*/site-packages/{PACKAGE}-*.dist-info")
    names = [line.split(",")[0] for line in (metadata / "RECORD").read_text().splitlines()]
    return {Path(name).name for name in names if "/bin/" in name}


def assert_ament_package(prefix: Path) -> None:
    """Check that an installation prefix has the files of ros2 run, ros2 launch and the ament index."""
    share = prefix / "share"
    assert (share / "ament_index" / "resource_index" / "packages" / PACKAGE).is_file()
    assert (share / PACKAGE / "package.xml").is_file()
    assert {"integrator.launch.py", "demo.launch.py"} <= {path.name for path in (share / PACKAGE / "launch").iterdir()}
    assert {"franka.yaml", "ur5e.yaml"} <= {path.name for path in (share / PACKAGE / "config").iterdir()}
