"""Draws plot_trajectory.png and recorded_motions.png with the package's own tools.

Takes a motion planned by ruckig (generated, Apache-2.0), and joint states of a real Panda
(panda_exciting_trajectory.db3 of github.com/unisa-acg/inverse-dynamics-solver, BSD-3-Clause):

    python docs/figures/recorded_motions.py ../shared/data/generated-ruckig/panda_ruckig_p2p_500hz.csv \
        ../shared/data/unisa-panda-exciting/panda_exciting_trajectory.db3
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from recording_session import ROOT

from traj_integrator_ros.tools import integrate, plot_trajectory

FIGURES = Path(__file__).resolve().parent
FRANKA = ROOT / "config" / "franka.yaml"


def main() -> None:
    """Integrate both, and draw some joints against their limits."""
    planned, recorded = (Path(path).resolve() for path in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # titles are paths
        draw_planned(planned)
        draw_recorded(recorded)


def draw_planned(source: Path) -> None:
    """Position control of the planned motion, over the motion itself: three of its joints."""
    lines = source.read_text(encoding="utf-8").splitlines()
    kept = [i for i, name in enumerate(lines[0].split(",")) if name == "time" or name[-1] in "147"]
    table = [",".join(line.split(",")[i] for i in kept) for line in lines]
    Path("motion.csv").write_text("\n".join(table) + "\n", encoding="utf-8")
    Path("limits.yaml").write_text(limits_of((0, 3, 6)), encoding="utf-8")
    integrate.main(["motion.csv", "--params", "limits.yaml", "--out", "out.csv", "--plot", "figure.png"])
    shutil.move("figure.png", FIGURES / "plot_trajectory.png")


def draw_recorded(source: Path) -> None:
    """A bag, its positions integrated: two of its joints."""
    # The recording names its joints after the arm's newer name.
    text = FRANKA.read_text(encoding="utf-8").replace("panda_joint", "fer_joint")
    Path("parameters.yaml").write_text(text, encoding="utf-8")
    integrate.main([str(source), "--out", "panda_exciting_trajectory, integrated"])
    plot_trajectory.main(
        [
            "panda_exciting_trajectory, integrated",
            *("--params", "parameters.yaml", "--joints", "fer_joint1,fer_joint4"),
            *("--out", str(FIGURES / "recorded_motions.png")),
        ]
    )


def limits_of(joints: tuple[int, ...]) -> str:
    """The parameter file of the Panda, with some of its joints."""
    import yaml

    tree = yaml.safe_load(FRANKA.read_text(encoding="utf-8"))
    parameters = tree["/**"]["ros__parameters"]
    parameters["joint_names"] = [parameters["joint_names"][joint] for joint in joints]
    for name, values in parameters["limits"].items():
        if isinstance(values, list):
            parameters["limits"][name] = [values[joint] for joint in joints]
    return yaml.safe_dump(tree)


if __name__ == "__main__":
    main()
