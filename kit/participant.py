"""A participant in a ROS domain that works with one integrator node: it waits, calls, and asks for its state."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, ListParameters, SetParameters, SetParametersAtomically
from rclpy.client import Client
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from traj_integrator_ros.client.calls import Calls
from traj_integrator_ros.client.client import NODE_NAME
from traj_integrator_ros.client.services import Services
from traj_integrator_ros.tools.ros_session import POLL_S, RosSession

START_TIMEOUT_S = 60.0  # on a busy machine, importing torch takes ten seconds and more
ANSWER_TIMEOUT_S = 10.0
ANSWER_WITHIN_S = 3.0
"""Longest time of a call of `services` before it is repeated: the node may have been restarted in the meantime."""
ATTEMPTS = 8
DEPTH = 100
_STATE_WITHIN_S = 2.0


class Participant(RosSession):
    """A session that works with one integrator node.

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
        self._calls = Calls(self.node)
        self.futures = Services(self._begin)
        """The node's services, from arrays to futures of arrays; calls without answer are repeated."""
        self.services = Services(lambda *call: self._result(self._begin(*call)))
        """The services that return arrays."""

    @property
    def context(self) -> object:
        """The context of rclpy, in which others may make nodes."""
        return self._context

    def close(self) -> None:
        """Leave the domain."""
        self._calls.close()
        super().close()

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
        """Handle the next message, if one comes within this time. Raises what `check` raises."""
        super().spin_once(timeout_s)
        self.check()

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Handle messages until the condition holds. Raises TimeoutError that names `what`."""
        if not self.spin_until(condition, timeout_s):
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")

    # Services

    def client(self, service: type, name: str) -> Client:
        """The client of a service of the integrator node, or of any other whose name begins with /; made once."""
        return self._calls.client(service, self._full(name))

    def call(
        self, service: type, name: str, request: object, timeout_s: float = ANSWER_TIMEOUT_S, *, attempts: int = 1
    ) -> object:
        """Call a service and return its response.

        An answer is lost if the server has not discovered us yet, or ends: `attempts` is the largest number of calls,
        and `timeout_s` the time to wait for each answer. With one attempt, the service has START_TIMEOUT_S to appear.
        """
        within_s = max(timeout_s, START_TIMEOUT_S) if attempts == 1 else attempts * timeout_s
        answer = self._calls.begin(
            service, self._full(name), request,
            timeout_s=attempts * timeout_s, retry_after_s=timeout_s, service_within_s=within_s,
        )  # fmt: skip
        return self._result(answer)

    def _full(self, name: str) -> str:
        return name if name.startswith("/") else f"{self.node_name}/{name}"

    def _begin(self, service: type, name: str, request: object, take: Callable[[object], object]) -> Future:
        return self._calls.begin(
            service, self._full(name), request, take,
            timeout_s=ATTEMPTS * ANSWER_WITHIN_S, retry_after_s=ANSWER_WITHIN_S,
        )  # fmt: skip

    def _result(self, answer: Future) -> object:
        """Wait for an answer, and handle messages meanwhile."""
        answer.add_done_callback(lambda _: self._executor.create_task(lambda: None))  # ends its waiting
        while not answer.done():
            self.spin_once(POLL_S)
        return answer.result()

    # Lifecycle

    def state(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """The label of the lifecycle state; asks until there is an answer."""
        attempts = max(2, round(timeout_s / _STATE_WITHIN_S))
        return self.call(
            GetState, "get_state", GetState.Request(), _STATE_WITHIN_S, attempts=attempts
        ).current_state.label

    def change_state(self, transition: str) -> bool:
        """Make a transition: configure, activate, deactivate, cleanup or shutdown; returns whether it succeeded."""
        name = f"{self.state()}_shutdown" if transition == "shutdown" else transition
        request = ChangeState.Request(transition=Transition(id=getattr(Transition, f"TRANSITION_{name.upper()}")))
        return self.call(ChangeState, "change_state", request, 30.0).success

    def wait_until_active(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the node says that it is active."""
        self.wait_for(lambda: self.state(timeout_s) == "active", f"{self.node_name} active", timeout_s)

    # Parameters

    def set_parameters(self, **values: object) -> list[tuple[bool, str]]:
        """Set parameters one by one, `__` for the dot in a name; returns whether each was set, and if not, why."""
        request = SetParameters.Request(parameters=_parameter_messages(values))
        results = self.call(SetParameters, "set_parameters", request).results
        return [(result.successful, result.reason) for result in results]

    def set_atomically(self, **values: object) -> tuple[bool, str]:
        """Set all of these parameters or none; returns whether they were set, and the reason if not."""
        request = SetParametersAtomically.Request(parameters=_parameter_messages(values))
        result = self.call(SetParametersAtomically, "set_parameters_atomically", request).result
        return result.successful, result.reason

    def parameters(self, names: Sequence[str]) -> dict[str, object]:
        """Parameters as Python objects. Raises Refused for one that the node does not have."""
        return self.services.parameters(*names)

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
    """Time at which the middleware received a message, ns since the epoch; now if it does not say."""
    return info.get("received_timestamp") or time.time_ns()


def _parameter_messages(values: dict[str, object]) -> list[object]:
    return [
        (value if isinstance(value, Parameter) else Parameter(name.replace("__", "."), value=value)).to_parameter_msg()
        for name, value in values.items()
    ]
