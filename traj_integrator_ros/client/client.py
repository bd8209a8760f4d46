"""The client of one integrator node: its services and topics, in a node of its own or in the caller's."""

from __future__ import annotations

import threading
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import TYPE_CHECKING, Any

import rclpy
from lifecycle_msgs.srv import GetState
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, Rejection, TrajectoryBatch

from ..wire.transport import prepare_transport
from .answers import JointMotion, Trajectories, motion_of, trajectories_of
from .calls import Calls
from .requests import positions_message, set_stamp, stamp_of
from .services import Services
from .values import whole

if TYPE_CHECKING:
    from .requests import Array
    from .services import Actions

NODE_NAME = "traj_integrator"
_TOPICS = {"action_sequence": ActionSequence, "position_trajectory": JointTrajectory}
_DEPTH = 100
"""Depth of the queues of topics: a burst of messages may wait while a callback runs."""
_STATE_WITHIN_S = 2.0
"""Longest wait, s, for the node's lifecycle state before it is asked for again."""
_START_WITHIN_S = 60.0
"""Longest wait, s, for a node that starts: it may have to import torch on a busy machine."""
_POLL_S = 0.05
"""Period, s, of checks whether the node is active."""
_SPIN_S = 1.0
"""Longest wait of the thread, s, before it checks whether the client is closed."""
_WARNING_S = 2.0
"""Time between warnings, s."""


