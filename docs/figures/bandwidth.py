"""Draws docs/figures/bandwidth.png: what publish.bandwidth does with a policy whose chunks are noisy and disagree.

The chunks of the kind `act` (benchmarks/chunks.py), commanded by the executor at 1 kHz. Run
`python docs/figures/bandwidth.py` in the project's environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.chunks import CYCLE_S, JUDGED_S, KINDS, Meant, stream_of  # noqa: E402
from benchmarks.optimum import by_executor  # noqa: E402
from traj_integrator_ros.motions.figures import BLUE, GREEN, MOTION_GREY, ORANGE, figure  # noqa: E402

BANDWIDTHS_HZ = ((1.0, BLUE), (2.5, GREEN), (5.0, ORANGE))
SEED, JOINT = 0, 0


def main() -> None:
    """Command the same chunks with each bandwidth, and draw distance and acceleration of a joint."""
    motion = Meant(SEED)
    stream = stream_of(KINDS["act"], motion, SEED)
    begin, end = (round(time / CYCLE_S) for time in JUDGED_S)
    times = CYCLE_S * np.arange(begin, end)
    with figure(Path(__file__).with_suffix(".png"), 15, 6.4) as drawn:
        panels = drawn.subplots(2, len(BANDWIDTHS_HZ), sharex=True, sharey="row")
        for column, (bandwidth, color) in enumerate(BANDWIDTHS_HZ):
            commanded, _ = by_executor(stream, publish__bandwidth=bandwidth)
            away = commanded[begin:end] - motion.at(times)
            bends = np.diff(commanded[begin - 1 : end + 1], 2, axis=0) / CYCLE_S**2
            meant = motion.at(times, 2)
            error, ratio = np.sqrt((away**2).mean()), np.sqrt((bends**2).mean() / (meant**2).mean())
            panels[0, column].plot(times, 1e3 * away[:, JOINT], color=color, linewidth=1.2)
            panels[0, column].set_title(
                f"publish.bandwidth: {bandwidth:g} Hz\nrms: {1e3 * error:.1f} mrad, {ratio:.2f} x meant acceleration",
                loc="left",
            )
            panels[1, column].plot(times, bends[:, JOINT], color=color, linewidth=1.2, label="commanded")
            panels[1, column].plot(times, meant[:, JOINT], color=MOTION_GREY, linewidth=2.5, label="meant")
            panels[1, column].set_xlabel("time [s]")
            print(f"{bandwidth:g} Hz: {1e3 * error:.2f} mrad, {ratio:.3f} x the meant acceleration")
        panels[0, 0].set_ylabel("distance from what is meant [mrad]")
        panels[1, 0].set_ylabel("acceleration [rad/s²]")
        panels[1, 0].legend(loc="upper right")


if __name__ == "__main__":
    main()
