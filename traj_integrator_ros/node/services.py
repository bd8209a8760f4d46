"""Handlers of calls of the node's services."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Timer
from typing import TYPE_CHECKING

import numpy as np
from rclpy.lifecycle import LifecycleNode

from traj_integrator_interfaces.msg import TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate, Retime, Stop

from ..execution.motion import Motion, State
from ..governor.command import Command
from ..governor.executable import ExecutableTrajectory
from ..governor.executor import Executor
from ..requests.rejection import Rejected, RejectionReason
from ..wire import messages
from ..wire.readers import nanoseconds, sequence_fields
from .accounts import Accounts
from .answers import Answers
from .intake import CALL_WAITS_S, MOST_CALLS, Call
from .priority import come_after

if TYPE_CHECKING:
    from .topic_handlers import TopicHandlers

_LATER_S = 5e-4
"""Time, s, by which a stop waits longer than until the controller is at the first point, by the node's clock."""
Steps = Generator[None, None, None]
"""A handler that may take long: a generator that yields until the response is complete."""
STOP = "stop"
"""Name of the service whose calls are neither counted nor timed, since it concerns no sequence."""
_OVER = object()


class Services:
    """Handles calls; the method with the name of a service fills in its response."""

    def __init__(self, node: LifecycleNode, accounts: Accounts, published: Command, handlers: TopicHandlers) -> None:
        self._node, self._published, self._handlers = node, published, handlers
        self._work = ThreadPoolExecutor(1, "services", come_after)
        self._accounts = accounts
        self._open: list[Call] = []
        """Calls whose handlers have begun."""
        self._asked: Future = Future()
        """The latest search for a motion that is only asked for."""
        self._asked.set_result(None)
        self.answers = Answers()
        self.stopped_s = 0.0
        """When ~/stop was called last, s of the steady clock."""
        self.active_since_s = 0.0
        """When the node was activated, s of the steady clock: calls that came before wait from then on."""

    def serve(self, call: Call) -> None:
        """Handle a call, now or later; the response says whether that succeeded."""
        if call.name == STOP:  # In every state: a robot on hold stays on hold, whatever fails.
            self._published.guard.held = call.request.hold
            self.stopped_s = max(self.stopped_s, call.arrived_s)
        if not self._go_on(call):
            self._open.append(call)

    def refuse_late(self, calls: deque[Call]) -> None:
        """Refuse the oldest waiting calls if they have waited for too long, and the newest if there are too many."""
        now_s = time.monotonic()
        while calls and now_s - max(calls[0].arrived_s, self.active_since_s) > CALL_WAITS_S:
            self._refuse(calls.popleft(), f"a turn within {CALL_WAITS_S:g} s")
        while len(calls) > MOST_CALLS:
            self._refuse(calls.pop(), f"at most {MOST_CALLS} waiting calls")

    def _refuse(self, call: Call, expected: str) -> None:
        with self._accounts.guard(call.name) as outcome:
            waited = f"{call.name}: expected {expected}, got none after {call.age_s:.2f} s"
            raise Rejected(RejectionReason.BUSY, waited)
        self._answer(call, outcome.reason)

    def integrate(self, pipeline: Executor, request: Integrate.Request, response: Integrate.Response) -> Steps:
        """Fill in the trajectories of a sequence."""
        now_ns, stamp = self._handlers.read(), request.actions.header.stamp
        stamp_ns = nanoseconds((stamp.sec, stamp.nanosec))
        sequence = pipeline.checked(sequence_fields(request.actions), stamp_ns, now_ns)
        batch = pipeline.batches.integrate(sequence, pipeline.batches.started(sequence, lambda: now_ns), request.fields)
        fill = partial(messages.fill_trajectories, response.trajectory, batch, stamp)
        self._handlers.beside(batch.trajectories.size, fill)
        try:
            if not request.as_published:
                pipeline.check_limits(batch)
                return
            # One at a time: motions to be executed need the other threads.
            yield from self._until(lambda: self._asked.done(), "integrate")
            self._asked = asked = pipeline.publishable(sequence, stamp_ns, self._handlers.update())
            while not asked.done():
                yield
            asked.result()
        except Rejected:
            response.trajectory = TrajectoryBatch()
            raise

    def compute_gradient(
        self, pipeline: Executor, request: ComputeGradient.Request, response: ComputeGradient.Response
    ) -> None:
        """Fill in a vector-Jacobian product."""
        fields, upstream = sequence_fields(request.actions), messages.upstream_gradients(request)
        messages.fill(response, pipeline.batches.gradient(fields, upstream, self._handlers.read))

    def evaluate(self, pipeline: Executor, request: Evaluate.Request, response: Evaluate.Response) -> None:
        """Fill in the cost of a sequence, and the other requested results."""
        fields, asked = sequence_fields(request.actions), messages.evaluation_fields(request)
        evaluated = pipeline.batches.evaluate(fields, asked, self._handlers.read)
        messages.fill_evaluation(response, evaluated, request.actions.header.stamp)

    def committed(self, pipeline: Executor, request: Committed.Request, response: Committed.Response) -> None:
        """Fill in the motion in execution."""
        found = pipeline.committed(messages.committed_fields(request), self._handlers.update())
        messages.fill_committed(response, found)

    def retime(self, pipeline: Executor, request: Retime.Request, response: Retime.Response) -> Steps:
        """Fill in retimed trajectories."""
        answer = self._work.submit(pipeline.retiming(messages.retime_fields(request)).answer)
        answer.add_done_callback(lambda _: self._handlers.wake())
        try:
            yield from self._until(lambda: answer.running() or answer.done(), "retime")
            while not answer.done():
                yield
        finally:
            answer.cancel()
        messages.fill(response, answer.result()._asdict())

    def _until(self, begins: Callable[[], bool], name: str) -> Steps:
        """Wait until the work of a call can begin. Raises Rejected: busy."""
        begun_s = time.monotonic()
        while not begins():
            if (waited_s := time.monotonic() - begun_s) > CALL_WAITS_S:
                raise Rejected(RejectionReason.BUSY, f"{name}: others are computed, waited {waited_s:.2f} s")
            yield

    def stop(self, pipeline: Executor, request: Stop.Request, response: Stop.Response) -> None:
        """Brake, and fill in duration and distance of the stop."""
        now_ns, clock = self._handlers.update(), self._published.motion_clock
        waited_s = max(time.monotonic() - self.stopped_s, 0.0)
        stop = pipeline.planner.stop(now_ns, request.hold)
        self._handlers.hand_over(stop)
        self._handlers.goal_server.goals.abort(Rejected(RejectionReason.STOPPED, "node: a stop was requested"))
        response.joint_names = list(pipeline.parameters.joint_names)
        expected = pipeline.planner.awaited_stop(now_ns) if stop is None else stop
        response.message = _told(expected, stop, request.hold)
        # The response holds for a stop that is made when it begins, not at the next supervision.
        if stop is None and expected is not None:
            begins_s = clock.lasts_s((expected.start_ns - clock.at(now_ns)) * 1e-9)
            alarm = Timer(begins_s + _LATER_S, self._handlers.wake)
            alarm.daemon = True
            alarm.start()
        response.distance = [0.0] * len(response.joint_names)
        if expected is not None:
            motion = expected.motion
            into_s = (clock.at(now_ns) - expected.start_ns) * 1e-9
            response.duration = clock.lasts_s(motion.duration - into_s)
            now = motion.state_at(max(into_s, 0.0))
            response.distance = self._way(now, motion)
            # They count from the call on, since which the robot has moved.
            then = self._published.commanded(now_ns - round(waited_s * 1e9))
            simulated = self._node.get_clock().ros_time_is_active
            if then is not None and expected.seam_offset is not None and not simulated:
                response.duration += waited_s
                response.distance = self._way(then, motion)

    def _way(self, now: State, motion: Motion) -> list[float]:
        """Return the distances of joints to the end of a motion, rad, their lag included."""
        behind = self._published.guard.monitor.behind
        return np.asarray(motion.end.position - now.position + (behind if len(behind) else 0.0)).tolist()

    @property
    def waits(self) -> bool:
        """Return whether a call has no response yet."""
        return bool(self._open)

    def go_on(self) -> None:
        """Continue the handlers of calls that could not be answered at once."""
        self._open = [call for call in self._open if not self._go_on(call)]

    def _go_on(self, call: Call) -> bool:
        """Begin or continue the handler of a call; returns whether its response was sent."""
        with self._accounts.guard(call.name) as outcome:
            pipeline = self._handlers.accepting()
            if call.steps is None:
                call.steps = getattr(self, call.name)(pipeline, call.request, call.response) or iter(())
            if next(call.steps, _OVER) is not _OVER:
                return False
        self._answer(call, outcome.reason)
        return True

    def _answer(self, call: Call, refused: str) -> None:
        response = call.response
        response.success, response.message = not refused, refused or response.message
        if call.name != STOP:
            self._accounts.service_calls += 1
            if response.success:
                self._accounts.service_latency.add(call.age_s)
        with self._accounts.guard(call.name):  # The caller may be gone.
            call.answer(self.answers)

    def close(self) -> None:
        """Begin no more work in other threads."""
        self._work.shutdown(wait=False, cancel_futures=True)


def _told(expected: ExecutableTrajectory | None, stop: ExecutableTrajectory | None, hold: bool) -> str:
    if expected is None:
        done = "nothing was in motion"
    elif stop is None:
        done = "will brake as soon as it is known where the controller is in its motion"
    else:
        done = "braking"
    held = "sequences are rejected until a call with hold: false" if hold else "sequences are rejected until it rests"
    return f"{done}; {held}" if hold or expected is not None else done
