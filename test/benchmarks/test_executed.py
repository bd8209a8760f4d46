"""The table of what the controller commands: its model of the controller is right, and its bounds can be missed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def on_path(project_root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(project_root))


@pytest.mark.parametrize("from_desired", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_its_controller_commands_what_the_model_of_joint_trajectory_controller_does(jtc, seed, from_desired):
    from benchmarks.executed.controller import CYCLE_NS, Controller, Message
    from traj_integrator_ros.execution.motion import State
    from traj_integrator_ros.execution.points import Points

    random = np.random.default_rng(seed)
    start, begin_ns, joints = State(*random.normal(size=(3, 3))), 5_000_000_000, ["a", "b", "c"]
    ours = Controller(start, begin_ns, from_desired=from_desired)
    other = jtc.Controller(
        joints,
        hard_replacement=True,
        interpolate_from_desired_state=from_desired,
        allow_nonzero_velocity_at_trajectory_end=True,
    )
    other.set_state(*start)
    expected = [start.position]
    for cycle in range(1200):
        now_ns = begin_ns + cycle * CYCLE_NS
        if random.random() < 0.01 or cycle == 0:
            time_ns = random.integers(3_000_000, 90_000_000, int(random.integers(2, 6))).cumsum()
            columns = random.normal(size=(3, len(time_ns), 3))
            columns[1:, -1] = 0.0  # an end in motion is held with its velocity, which no robot can
            stamp_ns = 0 if random.random() < 0.4 else now_ns + int(random.integers(-1_000_000, 50_000_000))
            ours.receive(Message(stamp_ns, Points(time_ns, *columns)), now_ns)
            assert other.receive(joints, time_ns, *columns, now=now_ns * 1e-9, stamp=stamp_ns * 1e-9), other.refusal
        expected.append(other.update(now_ns * 1e-9)[0])
    ours.run(begin_ns + 1200 * CYCLE_NS)
    np.testing.assert_allclose(ours.commanded().position, expected, atol=1e-9)


REPRESENTATIVE = (
    "position, dt 0.05",
    "jerk, dt 0.05",
    "planned",
    "10 Hz",
    "stops",
    "ends while",
    "noise",
    "position in",
)


@pytest.mark.parametrize("what", REPRESENTATIVE)
def test_the_node_keeps_the_bounds_and_rows_as_points_do_not(what):
    from benchmarks.executed.cases import items, met
    from benchmarks.executed.senders import Node, RowsAsPoints

    pytest.importorskip("ruckig")
    lines = [item for item in items(None, None, quick=True) if what in item.what and np.isfinite(item.bound)]
    assert lines
    for item in lines:
        assert met(item, item.measure(Node)), f"{item.what}: {item.figure}"
    if "ends" not in what:  # rows as points stop at once
        assert not all(met(item, item.measure(RowsAsPoints)) for item in lines)
