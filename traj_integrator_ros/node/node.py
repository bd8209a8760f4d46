"""The lifecycle node `traj_integrator`: entities, callbacks and transitions around the ROS-free pipeline."""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.timer import Timer
from std_msgs.msg import String

from traj_integrator_interfaces.msg import Rejection

from ..engine.integrator import TrajectoryIntegrator
from ..handling.found_limits import LimitsError
from ..handling.parameter_table import START_FROM_PREVIOUS
from ..handling.parameters import NodeParameters
from ..handling.pipeline import Pipeline
from ..handling.plan import Plan
from ..handling.published import ExecutableTrajectory, PublishedMotion
from ..handling.rejection import Rejected, RejectionReason
from ..handling.results import IntegratedBatch
from ..handling.robot_limits import FROM_TOPIC, RobotLimits
from ..wire.readers import ActionSequenceReader, PositionTrajectoryReader, Stamp, nanoseconds, stamp_of_message
from ..wire.sequence_gaps import SequenceGaps
from ..wire.writers import JointTrajectoryWriter, serialize_batch
from .accounts import Accounts, LatencyRing, one_line
from .declared_parameters import QOS_OVERRIDES, DeclaredParameters
from .diagnostics import Diagnostics, NodeStatus
from .entities import ROBOT_DESCRIPTION, Entities, StateInputs, create_diagnostics_publisher
from .namesakes import Namesakes
from .planning_parameters import planning_parameters
from .rclpy_features import answer_refused_transitions, introspection_state, nanoseconds_of
from .services import Services
from .supervisor import Supervisor

NODE_NAME = "traj_integrator"
_SUCCESS = TransitionCallbackReturn.SUCCESS
_FAILURE = TransitionCallbackReturn.FAILURE
_ACTIVE, _INACTIVE, _UNCONFIGURED, _FINALIZED = "active", "inactive", "unconfigured", "finalized"
_SECOND_NS = 1_000_000_000