class IntegratorClient(Services, AbstractContextManager):
    """Calls an integrator node's services, publishes to it and listens to it, from any thread.

    Calls wait for their responses; the same methods of `futures` return a concurrent.futures.Future. Waiting does not
    require that anybody spins, and is allowed in callbacks.

    Args:
        integrator: name of the integrator; a relative one is in the namespace of `node`, or of the ROS arguments.
        node: a node of the caller's, whose executor calls the callbacks of topics. None: the client makes a node on a
            context of its own, and a thread that calls the callbacks and logs their errors.
        name: of the client's own node.
        ros_arguments: of the client's own node, which follow --ros-args. None: those of the command line.
        largest: batch, horizon and dof of the largest messages, for which the client's own node prepares fast
            transports. With `node`, call `prepare_transport` before rclpy makes the first node.
        joint_names: the order of all columns, in and out; empty: the integrator's own order.
        timeout_s: longest time until a service is there, and from a request to its response, s.
        retry_after_s: time after which a request without a response is sent again, s: the integrator may have been
            restarted.

    """

    def __init__(
        self,
        integrator: str = NODE_NAME,
        *,
        node: Node | None = None,
        name: str = "integrator_client",
        ros_arguments: Sequence[str] | None = None,
        largest: Sequence[int] = (),
        joint_names: Sequence[str] = (),
        timeout_s: float = 10.0,
        retry_after_s: float = 3.0,
    ) -> None:
        self._timeout_s, self._retry_after_s = timeout_s, retry_after_s
        largest = [whole("largest", one) for one in largest]
        if node is not None and (largest or ros_arguments):
            raise ValueError("largest, ros_arguments: expected for a node of the client's own, got them beside node")
        Calls.check_process()
        if largest:
            prepare_transport(*largest)
        own = _OwnNode(name, ros_arguments) if node is None else None
        self.node: Node = node or own.node
        """The node to which the topics belong."""
        self.integrator = (
            integrator if integrator.startswith("/") else f"{self.node.get_namespace().rstrip('/')}/{integrator}"
        )
        calls = self._calls = Calls(self.node)
        super().__init__(lambda *call: calls.wait(self._begin(*call)), joint_names)
        self.futures = Services(self._begin, joint_names)
        """The services, with methods that return futures."""
        self.unheard = 0
        """Number of messages that were published while the integrator did not listen."""
        self._last_stamp_ns = 0
        self._lock = threading.Lock()
        self._entities = ExitStack()
        self._close = weakref.finalize(self, _close, calls, self._entities, own)  # Also when the interpreter ends.
        self._publishers: dict[str, Publisher] = {}
        self._subscriptions: list[Subscription] = []

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up all calls, and leave the domain if the node is this client's own."""
        self._close()

    # Topics

    def publish(self, actions: Actions, *, stamp_ns: int | None = None, **fields: Any) -> int:
        """Publish actions for execution.

        Args:
            actions: `[batch, horizon, dof]`, or a message of `sequence`.
            stamp_ns: when the first step begins (with start_from = previous), ns since the epoch. None: now, by the
                node's clock, and later than all stamps before.
            fields: keyword arguments of `sequence`.

        Returns:
            The stamp, ns, which trajectories and rejections of these actions carry, too.

        """
        message = self.message(actions, **fields)
        self._calls.check()
        if stamp_ns is None:
            with self._lock:
                stamp_ns = self._last_stamp_ns = max(self._now_ns(), self._last_stamp_ns + 1)
        set_stamp(message, stamp_ns)
        self._send("action_sequence", message)
        return stamp_of(message)

    def publish_positions(
        self, position: Array, times: Array | None = None, *, joint_names: Sequence[str] = (), stamp_ns: int = 0
    ) -> None:
        """Publish a plan or a path for execution.

        Args:
            position: `[points, dof]`, rad.
            times: `[points]`, s from the stamp. None: a goal, or a path or chunk without times, as the node's parameter
                position_trajectory.without_times says.
            joint_names: joints that move, in the order of the columns; empty: those of the client, if it has any.
            stamp_ns: when it begins, ns; 0: on arrival.

        """
        names = tuple(joint_names) or self.joint_names
        self._send("position_trajectory", positions_message(position, times, names, stamp_ns))

    def on_trajectory(self, callback: Callable[[JointMotion], object], depth: int = _DEPTH) -> Subscription:
        """Call a function with every trajectory for the controller."""
        return self._subscribe(
            JointTrajectory, "joint_trajectory", lambda message: callback(motion_of(message, self.joint_names)), depth
        )

    def on_batch(self, callback: Callable[[Trajectories], object], depth: int = _DEPTH) -> Subscription:
        """Call a function with every batch of trajectories, with the columns of its sequence."""
        return self._subscribe(
            TrajectoryBatch, "trajectory_batch", lambda message: callback(trajectories_of(message)), depth
        )

    def on_rejection(self, callback: Callable[[Rejection], object], depth: int = _DEPTH) -> Subscription:
        """Call a function with every report of input that was rejected or lost."""
        return self._subscribe(Rejection, "rejections", callback, depth)

    # The node

    def wait_until_active(self, timeout_s: float = _START_WITHIN_S) -> None:
        """Wait until the node is active and listens, so that nothing that is published is lost. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            answer = self._calls.begin(
                GetState, f"{self.integrator}/get_state", GetState.Request(),
                timeout_s=min(left, _STATE_WITHIN_S), service_within_s=left,
            )  # fmt: skip
            with suppress(TimeoutError):
                if self._calls.wait(answer).current_state.label == "active" and self._is_connected():
                    return
                time.sleep(_POLL_S)
        raise TimeoutError(f"{self.integrator}: expected it active and connected within {timeout_s:g} s")

    def _begin(self, service: type, name: str, request: object, take: Callable[[Any], object]) -> Future:
        name = f"{self.integrator}/{name}"
        return self._calls.begin(
            service, name, request, take, timeout_s=self._timeout_s, retry_after_s=self._retry_after_s
        )

    def _publisher(self, topic: str) -> Publisher:
        with self._lock:
            if topic not in self._publishers:
                name, depth = f"{self.integrator}/{topic}", QoSProfile(depth=_DEPTH)
                self._publishers[topic] = self.node.create_publisher(_TOPICS[topic], name, depth)
                self._entities.callback(self.node.destroy_publisher, self._publishers[topic])
            return self._publishers[topic]

    def _subscribe(self, message_type: type, topic: str, callback: Callable, depth: int) -> Subscription:
        self._calls.check()
        name, depth = f"{self.integrator}/{topic}", whole("depth", depth)
        made = self.node.create_subscription(message_type, name, callback, QoSProfile(depth=depth))
        self._entities.callback(self.node.destroy_subscription, made)
        self._subscriptions.append(made)
        return made

    def _is_connected(self) -> bool:
        heard = [self._publisher(topic).get_subscription_count() for topic in _TOPICS]
        return all(heard) and all(self.node.count_publishers(one.topic_name) for one in self._subscriptions)

    def _send(self, topic: str, message: object) -> None:
        self._calls.check()
        publisher = self._publisher(topic)
        if not publisher.get_subscription_count():
            self.unheard += 1
            self.node.get_logger().warning(
                f"{publisher.topic_name}: expected the integrator to listen, found nobody: a message is lost",
                throttle_duration_sec=_WARNING_S,
            )
        publisher.publish(message)

    def _now_ns(self) -> int:
        return self.node.get_clock().now().nanoseconds


class _OwnNode:
    """A node on a context of its own, whose callbacks a thread calls."""

    def __init__(self, name: str, ros_arguments: Sequence[str] | None) -> None:
        self._context = Context()
        arguments = None if ros_arguments is None else ["--ros-args", *ros_arguments]
        rclpy.init(args=arguments, context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node(name, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="integrator topics", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._executor.spin_once(timeout_sec=_SPIN_S)
            except Exception:  # An error of one callback: the others are still called.
                if self._context.ok():
                    self.node.get_logger().error(traceback.format_exc())

    def close(self) -> None:
        self._closing.set()
        self._executor.create_task(lambda: None)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._executor.shutdown(timeout_sec=0)
        self.node.destroy_node()
        self._context.try_shutdown()


def _close(calls: Calls, entities: ExitStack, own: _OwnNode | None) -> None:
    if calls.is_forked:
        return
    calls.close()
    if own is None:
        entities.close()
    else:
        own.close()
