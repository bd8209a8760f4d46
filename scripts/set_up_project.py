"""The step of set-up that installs this package so that changes of the sources take effect at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from native_build import NativeBuild, native_sources
from set_up_environment import PACKAGE, ROOT, Environment


def project_inputs(environment: Environment) -> list[str | Path]:
    """The files that an editable installation copies, compiles or links instead of reading them from the checkout."""
    metadata = [ROOT / name for name in ("setup.py", "setup.cfg", "pyproject.toml", "package.xml")]
    return [*metadata, *native_sources(), *(path.name for path in launch_files())]


def install_project(environment: Environment) -> None:
    """Installs this package so that changes of the sources take effect at once, and registers it in the ament index."""
    install = ("--no-build-isolation", "--no-deps", "-e", ROOT)
    native = NativeBuild.of_checkout()
    if native.is_up_to_date:
        environment.pip_install(*install, TRAJ_INTEGRATOR_NATIVE="0")
    else:
        with native.renewed():
            environment.pip_install(*install)
    share, executables = environment.venv / "share", environment.venv / "lib" / PACKAGE
    links = {
        share / "ament_index" / "resource_index" / "packages" / PACKAGE: ROOT / "resource" / PACKAGE,
        **{share / PACKAGE / name: ROOT / name for name in ("package.xml", "config")},
        # One by one: ros2 launch does not look into a folder that is a link.
        **{share / PACKAGE / "launch" / path.name: path for path in launch_files()},
        # ros2 run and launch files look for executables there.
        **{executables / ros2_run_name(name): environment.venv / "bin" / name for name in console_scripts(environment)},
    }
    shutil.rmtree(executables, ignore_errors=True)  # what has another name now
    launch = share / PACKAGE / "launch"
    launch.unlink() if launch.is_symlink() else shutil.rmtree(launch, ignore_errors=True)
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def launch_files() -> list[Path]:
    """The launch files of this package."""
    return sorted((ROOT / "launch").glob("*.launch.py"))


def console_scripts(environment: Environment) -> Iterator[str]:
    """The names of the executables of this package."""
    metadata = next(environment.site_packages.glob(f"{PACKAGE}-*.dist-info"))
    text = (metadata / "entry_points.txt").read_text(encoding="utf-8")
    return (line.split("=")[0].strip() for line in text.splitlines() if "=" in line)


def ros2_run_name(console_script: str) -> str:
    """What ros2 run calls an executable that pip has installed with the prefix of the package (setup.py)."""
    name = console_script.removeprefix("traj_integrator_")
    return "integrator_node" if name == "node" else name