class IntegratorNode(LifecycleNode):
    """Integrates action sequences from topics and services; see docs for its interface.

    Raises:
        rclpy.exceptions.InvalidParameterTypeException, InvalidParameterValueException: a parameter given a value of
            a wrong type or out of its range at start-up.

    """

    def __init__(self) -> None:
        super().__init__(NODE_NAME)
        answer_refused_transitions(self)
        self._engine: TrajectoryIntegrator | None = None
        self._pipeline: Pipeline | None = None
        self._entities: Entities | None = None
        self._limits: RobotLimits | None = None
        self._pending: RobotLimits | None = None
        self._lifecycle = _UNCONFIGURED
        self._failure = ""
        self._accounts = Accounts(self)
        self._executed = PublishedMotion()
        self._gaps: dict[str, SequenceGaps] = defaultdict(SequenceGaps)
        self._sequence_reader = ActionSequenceReader()
        self._position_reader = PositionTrajectoryReader()
        self._states: StateInputs | None = None
        self._writer: JointTrajectoryWriter | None = None
        self._sequences = self._published = 0
        self._sequence_latency = LatencyRing()
        self._answers = Services(self._accounts, self._accepting, self._update, self._supervise)
        self._supervisor = Supervisor(
            self._accounts, self._accepting, self._update, self._hand_over, self.get_logger().error
        )
        self._declared = DeclaredParameters(self, self._prepare_change, self._commit_change, self._is_configured)
        self._tell_of_unknown_parameters("")
        self._namesakes = Namesakes(self)
        self._diagnostics = Diagnostics(f"{self.get_fully_qualified_name()}: integrator")
        self._diagnostics_publisher = create_diagnostics_publisher(self)
        self._diagnostics_timer = self._create_diagnostics_timer(float(self._declared.value("diagnostics.period")))

    # Lifecycle

    def autostart(self) -> None:
        """Configure and activate, if the parameter autostart is true."""
        if self._declared.value("autostart") and self.trigger_configure() is _SUCCESS:
            self.trigger_activate()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read the parameters, build and warm up the engine, create topics and services."""
        try:
            self._limits = RobotLimits.configured(self._declared.read(), partial(planning_parameters, self))
            parameters = self._limits.parameters
            self._engine = TrajectoryIntegrator(parameters.device, parameters.dtype)
            accounts = self._accounts
            self._pipeline = Pipeline(
                parameters,
                self._engine,
                self._executed,
                accounts.let_through,
                self._refuse_waiting,
            )
            self._pipeline.warm_up()
            self._writer = JointTrajectoryWriter(parameters.joint_names)
            self._gaps.clear()
            answers = self._answers
            self._entities = Entities(
                self,
                self._supervise,
                {"action_sequence": self._on_action_sequence, "position_trajectory": self._on_position_trajectory},
                {
                    "integrate": answers.integrate,
                    "compute_gradient": answers.compute_gradient,
                    "evaluate": answers.evaluate,
                    "stop": self._supervisor.stop,
                    "committed": answers.committed,
                    "retime": answers.retime,
                },
                self._on_robot_description if parameters.limits_urdf == FROM_TOPIC else None,
            )
            self._states = StateInputs(self._entities, self._pipeline, accounts, self._now_ns)
            self._entities.introspect_services(parameters.service_introspection)
        except Exception as error:
            self._release()
            self._failure = f"configure failed: {one_line(error)}"
            if self.context.ok():  # otherwise it failed because the process is ending
                self.get_logger().error(self._failure)
                if not isinstance(error, (ValueError, RuntimeError)):
                    self.get_logger().error(traceback.format_exc())
            return _FAILURE
        self._failure, self._lifecycle = "", _INACTIVE
        self._tell_of_unknown_parameters(QOS_OVERRIDES)
        engine = self._engine
        self._say(
            f"configured: {len(parameters.joint_names)} joints, {engine.backend} kernels in {parameters.dtype} "
            f"on {engine.place}"
        )
        self._tell_limits()
        if engine.backend_obstacle:
            self.get_logger().warning(f"slower than this device can be: {engine.backend_obstacle}")
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Accept input and publish."""
        self._lifecycle = _ACTIVE
        self._say("active")
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Reject input from now on."""
        self._pipeline.commands.deactivate()
        self._lifecycle = _INACTIVE
        self._executed.clear()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Remove topics and services, free device memory."""
        self._release()
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Do the same as cleanup, from any state."""
        self._release()
        self._lifecycle = _FINALIZED
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Return to unconfigured after a transition that failed unexpectedly."""
        self._release()
        return super().on_error(state)

    def destroy_node(self) -> None:
        """Free device memory, then the node."""
        self._release()
        super().destroy_node()

    def _say(self, line: str) -> None:
        if self.context.ok():  # otherwise the process is ending, and there is no topic left for logs
            self.get_logger().info(line)

    def _tell_of_unknown_parameters(self, prefix: str) -> None:
        for name in self._declared.unknown_overrides(prefix):
            self.get_logger().warning(f"parameter {name!a} was given but does not exist; it has no effect")

    def _release(self) -> None:
        self._lifecycle = _UNCONFIGURED
        self._executed.clear()
        self._pipeline = self._states = None
        if self._entities is not None:
            self._entities.destroy()
            self._entities = None
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    # Topics

    def _supervise(self) -> None:
        if self._lifecycle == _ACTIVE:
            self._supervisor.tick()
        else:
            self._poll_states()

    def _poll_states(self) -> None:
        """Read the states that have arrived; before each use, so that trajectories start from the latest."""
        if self._states is not None:  # from the first entity to the last, configure takes a while
            self._states.poll()

    def _on_robot_description(self, message: String) -> None:
        """Take the limits from the robot's URDF, which may arrive at any time, and more than once."""
        try:
            self._limits = self._limits.described(message.data, ROBOT_DESCRIPTION)
        except LimitsError as error:
            self._accounts.warn((ROBOT_DESCRIPTION,), f"no limits from the robot's URDF: {error}")
            return
        self._pipeline.reconfigure(self._limits.parameters)
        self._tell_limits()

    def _tell_limits(self) -> None:
        self._say(f"limits from: {self._limits.origins} (limits.action: {self._limits.given.limits_action})")
        assumed = self._pipeline.assumed
        if assumed.lacking and self.context.ok():
            self.get_logger().warning(
                f"no limit of velocity for {', '.join(assumed.lacking)}: nothing will be published for a controller, "
                "until limits.velocity, a URDF or limits.assumed_velocity gives one"
            )
        elif assumed.description:
            self._say(f"assumed for joins and brakes, since nobody gave it: {assumed.description}")

    def _on_action_sequence(self, message: bytes, info: Mapping[str, object]) -> None:
        with self._answering("action_sequence", message, info):
            pipeline = self._accepting()
            parameters = pipeline.parameters
            now_ns = self._update()
            sequence = self._sequence_reader.read(message)
            batch = pipeline.integrate(sequence.fields, now_ns)
            # Checked before anything is published, so that a sequence is answered on both topics or on none.
            needed = parameters.publish_joint_trajectory or parameters.start_from == START_FROM_PREVIOUS
            trajectory = None
            if needed:
                trajectory = pipeline.trajectory(batch, nanoseconds(sequence.stamp), now_ns, self._now_ns)
            if parameters.publish_joint_trajectory:
                self._hand_over(trajectory)  # first, because a robot waits for it
            publisher = self._entities.trajectory_batch
            if parameters.publish_trajectory_batch and publisher.get_subscription_count() > 0:
                publisher.publish(_serialized(batch, sequence.stamp))
                if trajectory is not None and not parameters.publish_joint_trajectory:
                    self._hand_over(trajectory, publish=False)  # otherwise, the reader of the batch executes it

    def _on_position_trajectory(self, message: bytes, info: Mapping[str, object]) -> None:
        with self._answering("position_trajectory", message, info):
            pipeline = self._accepting()
            now_ns = self._update()
            fields = self._position_reader.read(message, pipeline.parameters.max_horizon)
            self._hand_over(pipeline.position_trajectory(fields, now_ns, self._now_ns))

    @contextmanager
    def _answering(self, topic: str, message: bytes, info: Mapping[str, object]) -> Iterator[None]:
        """Count a message on a topic, those lost before it, and whether it was answered."""
        missed = self._gaps[topic].missed_before(info, partial(self._entities.count_publishers, topic))
        self._sequences += 1 + missed
        if missed:
            self._tell_rejection(topic, (0, 0), self._accounts.lost(topic, missed), missed)
        with self._accounts.guard(topic) as outcome:
            yield
        if outcome.accepted:
            self._published += 1
            received = info.get("received_timestamp")
            if isinstance(received, int) and received > 0:
                self._sequence_latency.add(max(0, time.time_ns() - received) * 1e-9)
        elif self._lifecycle == _ACTIVE:
            self._supervisor.after_rejection()
            self._tell_rejection(topic, stamp_of_message(message), outcome.reason)

    def _tell_rejection(self, topic: str, stamp: Stamp, line: str, count: int = 1) -> None:
        publisher = self._entities.rejections
        if self._lifecycle != _ACTIVE or publisher.get_subscription_count() == 0:
            return
        reason, _, text = line.partition(": ")
        message = Rejection(topic=topic, count=count, reason=reason, text=text)
        message.header.stamp.sec, message.header.stamp.nanosec = stamp
        with self._accounts.guard("rejections"):
            publisher.publish(message)

    def _refuse_waiting(self, rejected: Rejected, plan: Plan) -> None:
        """Tell that a sequence that was accepted, and had to wait, was refused then."""
        line = self._accounts.refused(f"{plan.topic} that had to wait", rejected)
        self._tell_rejection(plan.topic, divmod(plan.stamp_ns, _SECOND_NS), line)

    def _hand_over(self, trajectory: ExecutableTrajectory | None, *, publish: bool = True) -> None:
        """Publish a trajectory for the controller, and record it as the motion to continue from; only done here."""
        if trajectory is None:  # it has to wait
            return
        if publish:
            stamp = divmod(trajectory.stamp_ns, _SECOND_NS)
            self._entities.joint_trajectory.publish(self._writer.serialize(trajectory.points, stamp))
        self._executed.record(trajectory, self._now_ns())

    # What all input shares

    def count_failure(self, source: str, error: Exception) -> None:
        """Count and log an error outside the node's own callbacks."""
        self._accounts.failure(source, error)

    def _accepting(self) -> Pipeline:
        if self._lifecycle != _ACTIVE:
            raise Rejected(RejectionReason.NOT_ACTIVE, f"node: expected state active, got {self._lifecycle}")
        return self._pipeline

    def _update(self) -> int:
        """Read the states that have arrived and return the time, ns."""
        self._poll_states()
        return self._now_ns()

    def _now_ns(self) -> int:
        return nanoseconds_of(self.get_clock())

    # Parameters at run time

    def _is_configured(self) -> bool:
        return self._pipeline is not None

    def _prepare_change(self, parameters: NodeParameters) -> None:
        introspection_state(parameters.service_introspection)  # may refuse the change; committing it cannot
        self._pending = dataclasses.replace(self._limits, given=parameters)

    def _commit_change(self) -> None:
        period = self._pipeline.parameters.diagnostics_period
        self._limits, self._pending = self._pending, None
        parameters = self._limits.parameters
        self._pipeline.reconfigure(parameters)
        self._entities.introspect_services(parameters.service_introspection)
        if parameters.diagnostics_period != period:
            self.destroy_timer(self._diagnostics_timer)
            self._diagnostics_timer = self._create_diagnostics_timer(parameters.diagnostics_period)

    # Diagnostics

    def _create_diagnostics_timer(self, period_s: float) -> Timer:
        # A steady clock: a paused simulation must not look like a dead node.
        return self.create_timer(period_s, self._publish_diagnostics, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _count_namesakes(self) -> int:
        count = self._namesakes.count()
        if count:
            self._accounts.warn(
                ("namesakes",),
                f"{count + 1} nodes are called {self.get_fully_qualified_name()}: each of them answers every sequence; "
                "end all but one, or give each a namespace",
            )
        return count

    def _publish_diagnostics(self) -> None:
        pipeline = self._pipeline
        if pipeline is not None:
            self._poll_states()
        self._executed.observe(self._now_ns())
        status = NodeStatus(
            lifecycle_state=self._lifecycle,
            failure=self._failure,
            device=str(self._engine.device) if self._engine else "none",
            backend=self._engine.backend if self._engine else "none",
            dtype=str(self._engine.dtype).removeprefix("torch.") if self._engine else "none",
            limits=self._limits.origins if pipeline else "none",
            state_age_s=pipeline.joint_states.age_s(self._now_ns()) if pipeline else None,
            state_timeout_s=pipeline.parameters.state_timeout if pipeline else 0.0,
            sequences=self._sequences,
            published=self._published,
            service_calls=self._answers.calls,
            namesakes=self._count_namesakes(),
            rejected=self._accounts.rejected.snapshot(),
            warned=self._accounts.warned.snapshot(),
            on_schedule=pipeline is not None and pipeline.parameters.start_from == START_FROM_PREVIOUS,
            execution=self._executed.report(),
            sequence_latency=self._sequence_latency,
            service_latency=self._answers.latency,
            **self._known_of_robot(pipeline),
        )
        self._supervisor.controller_was.clear()
        message = self._diagnostics.message(status, self.get_clock().now().to_msg())
        with self._accounts.guard("diagnostics"):
            self._diagnostics_publisher.publish(message)

    def _known_of_robot(self, pipeline: Pipeline | None) -> dict[str, object]:
        """Fields of a status; none if the node is not configured."""
        if pipeline is None:
            return {}
        guard = self._executed.guard
        return {
            "controller": self._executed.present.status,
            "controller_was": frozenset(self._supervisor.controller_was),
            "deviation": float(guard.deviation.max()) if len(guard.deviation) else None,
            "lag_s": guard.lag_s,
            "supervision_brakes": guard.brakes,
            "braked": guard.reason,
            "held": guard.held,
            "assumed": pipeline.assumed.description,
            "lacking": pipeline.assumed.lacking if pipeline.parameters.publish_joint_trajectory else (),
        }


def _serialized(batch: IntegratedBatch, stamp: Stamp) -> bytes:
    request = batch.request
    columns = request.columns
    trajectories = columns.out_of_node(batch.trajectories)
    return serialize_batch(columns.names, stamp, request.batch, request.output_horizon, batch.times, trajectories)
