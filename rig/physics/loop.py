"""A physical arm in simulated time: around the executor, and around the controller alone."""

from __future__ import annotations

import numpy as np

from benchmarks.players import points_ahead
from soak.streams.core import NodeCore
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.governor.supervision import Guard
from traj_integrator_ros.requests.inputs import Actions, Positions

from ..simulated import Answer, Sent, Simulated
from .robot import PhysicalRobot

_TIMES = "states_hz", "reports_hz", "jitter", "late", "tells", "seed"


class Log:
    """Record of the motion, cycle by cycle: times, s, commands, places, speeds, and forces of contacts, N."""

    def __init__(self, rows: list) -> None:
        self.time, commands, self.place, self.speed, _, self.force = (
            np.array(part) for part in zip(*rows, strict=True)
        )
        self.command = commands[:, 0]


class Loop(Simulated):
    """The executor with a physical arm, at rest, around it, and its limits; options are times and node parameters."""

    def __init__(self, robot: PhysicalRobot, **options: object) -> None:
        arm = robot.arm
        given = {
            f"limits__{name}": list(map(float, getattr(arm, name))) for name in ("velocity", "acceleration", "jerk")
        }
        given |= {"limits__position_min": list(map(float, arm.low)), "limits__position_max": list(map(float, arm.high))}
        times = {"jitter": 0.002} | {name: options.pop(name) for name in _TIMES if name in options}
        core = NodeCore(arm.joints, self._refused, **{"start_from": "previous", **given, **options})
        super().__init__(robot, core, **times)

    @property
    def guard(self) -> Guard:
        """The supervision."""
        return self.core.published.guard

    def log(self, begin: float = 0.0, end: float = np.inf) -> Log:
        """The cycles between two times."""
        return Log([row for row in self.rows if begin <= row.time <= end])

    def _received(self, at_ns: int, sent: Sent) -> None:
        super()._received(at_ns, sent)
        if sent.refusal not in ("", "off") and not self.stall[1]:  # a stall may delay it until it ends in the past
            raise AssertionError(f"the controller refused a trajectory: {sent.refusal}")


class Straight(Loop):
    """The loop without the node: rows are points of trajectories, and a stop holds where the arm is measured."""

    def stop(self, hold: bool = False) -> ExecutableTrajectory | None:
        """Hold the present position."""
        place = self.robot.measured()[0][None]
        self._receive(Points(np.array([self.robot.period]), place, 0 * place, 0 * place))
        return None

    def answer(self, at_ns: int, plan: Actions | Positions) -> Answer:
        """Send the rows of a plan to the controller."""
        if isinstance(plan, Actions):
            ahead = 1e-9 * ((plan.stamp_ns or at_ns) - at_ns) + plan.dt * np.arange(1, len(plan.data) + 1)
            self._receive(Points(*points_ahead(ahead, plan.data), None))
        else:
            times_ns = np.rint(1e9 * np.asarray(plan.times)).astype(np.int64)
            self._receive(Points(times_ns, plan.positions, plan.velocities, plan.accelerations))
        return None

    def _receive(self, points: Points) -> None:
        self._received(self._ns, Sent(self._ns, ExecutableTrajectory(None, points=points)))

    def _take_state(self, *_: object) -> None:
        pass

    def _tick(self, at_ns: int) -> None:
        pass
