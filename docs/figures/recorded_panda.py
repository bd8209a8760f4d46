"""Draws docs/figures/recorded_panda.png with the package's own tools: a real Panda's joint states, integrated.

Takes the recording panda_exciting_trajectory.db3 of github.com/unisa-acg/inverse-dynamics-solver (BSD-3-Clause). Run
`python docs/figures/recorded_panda.py ../shared/data/unisa-panda-exciting/panda_exciting_trajectory.db3`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from recording_session import ROOT

from traj_integrator_ros.tools import integrate, plot_trajectory


def main() -> None:
    """Integrate the recording to a bag, and draw two joints of it against their limits."""
    with tempfile.TemporaryDirectory() as folder:
        bag, parameters = Path(folder) / "panda_exciting_trajectory, integrated", Path(folder) / "parameters.yaml"
        # The recording names its joints after the arm's newer name.
        text = (ROOT / "config" / "franka.yaml").read_text(encoding="utf-8")
        parameters.write_text(text.replace("panda_joint", "fer_joint"), encoding="utf-8")
        integrate.main([sys.argv[1], "--out", str(bag), "--quiet"])
        figure = str(Path(__file__).with_suffix(".png"))
        joints = "fer_joint1,fer_joint4"
        plot_trajectory.main([str(bag), "--params", str(parameters), "--joints", joints, "--out", figure])


if __name__ == "__main__":
    main()
