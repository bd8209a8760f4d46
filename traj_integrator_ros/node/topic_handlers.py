"""Handlers of messages on the node's topics while it is configured, and the order of its work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from rclpy.lifecycle import LifecycleNode

from traj_integrator_interfaces.msg import Rejection

from ..engine.integrator import TrajectoryIntegrator
from ..execution.tolerances import SECOND_NS
from ..governor.command import Command
from ..governor.controller_reports import ControllerStatus
from ..governor.executable import ExecutableTrajectory
from ..governor.executor import Executor
from ..governor.planner import THREADS
from ..governor.rehearsal import rehearse
from ..parameters.parameters import NodeParameters
from ..parameters.table import ON_REJECT_BRAKE
from ..requests.plan import GOALS, SEQUENCES, Plan
from ..requests.rejection import Rejected, RejectionReason
from ..requests.sequences import IntegratedBatch
from ..wire.readers import (
    Stamp,
    nanoseconds,
    read_action_sequence,
    read_position_trajectory,
    stamp_of_message,
)
from ..wire.writers import JointTrajectoryWriter, serialize_batch
from .accounts import OUTPUTS_OF, Accounts, Guard, Output
from .diagnostics import CONSPICUOUS
from .entities import QUIET_PERIOD_S, RESTING_PERIOD_S, SUPERVISION_PERIOD_S, Entities
from .goal_server import GoalServer
from .intake import AT_ONCE, CALL_WAITS_S, MOST_READ, Call, Message, age_ns
from .priority import come_after
from .rclpy_features import arrived
from .services import Services
from .states import States

ACTIVE = "active"
INACTIVE = "inactive"
_WITHDRAWN = RejectionReason.SUPERSEDED, RejectionReason.STOPPED, RejectionReason.NOT_ACTIVE
"""Reasons for refusing a waiting sequence that never brake the robot."""
_READINGS = 8
"""Largest number of attempts to read two clocks at the same time: an interruption may come between the readings."""
_AT_ONCE_NS = 1_000_000
"""Longest time, ns, between two readings that count as simultaneous."""
_NUMBER_BYTES = 8
"""Size of a number in a message, bytes."""
_LARGE = 1 << 17
"""Smallest number of values in a batch or plan with which work takes milliseconds."""
_STAYS_BUSY_S = 0.5
"""Time, s, after input or a motion in which the robot is supervised as often as before: its states arrive late."""
_LOOKS_S = 2e-3
"""Longest time, s, that a stop waits while a large batch is computed."""
_AGAIN = 0.8
"""Shortest time between two supervisions as a share of the timer's period, whose calls jitter."""
_TURN_S = 5e-3
"""Time, s, after which the executor has its turn again: parameters, transitions and goals wait there."""
Result = TypeVar("Result")


