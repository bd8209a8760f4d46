"""What a controller would command of the demo's trajectories: peaks at 1 kHz, and the figure of the liveliest."""

from __future__ import annotations

import numpy as np
import pytest

from traj_integrator_ros.demo.metrics import Commanded

trajectory_msgs = pytest.importorskip("trajectory_msgs.msg", reason="trajectory_msgs cannot be imported")


def from_to_rest(distance: float, *, accelerations: bool = True):
    """Two points at rest, 1 s apart: a quintic peaks at 1.875 and 5.77, a cubic at 1.5 and 6 times the distance."""
    message = trajectory_msgs.JointTrajectory(joint_names=["a", "b"])
    for k in range(2):
        point = trajectory_msgs.JointTrajectoryPoint(positions=[k * distance, 0.0], velocities=[0.0, 0.0])
        point.accelerations = [0.0, 0.0] if accelerations else []
        point.time_from_start.sec = k
        message.points.append(point)
    return message


def test_the_largest_of_all_trajectories_is_reported_with_that_of_their_points():
    commanded = Commanded()
    for distance in (0.5, 1.0, -0.2):
        commanded.add(from_to_rest(distance))
    report = commanded.as_json()
    expected = {"velocity_rad_s": 1.875, "acceleration_rad_s2": 5.7735, "jerk_rad_s3": 60.0}
    assert report["at_1_khz"] == pytest.approx(expected, rel=1e-3)
    assert report["at_points"] == {"velocity_rad_s": 0, "acceleration_rad_s2": 0}
    assert commanded.liveliest.points[1].positions[0] == 1.0
    commanded.add(from_to_rest(1.0, accelerations=False))
    assert commanded.peaks[2].max() == pytest.approx(6, rel=1e-3)
    assert commanded.shares({"acceleration": np.array([12.0, 1.0])}) == {"acceleration": pytest.approx(0.5, rel=1e-3)}
    still, message = Commanded(), from_to_rest(1.0)
    message.points = message.points[:1]
    still.add(message)
    assert still.liveliest is None and not still.peaks.any()


@pytest.mark.parametrize("accelerations", [True, False])
def test_the_figure_shows_what_is_commanded_over_the_points(accelerations):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    from traj_integrator_ros.demo.drawing import draw_commanded

    commanded = Commanded()
    commanded.add(from_to_rest(1.0, accelerations=accelerations))
    figure, panels = pyplot.subplots(2, 1)
    draw_commanded(panels, commanded, {"acceleration": np.array([12.0, 5.0])})
    assert len(panels[0].lines[0].get_xdata()) == 1000 and len(panels[0].lines) == 2
    assert len(panels[1].lines) == (4 if accelerations else 3)
    assert [line.get_ydata()[0] for line in panels[1].lines[-2:]] == [-12.0, 12.0]
    assert "rad/s²" in panels[0].get_title(loc="left")
    pyplot.close(figure)
