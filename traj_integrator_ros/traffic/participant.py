"""One participant in a ROS domain that works with one integrator node: waits, calls, asks for its lifecycle state."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters, SetParametersAtomically
from rclpy.client import Client
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from ..handling.background import in_background
from ..tools.ros_session import RosSession

NODE_NAME = "traj_integrator"
START_TIMEOUT_S = 60.0  # on a busy machine, importing torch takes ten seconds and more
ANSWER_TIMEOUT_S = 10.0
DEPTH = 100
_STATE_WITHIN_S = 2.0


class Participant(RosSession):
    """A session that works with one integrator node; it may spin in background.

    Topics whose names begin with ~ belong to the integrator node. All waiting ends with TimeoutError.

    A relative name of the integrator is in the namespace of `ros_arguments`, what follows --ros-args; this participant
    is in the namespace of the integrator.
    """

    def __init__(
        self, integrator: str = f"/{NODE_NAME}", *, name: str = "client", ros_arguments: Sequence[str] = ()
    ) -> None:
        self.check: Callable[[], None] = lambda: None
        """Called while this waits; may raise to end the waiting, as NodeProcess.check does."""
        arguments = ["--ros-args", *ros_arguments] if ros_arguments else []
        super().__init__(name, arguments, integrator.rpartition("/")[0] or None)
        namespace = self.node.get_namespace().rstrip("/")
        self.node_name = integrator if integrator.startswith("/") else f"{namespace}/{integrator}"
        self._clients: dict[str, Client] = {}
        self._spinning: Future[None] | None = None
        self._news = threading.Event()

    # Topics

    def topic(self, name: str) -> str:
        """The name of a topic, with ~ for the integrator's own name."""
        return name.replace("~", self.node_name)

    def publisher(self, message_type: type, topic: str, depth: int = DEPTH) -> Publisher:
        """A publisher."""
        return self.node.create_publisher(message_type, self.topic(topic), QoSProfile(depth=depth))

    def subscribe(
        self, message_type: type, topic: str, callback: Callable[..., None], depth: int = DEPTH, *, raw: bool = False
    ) -> Subscription:
        """A subscription; a callback with two arguments gets rclpy's message info, too."""
        return self.node.create_subscription(
            message_type, self.topic(topic), callback, QoSProfile(depth=depth), raw=raw
        )

    # Waiting

    def spin_once(self, timeout_s: float) -> None:
        """Handle what comes next, if anything does within this time; in background, wait for that.

        Raises what went wrong in background, or what `check` raises.
        """
        if self._spinning is None:
            super().spin_once(timeout_s)
        elif self._news.wait(timeout_s):
            self._news.clear()
        if self._spinning is not None and self._spinning.done():
            self._spinning.result()
        self.check()

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Handle messages until the condition holds. Raises TimeoutError that names `what`."""
        if not self.spin_until(condition, timeout_s):
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Handle messages in a thread; what a callback raises is raised again by all waiting."""
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                self._executor.spin_once(timeout_sec=0.1)
                self._news.set()

        self._spinning = in_background(work)
        try:
            yield
        finally:
            over.set()
            self._executor.wake()
            wait([self._spinning])
            self._spinning = None

    # Services

    def client(self, service: type, name: str, depth: int = 10) -> Client:
        """The client of a service of the integrator node, or of any other whose name begins with /; made once."""
        name = name if name.startswith("/") else f"{self.node_name}/{name}"
        if name not in self._clients:
            self._clients[name] = self.node.create_client(service, name, qos_profile=QoSProfile(depth=depth))
        return self._clients[name]

    def call(
        self, service: type, name: str, request: object, timeout_s: float = ANSWER_TIMEOUT_S, *, attempts: int = 1
    ) -> object:
        """Call a service and return its response.

        An answer is lost if the server has not discovered us yet, or ends: `attempts` is the largest number of calls,
        and `timeout_s` the time to wait for each answer. With one attempt, the service has START_TIMEOUT_S to appear.
        """
        client = self.client(service, name)
        deadline = time.monotonic() + (max(timeout_s, START_TIMEOUT_S) if attempts == 1 else attempts * timeout_s)
        while True:
            self.wait_for(client.service_is_ready, f"service {client.srv_name}", deadline - time.monotonic())
            try:
                return self._answer(client, request, timeout_s)
            except TimeoutError:
                attempts -= 1
                if attempts < 1 or time.monotonic() > deadline:
                    raise

    def _answer(self, client: Client, request: object, timeout_s: float) -> object:
        future = client.call_async(request)
        try:
            self.wait_for(future.done, f"answer of {client.srv_name}", timeout_s)
        except TimeoutError:
            client.remove_pending_request(future)
            raise
        return future.result()

    # Lifecycle

    def state(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """The label of the lifecycle state; asks until there is an answer."""
        attempts = max(2, round(timeout_s / _STATE_WITHIN_S))
        return self.call(
            GetState, "get_state", GetState.Request(), _STATE_WITHIN_S, attempts=attempts
        ).current_state.label

    def change_state(self, transition: str) -> bool:
        """Make a transition: configure, activate, deactivate, cleanup or shutdown; whether it succeeded."""
        name = f"{self.state()}_shutdown" if transition == "shutdown" else transition
        request = ChangeState.Request(transition=Transition(id=getattr(Transition, f"TRANSITION_{name.upper()}")))
        return self.call(ChangeState, "change_state", request, 30.0).success

    def wait_until_active(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the node says that it is active."""
        self.wait_for(lambda: self.state(timeout_s) == "active", f"{self.node_name} active", timeout_s)

    # Parameters

    def set_parameters(self, timeout_s: float = ANSWER_TIMEOUT_S, **values: object) -> list[tuple[bool, str]]:
        """Set parameters one by one, `__` for the dot in a name; whether each was set, and why not."""
        request = SetParameters.Request(parameters=_parameter_messages(values))
        results = self.call(SetParameters, "set_parameters", request, timeout_s).results
        return [(result.successful, result.reason) for result in results]

    def set_atomically(self, **values: object) -> tuple[bool, str]:
        """Set all of these parameters or none; whether they were set, and why not."""
        request = SetParametersAtomically.Request(parameters=_parameter_messages(values))
        result = self.call(SetParametersAtomically, "set_parameters_atomically", request).result
        return result.successful, result.reason

    def parameters(self, names: Sequence[str]) -> dict[str, object]:
        """Parameters as Python objects; None if the node has no such parameter."""
        values = self.call(GetParameters, "get_parameters", GetParameters.Request(names=list(names))).values
        found = zip(names, map(parameter_value_to_python, values), strict=True)
        return {name: list(value) if isinstance(value, array) else value for name, value in found}

    def parameter(self, name: str) -> object:
        """One parameter as a Python object."""
        return self.parameters([name])[name]

    def parameter_names(self) -> list[str]:
        """Names of all parameters."""
        return list(self.call(ListParameters, "list_parameters", ListParameters.Request()).result.names)

    def descriptors(self, names: Sequence[str]) -> dict[str, object]:
        """Parameter descriptors by name."""
        request = DescribeParameters.Request(names=list(names))
        found = self.call(DescribeParameters, "describe_parameters", request).descriptors
        return {descriptor.name: descriptor for descriptor in found}


def received_ns(info: object) -> int:
    """When the middleware received a message, ns since the epoch; now if it does not say."""
    return info.get("received_timestamp") or time.time_ns()


def _parameter_messages(values: dict[str, object]) -> list[object]:
    return [
        (value if isinstance(value, Parameter) else Parameter(name.replace("__", "."), value=value)).to_parameter_msg()
        for name, value in values.items()
    ]
