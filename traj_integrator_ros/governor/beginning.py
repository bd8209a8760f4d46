"""Where a motion begins: at the controller's command, or at the measured state if that is unknown. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..execution.bounds import Bounds
from ..execution.limits import extremes
from ..execution.motion import State, resting
from ..execution.stopping import fastest_stop
from ..execution.tolerances import MOMENT_S, RESTS, whole_ns
from ..parameters.parameters import NodeParameters
from ..requests.plan import Plan, turned
from ..requests.rejection import Rejected, RejectionReason, all_finite
from .command import CUT_OFF_S, Command, NotYet
from .executable import ExecutableTrajectory
from .measured import MeasuredState, outside
from .monitor import Allowance

_QUINTIC_PEAKS = np.array([[1.88], [5.78], [4 * 60.0]])
"""Largest velocity, acceleration and four times the largest jerk of a quintic from rest to rest over 1 rad in 1 s. It
may begin with twice its acceleration, since the controller takes its last command for one cycle older than it is.
"""
_BRIDGED_AGAIN = 8
"""Number of iterations for the bridge: its duration depends on where the joint is at its end. They converge."""
_FURTHEST_RAD = 0.5
"""Largest distance, rad or m, by which a robot that something else moves is assumed to go on."""
_LATEST_S = 1.0
"""A plan without a stamp is assumed to be younger than this, s: the robot may have been at its beginning since."""
_SAYS_ITSELF_S = 0.5
"""A plan whose first row is later than this, s, gives its own speed of approach; the rows of chunks are earlier."""
_AT_START_RAD = 0.01
"""Distance, rad or m, up to which the first row of a path counts as the robot's own position: MoveIt's default."""
_OF_PACE = 1.5
"""Factor on the mean speed of a plan, since its first step may be the fastest one."""
_PASSED = 40
"""Number of positions that the command has passed since a plan was made: no motion goes far in between."""


@dataclass(frozen=True)
class Beginning:
    """Finds the controller's command from now on, and decides whether a plan may begin there."""

    parameters: NodeParameters
    published: Command
    bounds: Bounds
    allowance: Allowance

    def of(self, plan: Plan, now_ns: int) -> ExecutableTrajectory:
        """Return the controller's command from now on; where it is unknown, the measured state a little later.

        Raises Rejected: controller_unavailable or deviation, or as `JointStates.latest` does.
        """
        states, timeout = self.published.joint_states, self.parameters.state_timeout
        if self.published.report is None and 0 < self.published.silence_s(now_ns) < CUT_OFF_S:
            states.latest(now_ns, timeout)
            raise NotYet  # The network may stand still.
        if (present := self.published.at(now_ns)) is not None:
            if states.recent or states.jumped_back:
                states.latest(now_ns, timeout)
            return present
        if (unsettled := states.believed.contradiction(now_ns, settled=True)) is not None:
            raise unsettled
        is_given = plan.start is not None and all_finite(plan.start.position)
        measured = (states.known if is_given else states.latest)(now_ns, timeout)
        position = plan.start.position if measured is None else measured.position
        if len(switched := self.parameters.switched):  # What is measured of them may lie between their values.
            position, first = position.copy(), plan.actions[0, switched]
            position[switched] = np.where(np.isnan(first), position[switched], first)
        velocity, moves = np.zeros_like(position), self.parameters.publish_start_moving and measured is not None
        if moves and np.abs(measured.velocity).max() > self.parameters.publish_rest_tolerance:
            velocity = measured.velocity
        bridge_s = self._bridge_time(position, velocity)
        speed = np.abs(velocity) if moves or measured is None else states.speed()
        most = np.full_like(speed, _FURTHEST_RAD / bridge_s) if moves else RESTS * self.allowance.full_speed
        joint = int((speed / most).argmax())
        if speed[joint] > most[joint]:
            told = f"moves at {speed[joint]:.3g}, which the node does not command; expected at most {most[joint]:.3g}"
            told += ", or a report of the controller (parameter publish.start_moving)"
            raise Rejected(RejectionReason.DEVIATION, f"{self.parameters.joint_names[joint]} {told}")
        # Something else may move the robot. It is assumed to go on until the controller is there, and then to stop.
        stop = resting(position, MOMENT_S)
        if velocity.any():
            stop = fastest_stop(State(position + velocity * bridge_s, velocity), self.bounds)
        known_ns = self.published.motion_clock.at(now_ns) + whole_ns(bridge_s)
        return ExecutableTrajectory(stop._replace(start_ns=known_ns), follows=False)

    def without_first_row(self, path: Plan, now_ns: int) -> Plan:
        """Return a path without its first row if the robot is, or is commanded to be, there: most planners send it."""
        measured = self.published.joint_states.known(now_ns, self.parameters.state_timeout)
        known = [] if measured is None else [measured.position - self.published.guard.offset]
        if (commanded := self.published.commanded(now_ns)) is not None:
            known.append(commanded.position)
        first, turning = path.actions[0], self.parameters.continuous
        away = [np.nanmax(np.abs(turned(first, position, turning) - position)) for position in known]
        if len(path.actions) == 1 or min(away, default=np.inf) > _AT_START_RAD:
            return path
        return replace(path, actions=path.actions[1:])

    def mismatch(
        self, plan: Plan, present: ExecutableTrajectory, command: np.ndarray, measured: MeasuredState | None, at_ns: int
    ) -> str:
        """Describe how far a plan begins from where the robot is, or may be by then; empty if it is near enough.

        The robot may be anywhere between its measured position and its commands from the measurement until the plan's
        start. A plan without a start may have been made since its origin, and a stream that is slowed is behind its
        plans, until the end of the motion in execution. A robot that stands away from its command is where it stands,
        and plans that begin elsewhere are not described, but rejected: deviation. A joint that is away from its command
        for no known reason counts as there. `command` is that of the begin, and `at_ns` is now.
        """
        starts, offset = plan.start is not None, self.published.guard.offset
        # A single row is a position, and has no speed.
        paced = not starts and (plan.is_positions or plan.spline) and len(plan.steps) > plan.is_complete
        paced = bool(paced and plan.steps[0] <= _SAYS_ITSELF_S)
        first = plan.start.position if starts else plan.actions[0] if paced else command
        there = command if measured is None else turned(measured.position - offset, command, self.parameters.continuous)
        stands_away = not present.follows and present.start_ns <= at_ns
        stands_away = stands_away and bool((np.abs(there - command) > self.allowance.distance).any())
        places, reach, parameter = np.stack([command, there]), self.allowance.start, "limits.start_deviation"

        def beyond() -> np.ndarray:
            return np.maximum(np.abs(outside(first, places)) - reach, 0.0)

        if stands_away:
            places, reach = there[None], self.allowance.distance
            parameter = "supervision.deviation, since the robot stands away from its command"
        elif not np.count_nonzero(beyond()):
            return ""
        elif paced:
            reach, parameter = reach + _OF_PACE * plan.pace * plan.steps[0], f"{parameter}, and its own pace"
        if present.follows and beyond().any():
            since_ns, until_ns = plan.origin_ns or at_ns - whole_ns(_LATEST_S), at_ns
            if starts:
                since_ns = at_ns if measured is None else self.published.motion_clock.at(int(measured.stamps_ns.min()))
                until_ns = max(plan.origin_ns, at_ns)
            else:
                places = np.vstack([places, extremes(present.motion.rest_from(max(at_ns, present.start_ns)))[:, 0]])
            times_ns = np.linspace(since_ns, until_ns, _PASSED).astype(np.int64).tolist()
            passed = map(self.published.state_at, times_ns)
            places = np.vstack([places, *(state.position for state in passed if state is not None)])
        if not beyond().any():
            return ""
        joint = int(beyond().argmax())
        near = f"the robot's {there[joint]:.6g}"
        then = "a policy that went on while the robot was slowed or stopped begins anew from where it is (~/committed)"
        if offset.any() and offset[joint] and not stands_away:
            near = f"its command, {command[joint]:.6g}, from which the robot is measured {offset[joint]:.4g} away "
            near += "for no known reason"
            then = "if it is there, deactivate and activate the node"
        text = (
            f"sequence: its first position of {self.parameters.joint_names[joint]} is {first[joint]:.6g}, expected "
            f"within {reach[joint]:.4g} (parameter {parameter}) of {near}; {then}"
        )
        if stands_away:
            raise Rejected(RejectionReason.DEVIATION, text)
        return text

    def _bridge_time(self, position: np.ndarray, velocity: np.ndarray) -> float:
        """Return the time, s, in which the controller's quintic from its unknown command keeps the limits."""
        time, left_at = self.parameters.publish_bridge_time, self.published.left_at
        if left_at is None:
            return time
        for _ in range(_BRIDGED_AGAIN):  # Until then, moving joints go on.
            distance = np.abs(position - left_at) + np.abs(velocity) * time
            needed = (_QUINTIC_PEAKS * distance / self.bounds.rates) ** (1 / np.array([[1], [2], [3]]))
            time = max(time, float(needed.max()) + self.parameters.publish_lead_time)
        return time
