"""The lean executor: nothing is lost, nothing keeps it from going on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import rclpy
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.context import Context
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import Int32

from traj_integrator_interfaces.srv import Integrate
from traj_integrator_ros.node.executor import LeanExecutor, create_executor

pytestmark = pytest.mark.ros


@pytest.fixture
def context() -> Iterator[Context]:
    context = Context()
    rclpy.init(context=context)
    yield context
    context.try_shutdown()


@pytest.fixture
def node(context: Context) -> Iterator[Node]:
    node = rclpy.create_node("served", context=context)
    yield node
    node.destroy_node()


@pytest.fixture
def executor(context: Context, node: Node) -> Iterator[LeanExecutor]:
    executor = create_executor(context)
    assert isinstance(executor, LeanExecutor), "this rclpy lacks nothing"
    executor.add_node(node)
    yield executor
    executor.shutdown(0)


def spin(executor: LeanExecutor, done: Callable[[], object], name: str = "spin_once") -> list[str]:
    """Spin until something is done; what its callbacks raised."""
    deadline, errors = time.monotonic() + 10.0, []
    while not done():
        assert time.monotonic() < deadline
        try:
            getattr(executor, name)(timeout_sec=0.1)
        except ValueError as error:
            errors.append(str(error))
    return errors


@pytest.mark.parametrize("name", ["spin_once", "_spin_once_impl"])
def test_spin_of_every_rclpy_serves_the_node(node: Node, executor: LeanExecutor, name: str) -> None:
    ticks: list[None] = []
    node.create_timer(0.01, lambda: ticks.append(None))
    spin(executor, lambda: ticks, name)


def test_every_message_and_request_is_answered_once_and_in_order(node: Node, executor: LeanExecutor) -> None:
    got: list[int] = []
    other = rclpy.create_node("other", context=node.context)
    publisher = other.create_publisher(Int32, "numbers", 100)
    node.create_subscription(Int32, "numbers", lambda message: got.append(message.data), 100)
    node.create_service(Integrate, "~/answer", lambda request, response: response)
    client = other.create_client(Integrate, "served/answer")
    others = SingleThreadedExecutor(context=node.context)
    others.add_node(other)
    spin(executor, lambda: publisher.get_subscription_count() and client.service_is_ready())
    for number in range(50):
        publisher.publish(Int32(data=number))
    answer = client.call_async(Integrate.Request())

    def done() -> bool:
        others.spin_once(timeout_sec=0)
        return answer.done() and len(got) == 50

    spin(executor, done)
    assert got == list(range(50))
    others.shutdown()
    other.destroy_node()


def test_a_callback_that_raises_costs_nothing_but_itself(node: Node, executor: LeanExecutor) -> None:
    got, tried = [], []

    def refuse_odd(message: Int32) -> None:
        tried.append(message.data)
        if message.data % 2:
            raise ValueError(f"{message.data} is odd")
        got.append(message.data)

    publisher = node.create_publisher(Int32, "numbers", 100)
    node.create_subscription(Int32, "numbers", refuse_odd, 100)
    ticks: list[None] = []
    node.create_timer(0.01, lambda: ticks.append(None))
    spin(executor, publisher.get_subscription_count)
    for number in range(10):
        publisher.publish(Int32(data=number))
    errors = spin(executor, lambda: len(tried) == 10 and len(ticks) > 3)
    assert got == [0, 2, 4, 6, 8] and errors == [f"{number} is odd" for number in (1, 3, 5, 7, 9)]


def test_callbacks_create_and_destroy_what_is_waited_for(node: Node, executor: LeanExecutor) -> None:
    publisher = node.create_publisher(Int32, "numbers", 10)
    calls: list[str] = []
    made = []

    def first() -> None:
        calls.append("first")
        node.destroy_timer(timer)
        node.destroy_timer(neighbour)  # which is ready as well
        cancelled.cancel()  # and so is this one
        made.append(node.create_subscription(Int32, "numbers", second, 10))

    def second(message: Int32) -> None:
        calls.append("second")
        node.destroy_subscription(made.pop())
        made.append(node.create_timer(0.01, third))

    def third() -> None:
        calls.append("third")
        made[0].cancel()

    timer = node.create_timer(0.01, first)
    neighbour = node.create_timer(0.01, lambda: calls.append("destroyed"))
    cancelled = node.create_timer(0.01, lambda: calls.append("cancelled"))
    time.sleep(0.05)
    spin(executor, publisher.get_subscription_count)
    publisher.publish(Int32())
    spin(executor, lambda: "third" in calls)
    publisher.publish(Int32())
    end = time.monotonic() + 0.1
    spin(executor, lambda: time.monotonic() > end)
    assert calls == ["first", "second", "third"]


def test_timers_follow_simulated_time(node: Node, executor: LeanExecutor) -> None:
    clock = Clock(clock_type=ClockType.ROS_TIME)
    clock._set_ros_time_is_active(True)
    ticks: list[None] = []
    node.create_timer(1.0, lambda: ticks.append(None), clock=clock)
    executor.spin_once(timeout_sec=0.05)
    assert not ticks
    clock.set_ros_time_override(rclpy.time.Time(seconds=1.5, clock_type=ClockType.ROS_TIME))
    spin(executor, lambda: ticks)


def test_events_of_the_middleware_are_reported(node: Node, executor: LeanExecutor) -> None:
    told: list[object] = []
    events = SubscriptionEventCallbacks(incompatible_qos=told.append)
    node.create_subscription(Int32, "numbers", lambda message: None, 10, event_callbacks=events)
    node.create_publisher(Int32, "numbers", QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT))
    spin(executor, lambda: told)


def test_waiting_ends_in_time_and_with_the_context(node: Node, executor: LeanExecutor, context: Context) -> None:
    begin = time.monotonic()
    executor.spin_once(timeout_sec=0.05)
    executor.spin_once(timeout_sec=0)
    assert time.monotonic() - begin < 5
    context.shutdown()
    with pytest.raises((ExternalShutdownException, RuntimeError)):
        executor.spin_once()


def test_what_it_does_not_serve_is_refused(node: Node, executor: LeanExecutor) -> None:
    client = node.create_client(Integrate, "somewhere")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="expected no clients"):
            executor.spin_once(timeout_sec=0)
    node.destroy_client(client)
    executor.spin_once(timeout_sec=0)
