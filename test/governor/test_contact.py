"""An arm that touches something is let go, is not pushed there again, and leaves it by the first plan."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NOW_S, SimulatedNode, ns

from traj_integrator_ros.requests.rejection import Rejected

WALL = 0.3
"""Position at which the joint stops, rad."""


class Contact:
    """A joint that follows its command 40 ms later, to a wall, with reports and joint states."""

    def __init__(self, sticks: float) -> None:
        self.node = SimulatedNode(1, limits__assumed_velocity=2.0, start_from="previous")
        self.time, self.place, self.held, self.sticks = 0.0, 0.0, 0.0, sticks
        self.refused: list[Rejected] = []

    def command(self, time: float) -> tuple[float, float]:
        """Position and velocity; held where nothing is in execution."""
        state = self.node.published.present.commanded(ns(NOW_S + time))
        if state is None:
            return self.held, 0.0
        self.held = float(state.position[0])
        return self.held, float(state.velocity[0])

    def run(self, seconds: float, rows: object = None) -> None:
        """Let time pass; send `rows` of the time at 10 Hz."""
        for _ in range(round(seconds * 100)):
            wanted = min(self.command(self.time - 0.04)[0], WALL)
            if abs(wanted - self.place) > self.sticks:
                self.place += wanted - self.place
            self.node.measure(self.place, 0.0, now=NOW_S + self.time)
            tick = round(self.time * 100)
            if tick % 2 == 0:
                self.node.report(*self.command(self.time), now=NOW_S + self.time)
            self.node.tick(NOW_S + self.time)
            if rows is not None and tick % 10 == 0:
                try:
                    self.node.send(rows(self.time)[:, None], dt=0.04, now=NOW_S + self.time, stamp=NOW_S + self.time)
                except Rejected as rejected:
                    self.refused.append(rejected)
            self.time = round(self.time + 0.01, 2)


@pytest.mark.parametrize(("speed", "sticks"), [(0.03, 4e-3), (0.1, 0.0), (0.5, 4e-3), (1.5, 0.0)])
def test_an_arm_at_a_wall_is_let_go_and_leaves_it_by_the_first_plan(speed: float, sticks: float) -> None:
    arm, ahead = Contact(sticks), 0.04 * np.arange(1, 25)
    arm.run(0.3)
    begin = arm.time
    arm.run(WALL / speed + 3.0, lambda time: speed * (time - begin + ahead))
    guard = arm.node.published.guard
    assert guard.brakes >= 1
    arm.run(1.0)
    assert abs(arm.command(arm.time)[0] - arm.place) < 6e-3, "nothing presses"
    assert not guard.reason and WALL - 16e-3 < arm.place < WALL - 6e-3, "it has drawn back by 10 mrad"
    arm.refused.clear()
    begin, brakes, there = arm.time, guard.brakes, arm.place

    def back(time: float) -> np.ndarray:
        share = np.clip((time - begin + ahead) / 1.0, 0.0, 1.0)
        return there - 0.25 * (10 * share**3 - 15 * share**4 + 6 * share**5)

    arm.run(1.5, back)
    assert not arm.refused and guard.brakes == brakes, (arm.refused, guard.reason)
    assert abs(arm.place - (there - 0.25)) < 6e-3
