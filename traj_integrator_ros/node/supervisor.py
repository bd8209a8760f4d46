"""What the node publishes by itself: brakes, stops, and sequences that had to wait."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from traj_integrator_interfaces.srv import Stop

from ..handling.controller_reports import ControllerStatus
from ..handling.parameter_table import ON_REJECT_BRAKE
from ..handling.pipeline import Pipeline
from ..handling.published import ExecutableTrajectory
from .accounts import Accounts

CONSPICUOUS = {
    ControllerStatus.LATE: "it still executed a motion that had been replaced; raise publish.lead_time",
    ControllerStatus.RESTARTED: "it was restarted, aborted the motion, or refused it, and holds its position",
    ControllerStatus.OTHER: "it executes a motion that this node has not published",
    ControllerStatus.SCALED: "it executes at another speed than planned; sequences are rejected",
    ControllerStatus.SILENT: "it reported, and does not any more; sequences are rejected",
}
"""States of the controller that an operator should look at, in words."""


class Supervisor:
    """Brakes the robot where it has to be, and stops it where that is asked for.

    Args:
        accounts: count and log what fails.
        accepting: returns the pipeline, or raises Rejected while the node is not active.
        update: brings the joint states up to date and returns the time, ns.
        hand_over: publishes a trajectory and records it.
        tell: logs a line at level error.

    """

    def __init__(
        self,
        accounts: Accounts,
        accepting: Callable[[], Pipeline],
        update: Callable[[], int],
        hand_over: Callable[[ExecutableTrajectory | None], None],
        tell: Callable[[str], None],
    ) -> None:
        self._accounts, self._accepting, self._update = accounts, accepting, update
        self._hand_over, self._tell = hand_over, tell
        self._reason = ""
        self.controller_was: set[ControllerStatus] = set()
        """What the controller did since this was last cleared."""

    def tick(self) -> None:
        """Look at what has arrived, and publish what the pipeline wants to be published by itself."""
        with self._accounts.guard("supervision"):
            now_ns = self._update()
            pipeline = self._accepting()
            self._hand_over(pipeline.commands.tick(now_ns, self._update))
            pipeline.published.present.is_silent(now_ns)
            self._tell_of_controller(pipeline.published.present.status)
            self._tell_of_brakes(pipeline.published.guard.reason)

    def _tell_of_controller(self, status: ControllerStatus) -> None:
        if status not in self.controller_was:
            self.controller_was.add(status)
            if status in CONSPICUOUS:
                self._accounts.warn(("controller", status), f"controller {status.value}: {CONSPICUOUS[status]}")

    def _tell_of_brakes(self, reason: str) -> None:
        if reason != self._reason:
            self._tell(f"braked: {reason}" if reason else "the robot rests after its brake: sequences are taken again")
            self._reason = reason

    def after_rejection(self) -> None:
        """Brake what is in execution, if a rejected sequence means that (publish.on_reject)."""
        with self._accounts.guard("supervision"):
            pipeline = self._accepting()
            guard = pipeline.published.guard
            if pipeline.parameters.publish_on_reject != ON_REJECT_BRAKE or guard.reason or guard.stopped_until_rest:
                return
            self._hand_over(pipeline.commands.stop(self._update(), guard.held))

    def stop(self, request: Stop.Request, response: Stop.Response) -> Stop.Response:
        """Answer ~/stop."""
        with self._accounts.guard("stop") as outcome:
            pipeline = self._accepting()
            now_ns = self._update()
            stop = pipeline.commands.stop(now_ns, request.hold)
            self._hand_over(stop)
            response.joint_names = list(pipeline.parameters.joint_names)
            expected = pipeline.commands.awaited_stop(now_ns) if stop is None else stop
            response.message = _told(expected, stop, request.hold)
            response.distance = [0.0] * len(response.joint_names)
            if expected is not None:
                motion = expected.motion
                response.duration = max((expected.start_ns - now_ns) * 1e-9, 0.0) + motion.duration
                response.distance = np.asarray(motion.end.position - motion.begin.position).tolist()
        response.success = outcome.accepted
        if not outcome.accepted:
            response.message = outcome.reason
        return response


def _told(expected: ExecutableTrajectory | None, stop: ExecutableTrajectory | None, hold: bool) -> str:
    if expected is None:
        done = "nothing was in motion"
    elif stop is None:
        done = "will brake as soon as the controller is at the first point of the motion"
    else:
        done = "braking"
    held = "sequences are rejected until a call with hold: false" if hold else "sequences are rejected until it rests"
    return f"{done}; {held}" if hold or expected is not None else done
