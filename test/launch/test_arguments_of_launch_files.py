"""Arguments that a launch file does not declare are found from the words of the command, without `launch`."""

from __future__ import annotations

from pathlib import Path

import pytest

from traj_integrator_ros.node.launch_arguments import require_declared

FILE = str(Path(__file__).resolve().parents[2] / "launch" / "integrator.launch.py")


@pytest.mark.parametrize("file", [["traj_integrator_ros", "integrator.launch.py"], [FILE]], ids=["package", "path"])
@pytest.mark.parametrize("more", [[], ["--noninteractive"]])
def test_those_of_the_file_that_is_launched_must_exist(file, more):
    command = ["ros2", "launch", *more, *file]
    given = ["device:=cpu", "launch-prefix:=chrt -r 1", "launch-prefix-filter:=integrator_node"]
    require_declared(FILE, ["robot", "device"], given, [*command, *given])
    with pytest.raises(ValueError, match=r"^robt:=ur5e: expected arguments of integrator\.launch\.py, which"):
        require_declared(FILE, ["robot", "device"], ["robt:=ur5e", "device:=cpu"], [*command, "robt:=ur5e"])


@pytest.mark.parametrize("file", ["cell.launch.py", "/elsewhere/integrator.launch.py", "my_integrator.launch.py"])
def test_those_of_a_file_that_includes_it_are_that_ones(file):
    require_declared(FILE, ["robot"], ["cell:=left"], ["ros2", "launch", "my_cell", file, "cell:=left"])
