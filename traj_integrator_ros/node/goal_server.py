"""~/follow_joint_trajectory: plans for a client that waits, such as MoveIt; it requires control_msgs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message

from ..governor.goals import Goals
from ..parameters.table import END_GOAL
from ..requests.goals import Ended, Feedback, Result
from ..requests.plan import GOALS
from ..requests.rejection import Rejected, RejectionReason
from ..wire.messages import fill_feedback, goal_fields
from .accounts import Accounts, Output
from .entities import CALL_DEPTH, never_called
from .intake import CALL_WAITS_S, GIVES_WAY_S

try:  # Some installations of ROS 2 lack it.
    from control_msgs.action import FollowJointTrajectory
except ImportError:
    FollowJointTrajectory = None

if TYPE_CHECKING:
    from .topic_handlers import TopicHandlers

_UNTIL_SENT_S = 0.5
"""Time, s, for which a server that is closed waits until its last result is sent."""


class GoalServer:
    """The action server, with feedback and results; `governor/goals.py` decides about the goals."""

    def __init__(self, node: LifecycleNode, accounts: Accounts, handlers: TopicHandlers) -> None:
        self._node, self._accounts, self._handlers = node, accounts, handlers
        self._unsent = False
        self.goals = Goals(handlers.pipeline, self._finish, self._tell)
        self._server: _DeferringServer | None = None
        if FollowJointTrajectory is not None:
            deep = QoSProfile(depth=CALL_DEPTH)
            self._server = _DeferringServer(
                node,
                FollowJointTrajectory,
                f"~/{GOALS}",
                attend=handlers.attend,
                **{f"{name}_service_qos_profile": deep for name in ("goal", "result", "cancel")},
                execute_callback=never_called,
                goal_callback=self._may_begin,
                handle_accepted_callback=self._begin,
                cancel_callback=self._cancel,
            )

    @property
    def offer(self) -> str:
        """Whether the action is offered, or why it is not, for the log."""
        return "not offered: control_msgs is not installed" if self._server is None else "offered"

    @property
    def state(self) -> str:
        """State of the action for diagnostics, or why it is not offered."""
        return self.offer if self._server is None else self.goals.state

    @property
    def is_busy(self) -> bool:
        """Return whether a goal is in progress."""
        return self.goals.state != "idle"

    def supervise(self, now_ns: int) -> None:
        """Check whether the goal is over."""
        with self._accounts.guard(GOALS):
            self._handlers.hand_over(self.goals.look(now_ns))

    def deactivate(self, now_ns: int) -> None:
        """Stop and abort the goal in execution, because it will not be watched any more."""
        self._handlers.hand_over(self.goals.stop(now_ns))
        self.goals.abort(Rejected(RejectionReason.NOT_ACTIVE, "node: deactivated before the goal was reached"))

    def close(self, *, at_once: bool) -> None:
        """Remove the server; if a result is still to be sent, a little later, unless `at_once`."""
        server, self._server = self._server, None
        if server is None:
            return
        if at_once or not self._unsent:
            server.destroy()
            return

        def destroy() -> None:
            self._node.destroy_timer(timer)
            server.destroy()

        timer = self._node.create_timer(_UNTIL_SENT_S, destroy)

    def _may_begin(self, goal: object) -> GoalResponse:
        self._accounts.sequences += 1
        with self._accounts.guard(GOALS) as outcome:
            self._handlers.accepting()
            if (waited_s := time.monotonic() - self._server.taken_s) > CALL_WAITS_S:
                message = f"{GOALS}: expected a turn within {CALL_WAITS_S:g} s, got none after {waited_s:.2f} s"
                raise Rejected(RejectionReason.BUSY, message)
        self._accounts.refused_for[Output.ROW] += bool(outcome.reason)
        return GoalResponse.REJECT if outcome.reason else GoalResponse.ACCEPT

    def _begin(self, handle: ServerGoalHandle) -> None:
        handle.execute()
        goal, handlers, overtaken = handle.request, self._handlers, self._server.gives_way
        with self._accounts.guard(GOALS) as outcome:
            if overtaken:
                raise Rejected(RejectionReason.SUPERSEDED, "goal: a newer one came before it was begun")
            handlers.update()
            trajectory = serialize_message(goal.trajectory)
            plan = handlers.planned(trajectory, self._server.taken_s, end=END_GOAL, topic=GOALS)
            handlers.hand_over(self.goals.begin(handle, goal_fields(goal), plan, handlers.now_ns()))
        if outcome.reason:
            self.goals.refuse(outcome.reason, handle)
            stamp = goal.trajectory.header.stamp
            handlers.refuse(GOALS, (stamp.sec, stamp.nanosec), outcome.reason, brakes=not overtaken)
        else:
            self._accounts.published += 1
            self._accounts.answered[Output.ROW] += 1

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        if not self.goals.has(handle):
            return CancelResponse.REJECT
        with self._accounts.guard(GOALS):
            self._handlers.hand_over(self.goals.cancel(handle, self._handlers.update()))
        return CancelResponse.ACCEPT

    def _finish(self, handle: ServerGoalHandle, result: Result) -> None:
        end = {Ended.SUCCEEDED: handle.succeed, Ended.CANCELED: handle.canceled, Ended.ABORTED: handle.abort}
        end[result.ended]()
        self._accounts.goals[result.ended] += 1
        if result.ended is Ended.ABORTED:
            self._accounts.warn((GOALS, result.code), f"goal aborted, {result.code.name}: {result.text}")
        else:
            self._node.get_logger().info(f"goal {result.ended.value}")
        self._unsent = True

        def sent(_: ServerGoalHandle) -> object:
            self._unsent = False
            return FollowJointTrajectory.Result(error_code=result.code.value, error_string=result.text)

        self._server.send_result(handle, sent)

    def _tell(self, handle: ServerGoalHandle, feedback: Feedback) -> None:
        message = FollowJointTrajectory.Feedback()
        fill_feedback(message, feedback, self._handlers.pipeline.parameters.joint_names)
        handle.publish_feedback(message)


class _DeferringServer(ActionServer):
    """An action server whose goals outlast their callback, and which takes all requests out of the middleware at once.

    In rclpy's own server, a callback that waits keeps a core busy, and requests displace each other in queues of ten.
    `attend` is called before each request.
    """

    def __init__(self, *arguments: object, attend: Callable[[], None], **options: object) -> None:
        self._attend = attend
        self.taken_s, self.gives_way = 0.0, False
        """When the present request was taken, s of the steady clock, and whether a newer goal overtakes it."""
        super().__init__(*arguments, **options)

    def take_data(self) -> list[tuple[float, dict[str, object]]]:
        """Take all requests that have arrived, each with the time, s of the steady clock."""
        taken = []
        while (data := super().take_data()) and (data.keys() - {"expired"} or not taken):
            taken.append((time.monotonic(), data))
        return taken

    async def execute(self, taken: list[tuple[float, dict[str, object]]]) -> None:
        """Answer the requests in their order."""
        for number, (self.taken_s, data) in enumerate(taken):
            self._attend()
            newer = any("goal" in later for _, later in taken[number + 1 :])
            self.gives_way = newer and time.monotonic() > self.taken_s + GIVES_WAY_S
            await super().execute(data)

    def notify_execute(self, goal_handle: ServerGoalHandle, execute_callback: Callable | None) -> None:
        """Do nothing when the execution of a goal begins."""

    def send_result(self, goal_handle: ServerGoalHandle, result: Callable[[ServerGoalHandle], object]) -> None:
        """Have the executor send what `result` returns, for a goal that has ended."""
        super().notify_execute(goal_handle, result)
