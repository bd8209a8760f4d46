"""The lifecycle node `traj_integrator`: transitions, parameters at run time, and diagnostics."""

from __future__ import annotations

import dataclasses
import time
import traceback

from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.timer import Timer
from std_msgs.msg import String

from ..engine.integrator import TrajectoryIntegrator
from ..governor.command import Command
from ..limits.found import LimitsError
from ..parameters.in_force import FROM_TOPIC, RobotLimits
from ..parameters.parameters import GONE, NodeParameters
from .accounts import Accounts, one_line
from .declared_parameters import DeclaredParameters
from .diagnostics import Diagnostics, NodeStatus
from .entities import CALL_DEPTH, ROBOT_DESCRIPTION, create_diagnostics_publisher
from .rclpy_features import create_lifecycle_services, lifecycle_answers
from .topic_handlers import ACTIVE, TopicHandlers

NODE_NAME = "traj_integrator"
_SUCCESS = TransitionCallbackReturn.SUCCESS
_FAILURE = TransitionCallbackReturn.FAILURE
_UNCONFIGURED = "unconfigured"
_FINALIZED = "finalized"


class IntegratorNode(LifecycleNode):
    """Integrates action sequences from topics and services; see docs for its interface.

    It may share a process with other nodes, on any executor of rclpy: its callbacks exclude each other.

    Args:
        node_name: its name.
        options: of rclpy's LifecycleNode, e.g. namespace, context, parameter_overrides, use_global_arguments.

    Raises:
        rclpy.exceptions.InvalidParameterTypeException, InvalidParameterValueException: a parameter given a value of
            a wrong type or out of its range at start-up.

    """

    def __init__(self, node_name: str = NODE_NAME, **options: object) -> None:
        answers = lifecycle_answers()
        super().__init__(node_name, enable_communication_interface=answers is None, **options)
        if answers is None:
            self.get_logger().warning(
                "unknown release of rclpy: its own services of the lifecycle lose calls beyond 10"
            )
        else:
            create_lifecycle_services(self, answers, CALL_DEPTH)
        self.accounts = Accounts(self)
        self._engine: TrajectoryIntegrator | None = None
        self._handlers: TopicHandlers | None = None
        """Handlers of input; None while the node is not configured."""
        self._namespace = self.get_namespace()
        self._limits: RobotLimits | None = None
        self._pending: RobotLimits | None = None
        self._unconfigured = _UNCONFIGURED
        self._failure = ""
        self._published = Command()
        self._reported_on = ""
        """Topic of the controller's reports that the log named last."""
        self._declared = DeclaredParameters(self, self._prepare_change, self._commit_change, self._is_configured)
        self._tell_of_unknown_parameters()
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
            self._limits = RobotLimits.configured(self._declared.read())
            parameters = self._limits.parameters
            self._engine = TrajectoryIntegrator(parameters.device)
            describe = self._on_robot_description if parameters.limits_urdf == FROM_TOPIC else None
            self._handlers = TopicHandlers(self, self.accounts, parameters, self._engine, self._published, describe)
        except Exception as error:
            self._release()
            self._failure = f"configure failed: {one_line(error)}"
            if self.context.ok():  # Otherwise the process is ending, and the transition failed because of that.
                self.get_logger().error(self._failure)
                if not isinstance(error, (ValueError, RuntimeError)):
                    self.get_logger().error(traceback.format_exc())
            return _FAILURE
        self._failure = ""
        self._published.guard.held |= parameters.publish_start_held
        self._tell_of_unknown_parameters(configured=True)
        engine = self._engine
        self._say(f"configured: {len(parameters.joint_names)} joints, {engine.backend} kernels on {engine.device}")
        self._tell_limits()
        self._say(f"~/follow_joint_trajectory is {self._handlers.goal_server.offer}")
        if engine.backend_obstacle:
            self.get_logger().warning(f"slower than this device can be: {engine.backend_obstacle}")
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Accept input and publish."""
        self._handlers.services.active_since_s = time.monotonic()
        self._handlers.state = ACTIVE
        self._say("active")
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Reject input from now on."""
        self._handlers.deactivate()
        self._published.clear()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Remove topics and services, free device memory."""
        self._release()
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Clean up as in `on_cleanup`, from any state."""
        self._release()
        self._unconfigured = _FINALIZED
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Return to unconfigured after a transition that failed unexpectedly."""
        self._release()
        return super().on_error(state)

    def destroy_node(self) -> None:
        """Remove everything that was configured, device memory included."""
        self._release(at_once=True)
        super().destroy_node()

    def _say(self, line: str) -> None:
        if self.context.ok():  # Otherwise the process is ending, and the topic for logs is gone.
            self.get_logger().info(line)

    def _tell_of_unknown_parameters(self, *, configured: bool = False) -> None:
        for name in self._declared.unknown_overrides(configured=configured):
            why = f": {GONE[name]}" if name in GONE else ""
            self.get_logger().warning(f"parameter {name!a} was given but does not exist; it has no effect{why}")

    def _release(self, *, at_once: bool = False) -> None:
        if self._handlers is not None:
            self._handlers.close(at_once=at_once)
            self._handlers = None
        self._published.clear()
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    # Limits and parameters at run time

    def _on_robot_description(self, message: String) -> None:
        """Take the limits from the robot's URDF, which may arrive at any time, and more than once."""
        try:
            self._limits = self._limits.described(message.data, ROBOT_DESCRIPTION)
        except LimitsError as error:
            self.accounts.warn((ROBOT_DESCRIPTION,), f"no limits from the robot's URDF: {one_line(error)}")
            return
        self._handlers.reconfigure(self._limits.parameters)
        self._tell_limits()

    def _tell_limits(self) -> None:
        self._say(f"limits from: {self._limits.origins} (limits.action: {self._limits.given.limits_action})")
        if kinds := self._limits.kinds:
            self._say(f"not joints of an arm: {kinds}")
        assumed = self._handlers.pipeline.assumed
        if assumed.lacking and self.context.ok():
            self.get_logger().warning(
                f"no limit of velocity for {', '.join(assumed.lacking)}: nothing will be published for a controller, "
                "until limits.velocity, a URDF or limits.assumed_velocity gives one"
            )
        elif assumed.description:
            self._say(f"assumed for blends and brakes, since nobody gave it: {assumed.description}")

    def _is_configured(self) -> bool:
        return self._handlers is not None

    def _prepare_change(self, parameters: NodeParameters) -> None:
        self._pending = dataclasses.replace(self._limits, given=parameters)

    def _commit_change(self) -> None:
        period = self._handlers.pipeline.parameters.diagnostics_period
        self._limits, self._pending = self._pending, None
        parameters = self._limits.parameters
        self._handlers.reconfigure(parameters)
        if parameters.diagnostics_period != period:
            self.destroy_timer(self._diagnostics_timer)
            self._diagnostics_timer = self._create_diagnostics_timer(parameters.diagnostics_period)

    # Diagnostics

    def _create_diagnostics_timer(self, period_s: float) -> Timer:
        # A steady clock: a paused simulation must not look like a dead node.
        return self.create_timer(period_s, self._tell_diagnostics, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _tell_diagnostics(self) -> None:
        if self._handlers is None:
            self._publish_diagnostics()
        else:  # Everything else is more urgent.
            self._handlers.later(self._publish_diagnostics)

    def _publish_diagnostics(self) -> None:
        handlers, published = self._handlers, self._published
        now_ns = 0 if handlers is None else handlers.read()
        if handlers is not None:
            published.executed.observe(published.last, published.motion_clock.at(now_ns))
        status = NodeStatus(
            lifecycle_state=handlers.state if handlers else self._unconfigured,
            failure=self._failure,
            accounts=self.accounts,
            execution=published.executed.report(),
            guard=published.guard,
            controller=published.status(now_ns),
            clock=published.clock,
            scaling=published.motion_clock.rate,
            robot=_robot(self._namespace, self._limits),
            **(self._known_of_robot(handlers, now_ns) if handlers else {}),
        )
        with self.accounts.guard("diagnostics"):
            stamp = self.get_clock().now().seconds_nanoseconds()
            self._diagnostics_publisher.publish(self._diagnostics.message(status, stamp))

    def _known_of_robot(self, handlers: TopicHandlers, now_ns: int) -> dict[str, object]:
        """Return the fields of a status that are known while the node is configured."""
        pipeline, engine = handlers.pipeline, self._engine
        controller_was = frozenset(handlers.controller_was)
        handlers.controller_was.clear()
        reported_on = handlers.entities.follow_controller()
        if reported_on != self._reported_on:
            self._reported_on = reported_on
            self._say(f"the controller reports on: {reported_on}")
        return {
            "device": str(engine.device),
            "backend": engine.backend,
            "parameters": pipeline.parameters,
            "limits": self._limits.origins,
            "assumed": pipeline.assumed,
            "state_age_s": pipeline.joint_states.age_s(now_ns),
            "state_oldest_joint": pipeline.joint_states.oldest(now_ns),
            "controller_was": controller_was,
            "controller_state": reported_on,
            "goal": handlers.goal_server.state,
        }


def _robot(namespace: str, limits: RobotLimits | None) -> str:
    """Return the robot's name in its URDF, or else its joints; the node's namespace precedes it."""
    name = ""
    if limits is not None:
        joints = limits.given.joint_names
        name = limits.urdf.robot if limits.urdf is not None else ""
        name = name or " to ".join(dict.fromkeys((joints[0], joints[-1])))
    return "/".join(filter(None, (namespace.strip("/"), name)))