class TopicHandlers:
    """Handles messages, brakes the robot if necessary, and owns the services and all entities.

    The method with the name of an input is called with each of its messages.

    Args:
        node: on which the entities are created, and whose clock and log are used.
        accounts: count and log what fails.
        parameters: the node's configuration.
        engine: built from it.
        published: the motion in execution.
        describe: called with the robot's URDF, a String; None if it is not needed.

    """

    def __init__(
        self,
        node: LifecycleNode,
        accounts: Accounts,
        parameters: NodeParameters,
        engine: TrajectoryIntegrator,
        published: Command,
        describe: Callable | None,
    ) -> None:
        self._node, self._accounts, self._published = node, accounts, published
        self._clock = node.get_clock()
        self._is_simulated = self._clock.ros_time_is_active
        self._threads = ThreadPoolExecutor(THREADS, "ways to plans", come_after)
        self._batches = ThreadPoolExecutor(1, "large batches", come_after)
        self.services = Services(node, accounts, published, self)
        warn, refuse = accounts.let_through, self._refuse_waiting
        self.pipeline = Executor(parameters, engine, published, warn, refuse, self._threads, self.wake, self.beside)
        self.pipeline.batches.warm_up()
        self.pipeline.planner.arrives, self._tried = self._arrives, None
        self.state = INACTIVE
        """State of the lifecycle: input is accepted only while it is active."""
        self.controller_was: set[ControllerStatus] = set()
        """States of the controller since this was last cleared."""
        self._writer = JointTrajectoryWriter(parameters.joint_names)
        for trajectory in rehearse(parameters, engine):
            self._writer.serialize(trajectory.points, (0, 0))
        self._brake_reason, self._busy_s = "", time.monotonic()
        self._supervised_s = self._due_s = 0.0
        """When the robot was supervised and is to be supervised next, s of the steady clock."""
        self._later: Callable[[], None] | None = None
        self._later_s = 0.0
        """Least urgent work, and when it is done whatever else waits, s of the steady clock."""
        self.entities = Entities(node, accounts, self, describe, parameters.speed_scaling_topic)
        self._states = States(self.entities, accounts, self.pipeline, self.now_ns, lambda: self._is_simulated)
        self.goal_server = GoalServer(node, accounts, self)

    # Topics

    def action_sequence(self, message: Message) -> None:
        """Integrate a serialized ActionSequence, and publish its trajectories."""
        with self._answering(message) as judging:
            pipeline = self.accepting()
            now_ns = self.update()
            stamp, fields = read_action_sequence(message.data)
            request = pipeline.checked(fields, nanoseconds(stamp), now_ns)
            start = pipeline.batches.started(request, lambda: now_ns)
            publisher = self.entities.trajectory_batch
            if publisher.get_subscription_count() > 0:
                # The batch comes first, whatever happens to the row: its receivers command no robot by it.
                with judging(Output.BATCH):
                    rows = pipeline.batches.integrate(request, start)
                    self.beside(rows.trajectories.size, lambda: publisher.publish(_serialized(rows, stamp)))
                now_ns = self.now_ns()
            with judging(Output.ROW) as row:
                self._require_no_stop_since(message.arrived_s)
                if message.gives_way:
                    row.waits = True
                    return
                plan = pipeline.sequence(request, nanoseconds(stamp), now_ns)
                trajectory = pipeline.follow(plan, now_ns, self.now_ns)
                row.waits = trajectory is None
                self.hand_over(trajectory)

    def position_trajectory(self, message: Message) -> None:
        """Make a trajectory of a serialized JointTrajectory, and publish it."""
        with self._answering(message) as judging, judging(Output.ROW) as row:
            pipeline = self.accepting()
            if message.gives_way:
                row.waits = True
                return
            plan = self.planned(message.data, message.arrived_s)
            trajectory = pipeline.follow(plan, self.now_ns(), self.now_ns)
            row.waits = trajectory is None
            self.hand_over(trajectory)

    def planned(self, message: bytes, arrived_s: float, **options: str) -> Plan:
        """Read and check a serialized JointTrajectory, while stops go on; see `Executor.plan`. Raises Rejected."""
        pipeline, now_ns = self.pipeline, self.update()
        most = pipeline.parameters.position_trajectory_max_points

        def read() -> Plan:
            return pipeline.plan(read_position_trajectory(message, most), now_ns, **options)

        plan = self.beside(len(message) // _NUMBER_BYTES, read)
        self._require_no_stop_since(arrived_s)
        return plan

    def _require_no_stop_since(self, arrived_s: float) -> None:
        """Refuse what arrived before a stop. Raises Rejected: stopped."""
        if arrived_s < self.services.stopped_s:
            raise Rejected(RejectionReason.STOPPED, "node: stopped before the sequence was begun")

    @contextmanager
    def _answering(self, message: Message) -> Iterator[Callable[[Output], Guard]]:
        """Count a message, those lost before it, and whether it was accepted, rejected or has to wait.

        An error in this context rejects all outputs. An error in the guard that it yields for one output rejects only
        that output.
        """
        topic, missed = message.topic, message.missed
        outputs = OUTPUTS_OF[topic]
        self._accounts.sequences += 1 + missed
        if missed:
            self._tell_rejection(topic, (0, 0), self._accounts.lost(topic, missed), outputs, missed)
        judged: dict[Output, Guard] = {}

        def judging(output: Output) -> Guard:
            judged[output] = self._accounts.guard(topic, "" if output is outputs else f" for {output.value}")
            return judged[output]

        with self._accounts.guard(topic) as whole:
            yield judging
        verdicts = {outputs: whole} if whole.reason else judged
        refused = {output: guard.reason for output, guard in verdicts.items() if guard.reason}
        waits = {output for output, guard in verdicts.items() if guard.waits} - refused.keys()
        self._accounts.answered.update(verdicts.keys() - refused.keys() - waits)
        for output, reason in refused.items():
            self._tell_rejection(topic, stamp_of_message(message.data), reason, output)
        if not refused:
            self._accounts.published += 1
            if not waits and (took_ns := age_ns(message.info)):
                self._accounts.sequence_latency.add(took_ns * 1e-9)
        elif self.state == ACTIVE and refused.keys() != {Output.BATCH}:
            self._brake_after_rejection()
        if message.gives_way and waits:
            text = f"sequence: a newer one came while it waited for {time.monotonic() - message.arrived_s:.3f} s"
            self._tell_overtaken(topic, stamp_of_message(message.data), Rejected(RejectionReason.SUPERSEDED, text))

    def refuse(self, topic: str, stamp: Stamp, line: str, *, brakes: bool) -> None:
        """React to the refusal of a goal: brake if necessary, and publish the reason."""
        if brakes:
            self._brake_after_rejection()
        self._tell_rejection(topic, stamp, line, Output.ROW)

    def _tell_rejection(self, topic: str, stamp: Stamp, line: str, output: Output, count: int = 1) -> None:
        self._accounts.refused_for[output] += count
        publisher = self.entities.rejections
        if self.state != ACTIVE or publisher.get_subscription_count() == 0:
            return
        reason, _, text = line.partition(": ")
        message = Rejection(topic=topic, count=count, reason=reason, text=text, output=output.value)
        message.header.stamp.sec, message.header.stamp.nanosec = stamp
        with self._accounts.guard("rejections"):
            publisher.publish(message)

    def _refuse_waiting(self, rejected: Rejected, plan: Plan) -> None:
        """Publish why a sequence was refused after it had to wait, and brake if necessary."""
        self._tell_overtaken(plan.topic, divmod(plan.stamp_ns, SECOND_NS), rejected)
        if plan.topic == GOALS:
            self.goal_server.goals.refuse(str(rejected))
        if self.state == ACTIVE and rejected.reason not in _WITHDRAWN:
            self._brake_after_rejection()

    def _tell_overtaken(self, topic: str, stamp: Stamp, rejected: Rejected) -> None:
        line = self._accounts.refused(topic, rejected, f" for {Output.ROW.value}" * (topic == SEQUENCES))
        self._tell_rejection(topic, stamp, line, Output.ROW)

    def hand_over(self, trajectory: ExecutableTrajectory | None) -> None:
        """Publish a trajectory for the controller (None if it has to wait), then the plans that were refused for it."""
        if trajectory is not None:
            self._publish(trajectory)
        self.pipeline.planner.tell_refused()

    def _publish(self, trajectory: ExecutableTrajectory) -> None:
        """Publish a trajectory and record it as the motion to continue; but for `_arrives`, nothing publishes one."""
        trajectory, self._tried = self._published.timed(trajectory, self.now_ns()), None
        self._send(trajectory)
        self._published.record(trajectory, self.now_ns())
        if trajectory.topic == GOALS:
            self.goal_server.goals.published(trajectory)

    def _send(self, trajectory: ExecutableTrajectory) -> None:
        message = self._writer.serialize(trajectory.points, divmod(trajectory.stamp_ns, SECOND_NS))
        self.entities.joint_trajectory.publish(message)

    def _arrives(self, trajectory: ExecutableTrajectory | None) -> bool:
        """Publish the motion in execution once more, and return whether all subscribers have received everything."""
        if trajectory is not None and self._tried is not trajectory.motion:
            self._tried = trajectory.motion
            self._send(trajectory)
        return arrived(self.entities.joint_trajectory)

    def reconfigure(self, parameters: NodeParameters) -> None:
        """Continue with other parameters; the motion in execution is brought within their limits at once."""
        self.pipeline.reconfigure(parameters)
        before = self._published.last
        self._supervise()
        last = self._published.last
        if last is not before and last is not None and not last.topic:
            how = f"slowed by {last.delay:.3g} s" if last.delay else "braked"
            self._node.get_logger().warning(f"limits were lowered in motion: what was in execution is {how}")

    def deactivate(self) -> None:
        """Stop handling input: refuse waiting sequences, stop a goal, and let no stop wait: nothing would send it."""
        with self._accounts.guard("deactivate"):
            now_ns, planner = self.read(), self.pipeline.planner
            planner.refuse(Rejected(RejectionReason.NOT_ACTIVE, "node: deactivated before the sequence was begun"))
            self.goal_server.deactivate(now_ns)
            self.hand_over(planner.awaited_stop(now_ns))
        self.state = INACTIVE

    def close(self, *, at_once: bool) -> None:
        """Remove topics, services and the action; with `at_once`, even if a result has not been sent yet."""
        if self.state == ACTIVE and self._node.context.ok():
            self.deactivate()
        self.state = INACTIVE
        self.services.go_on()
        self._attend(self.entities.intake.read(everything=True))
        while (one := self.entities.intake.next()) is not None:
            self._answer(one)
        self.entities.destroy()
        self.services.close()
        for threads in (self._threads, self._batches):
            threads.shutdown(wait=False, cancel_futures=True)
        self.goal_server.close(at_once=at_once)

    # The order of the work

    def turn(self) -> None:
        """Handle what has arrived, most urgent first: stops, states and brakes, then sequences, calls, and the rest."""
        intake, until_s = self.entities.intake, time.monotonic() + _TURN_S
        self._attend(intake.read_ready())
        self.services.go_on()
        self.services.answers.send_again()
        while (one := intake.next()) is not None:
            self._answer(one)
            if not intake.waits:
                break
            self.attend()
            if time.monotonic() > until_s:
                self.wake()  # The executor has other work, too.
                break
        period_s = self._period_s()
        self.entities.supervise_every(period_s)
        self._due_s = self._supervised_s + _AGAIN * period_s
        if self._later is not None and not (intake.waits and time.monotonic() < self._later_s):
            work, self._later = self._later, None
            work()

    def _answer(self, one: Message | Call) -> None:
        if isinstance(one, Call):
            self.services.serve(one)
        else:
            getattr(self, one.topic)(one)

    def attend(self) -> None:
        """Do what must not wait: read what has arrived, handle stops, refuse late calls, and supervise if due."""
        self._attend(self.entities.intake.read())

    def _attend(self, stops: list[Call]) -> None:
        self._is_simulated, intake = self._clock.ros_time_is_active, self.entities.intake
        for _ in range(MOST_READ // AT_ONCE):
            for stop in stops:
                self.services.serve(stop)
            self.services.refuse_late(intake.calls)
            if time.monotonic() >= self._due_s:
                self._supervise()
            if not intake.unread:
                return
            stops = intake.read()

    def later(self, work: Callable[[], None]) -> None:
        """Do work when nothing else waits, or after half a second."""
        self._later, self._later_s = work, time.monotonic() + CALL_WAITS_S
        self.turn()

    # Supervision

    def supervise(self) -> None:
        """Supervise the robot now, and handle what has arrived."""
        self._due_s = 0.0
        self.turn()

    def _period_s(self) -> float:
        """Return the time from one supervision to the next, s."""
        now_s = time.monotonic()
        active = self.state == ACTIVE
        if self.services.waits or self.goal_server.is_busy or (active and self.pipeline.is_busy(self.now_ns())):
            self._busy_s = now_s
        if now_s - self._busy_s <= _STAYS_BUSY_S:
            return SUPERVISION_PERIOD_S
        return RESTING_PERIOD_S if now_s - self._states.arrived_s <= _STAYS_BUSY_S else QUIET_PERIOD_S

    def beside(self, size: int, work: Callable[[], Result]) -> Result:
        """Return the result of work on so many numbers; beside long work, stops and supervision go on."""
        if size < _LARGE:
            return work()
        result = self._batches.submit(work)
        while not wait([result], _LOOKS_S).done:
            self.attend()
        return result.result()

    def _supervise(self) -> None:
        """Read the messages that have arrived, and publish what the supervision demands."""
        self._supervised_s = time.monotonic()
        self._due_s = self._supervised_s + _AGAIN * SUPERVISION_PERIOD_S
        if self.state != ACTIVE:
            self._states.poll()
            return
        with self._accounts.guard("supervision"):
            now_ns = self.read()
            made = self.pipeline.planner.tick(now_ns, self.now_ns)
            self.hand_over(made)
            if made is not None and made.topic in OUTPUTS_OF:  # The sequence had to wait.
                self._accounts.answered[Output.ROW] += 1
                self._accounts.sequence_latency.add((self.now_ns() - made.plan.received_ns) * 1e-9)
            self.goal_server.supervise(now_ns)
            status = self._published.status(now_ns)
            if status not in self.controller_was:
                self.controller_was.add(status)
                if said := CONSPICUOUS.get(status):
                    self._accounts.warn(("controller", status), f"controller {status.value}: {said}")
            reason = self._published.guard.reason
            if reason != self._brake_reason:
                self._brake_reason = reason
                rests = "the robot rests after its brake: sequences are taken again"
                self._node.get_logger().error(f"braked: {reason}" if reason else rests)

    def _brake_after_rejection(self) -> None:
        """Brake the motion in execution if a rejected sequence demands it (publish.on_reject)."""
        with self._accounts.guard("supervision"):
            guard = self._published.guard
            brakes = self.pipeline.parameters.publish_on_reject == ON_REJECT_BRAKE
            if brakes and not guard.reason and not guard.stopped_until_rest:
                self.hand_over(self.pipeline.planner.stop(self.update(), guard.held))

    # Parts that all kinds of input share

    def wake(self) -> None:
        """Have `supervise` called soon; callable from any thread."""
        self.entities.wake()

    def accepting(self) -> Executor:
        """Return the executor that handles input. Raises Rejected: not_active."""
        if self.state != ACTIVE:
            raise RejectionReason.NOT_ACTIVE.of("node", "state active", self.state)
        return self.pipeline

    def update(self) -> int:
        """Do what `read` does, because of input: the robot is supervised often from now on."""
        self._busy_s = time.monotonic()
        self.entities.supervise_every(SUPERVISION_PERIOD_S)
        return self.read()

    def read(self) -> int:
        """Read the states that have arrived and return the time, ns."""
        self._states.poll()
        return self.now_ns()

    def now_ns(self) -> int:
        """Return the time of the robot's clock, ns, by which commands are compared; a simulation has one clock only."""
        if self._is_simulated:
            return self._clock.now().nanoseconds
        for _ in range(_READINGS):
            steady_ns = time.monotonic_ns()
            node_ns = time.time_ns()  # What the clock reads, at a hundredth of the time.
            if (between_ns := time.monotonic_ns() - steady_ns) < _AT_ONCE_NS:
                break
        return self._published.clock.read(node_ns, steady_ns + between_ns // 2)


def _serialized(batch: IntegratedBatch, stamp: Stamp) -> bytes:
    request = batch.request
    columns = request.columns
    trajectories = columns.out_of_node(batch.trajectories)
    return serialize_batch(columns.names, stamp, request.batch, request.output_horizon, batch.times, trajectories)
