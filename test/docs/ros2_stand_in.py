"""The command `ros2` of the documentation's tests.

`ros2 run traj_integrator_ros` runs from the source tree, so that no installation is needed. `ros2 launch` is checked,
not run: file and arguments must exist (test/launch launches them). Everything else goes to the real command where there
is one; ROS 2 from PyPI brings none, and then to what without_ros.md gives its users instead.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from kit import ros2  # noqa: E402

PACKAGE = "traj_integrator_ros"


def main(arguments: list[str]) -> int:
    """Do what `ros2` does with these arguments; returns the exit code."""
    if arguments[:2] == ["launch", PACKAGE]:
        return _check_launch(*arguments[2:])
    if arguments[:2] != ["run", PACKAGE] and (real := _real_ros2()):
        os.execv(real, ["ros2", *arguments])
    return ros2.main(arguments)


def _real_ros2() -> str | None:
    """The next command of this name in PATH."""
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder != os.environ["STAND_IN_FOLDER"]]
    return shutil.which("ros2", path=os.pathsep.join(folders))


def _check_launch(file: str, *arguments: str) -> int:
    """Check arguments against those that the launch file declares."""
    tree = ast.parse((ROOT / "launch" / file).read_text(encoding="utf-8"))
    tables = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "arguments"
    ]
    declared = {key.value for keys in tables for key in keys.keys}
    wrong = [one for one in arguments if one != "--show-args" and one.partition(":=")[0] not in declared]
    if wrong or not declared:
        print(f"ros2 launch: {file} has no argument {wrong}; it has {sorted(declared)}", file=sys.stderr)
        return 2
    print(f"{file}: arguments are declared: {' '.join(arguments)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
