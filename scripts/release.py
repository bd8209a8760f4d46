"""`make release`: the source distribution, both wheels and the package for LeRobot, checked in use, and the tag.

Publishes nothing: the tag is local, and dist/ is for whoever uploads it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from build_wheel import MACHINES, ROOT, TOOLS, build, build_sdist, build_wheel, get_tools

PACKAGE, FOR_LEROBOT = "traj_integrator_ros", "lerobot_robot_ros2_control"
# Contents of a bare environment: kernels without the node, from the installation, compiled.
IN_A_BARE_ENVIRONMENT = """
import importlib.util, sys
import traj_integrator_ros
from traj_integrator_ros import kernels
assert kernels.__version__ == traj_integrator_ros.__version__ == sys.argv[1], kernels.__version__
assert kernels.__file__.startswith(sys.prefix), kernels.__file__
assert kernels.backend_info()[0].backend is kernels.Backend.NATIVE, kernels.backend_info()
assert importlib.util.find_spec("ruckig") is None and importlib.util.find_spec("rclpy") is None
"""


def main() -> None:
    """Build, check, tag; ends with one line if a check fails."""
    version = released_version()
    require_clean_tree()
    commit = git("rev-parse", "HEAD")
    get_tools("release")
    for old in (path for name in (PACKAGE, FOR_LEROBOT) for path in (ROOT / "dist").glob(f"{name}-*")):
        old.unlink()
    sdist = build_sdist(ROOT / "dist")
    wheels = {machine: build_wheel(machine, sdist) for machine in MACHINES}
    for_lerobot = build_for_lerobot()
    archives = (sdist, *wheels.values(), *for_lerobot)
    run(sys.executable, "-m", "twine", "check", "--strict", *archives, PYTHONPATH=str(TOOLS))
    # The sources, too: this machine's compiler compiles them here.
    check_in_a_bare_environment(version, wheels[platform.machine()], sdist)
    require_clean_tree()
    if git("rev-parse", "HEAD") != commit:
        raise SystemExit("release: expected the commit that was checked, but HEAD has moved")
    git("tag", "--annotate", f"v{version}", "--message", f"{PACKAGE} {version}", commit)
    print(f"release: tagged v{version} at {commit[:10]}; in dist/:", *(file.name for file in archives))


def build_for_lerobot() -> tuple[Path, Path]:
    """Build the source distribution and the wheel of examples/lerobot into dist/."""
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    with tempfile.TemporaryDirectory() as folder:
        sources = shutil.copytree(ROOT / "examples" / "lerobot", Path(folder) / "lerobot")
        return tuple(build(kind, "None", ROOT / "dist", sources, environment) for kind in ("sdist", "wheel"))


def released_version() -> str:
    """The version of package.xml, which must be in the changelog with a date, and not be tagged yet."""
    version = ElementTree.parse(ROOT / "package.xml").findtext("version")
    heading = re.search(r"^\d.*$", (ROOT / "CHANGELOG.rst").read_text(encoding="utf-8"), re.MULTILINE)[0]
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading):
        raise SystemExit(f"release: first heading of CHANGELOG.rst: expected '{version} (YYYY-MM-DD)', got {heading!r}")
    if git("tag", "--list", f"v{version}"):
        raise SystemExit(f"release: v{version} is tagged already: raise the version in setup.py and package.xml")
    return version


def require_clean_tree() -> None:
    """Refuse changes that the tag would not contain."""
    if changed := git("status", "--porcelain"):
        raise SystemExit(f"release: expected a tree without changes, got {changed.splitlines()[0].strip()}")


def check_in_a_bare_environment(version: str, *archives: Path) -> None:
    """Run the README's example in an environment with only the requirements that pip itself chooses."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"^## I have an optimizer\n.*?^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)[1]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        for archive in archives:
            run(python, "-m", "pip", "install", "--quiet", "--upgrade", archive, cwd=folder)
            run(python, "-c", IN_A_BARE_ENVIRONMENT, version, cwd=folder)
            run(python, "-c", example, cwd=folder)
            run(python, "-m", "pip", "check", cwd=folder)
            run(python, "-m", "pip", "uninstall", "--quiet", "--yes", PACKAGE, cwd=folder)


def git(*arguments: str) -> str:
    """Output of git."""
    return run("git", *arguments).strip()


def run(*command: object, cwd: str | Path = ROOT, **variables: str) -> str:
    """Output of a command; ends the release if it fails."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "TRAJ_INTEGRATOR_NATIVE")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"release: {' '.join(map(str, command))[:200]}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main()
