"""The node's executor: rclpy's own one examines all entities in every turn, which takes up to 0.5 ms."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from rclpy.waitable import Waitable

from .rclpy_features import take, wants_message_info

EVENTS_PERIOD_S = 0.25
_KINDS = ("timer", "subscription", "service")
"""Kinds of entities, in the order in which those that are ready at the same time are called."""
NEEDED = {
    "WaitSet": ("add_subscription", "add_guard_condition", "clear_entities", "wait", "get_ready_entities"),
    "Subscription": ("take_message", "pointer"),
    "Service": ("service_take_request", "pointer"),
    "Timer": ("call_timer", "is_timer_ready", "pointer"),
}
"""Attributes below rclpy's public interface that `LeanExecutor` uses, by class."""

Call = Callable[[], None]
_Entity = TypeVar("_Entity", Timer, Subscription, Service)


def create_executor(context: Context | None = None) -> Executor:
    """Create the executor for the node: the lean one, or rclpy's if rclpy lacks what the lean one needs."""
    for owner, names in NEEDED.items():
        if not all(hasattr(getattr(rclpy_implementation, owner, None), name) for name in names):
            return SingleThreadedExecutor(context=context)
    return LeanExecutor(context=context)


class LeanExecutor(Executor):
    """Keeps one wait set, and examines the entities of its nodes again only when entities were created or destroyed.

    Serves subscriptions, services and timers whose callbacks are plain functions (for timers, without arguments), and
    events of the middleware, such as incompatible quality of service, up to 0.25 s late. Callback groups are asked
    whether they can execute only when entities were created or destroyed.

    Args:
        context: None for the default one.

    """

    def __init__(self, *, context: Context | None = None) -> None:
        self._stale = True
        self._in_use = ExitStack()
        """Keeps the handles in the wait set from being destroyed while it waits."""
        self._calls: dict[str, dict[int, Call]] = {kind: {} for kind in _KINDS}
        """The function to call when an entity is ready, by its kind and the address of its handle."""
        self._additions: list[Call] = []
        """Functions that add an entity to the wait set, which drops those that were not ready."""
        self._events: list[Waitable] = []
        self._events_due = 0.0
        self._ready: deque[Call] = deque()
        self._wait_set: rclpy_implementation.WaitSet | None = None
        super().__init__(context=context)

    def wake(self) -> None:
        """Stop waiting, because entities were created or destroyed, or the context ended."""
        self._stale = True
        super().wake()

    def add_node(self, node: Node) -> bool:
        """Serve a node; return whether it was added."""
        self._stale = True
        return super().add_node(node)

    def remove_node(self, node: Node) -> None:
        """Stop serving a node."""
        self._stale = True
        super().remove_node(node)

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """Release all entities; otherwise like rclpy's."""
        self._release()
        return super().shutdown(timeout_sec)

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Run the callback for one input; wait if none is left from the last wait.

        Raises:
            rclpy.executors.ExternalShutdownException: the context ended.
            RuntimeError: a node has entities that are not served.
            Exception: any exception of a callback, or of decoding a message. The next call continues with the remaining
                input.

        """
        if not self._ready:
            self._wait(EVENTS_PERIOD_S if timeout_sec is None or timeout_sec < 0 else timeout_sec)
        if self._ready:
            self._ready.popleft()()

    _spin_once_impl = spin_once  # the name by which rclpy's own spin calls it from Lyrical on, and from 7.1.9 on Jazzy

    def _wait(self, timeout_s: float) -> None:
        try:
            if self._stale:
                self._stale = False
                self._look_at_entities()
            if time.monotonic() >= self._events_due:
                self._events_due = time.monotonic() + EVENTS_PERIOD_S
                self._look_at_events()
            if not self._ready:
                self._wait_for_entities(min(timeout_s, EVENTS_PERIOD_S))
            if not self._context.ok():
                raise ExternalShutdownException()
        except Exception:
            self._stale = True
            self._release()
            raise

    def _wait_for_entities(self, timeout_s: float) -> None:
        wait_set = self._wait_set
        wait_set.clear_entities()
        for add in self._additions:
            add()
        wait_set.wait(int(timeout_s * 1e9))
        for kind, calls in self._calls.items():
            self._ready.extend(calls[pointer] for pointer in wait_set.get_ready_entities(kind))

    def _look_at_entities(self) -> None:
        self._release()
        nodes = self.get_nodes()
        if any(next(iter(others), None) for node in nodes for others in (node.clients, node.guards)):
            raise RuntimeError("LeanExecutor: expected no clients and no guard conditions, got some")
        self._in_use.enter_context(self._context.handle)
        guards = [guard.handle for guard in (self._guard, self._sigint_gc) if self._keeps(guard.handle)]
        timers = self._served(timer for node in nodes for timer in node.timers)
        subscriptions = self._served(subscription for node in nodes for subscription in node.subscriptions)
        services = self._served(service for node in nodes for service in node.services)
        counts = (len(subscriptions), len(guards), len(timers), 0, len(services), 0)
        wait_set = rclpy_implementation.WaitSet(*counts, self._context.handle)
        self._wait_set = wait_set
        self._additions = [
            *(partial(wait_set.add_guard_condition, handle) for handle in guards),
            *(partial(wait_set.add_timer, timer.handle) for timer in timers),
            *(partial(wait_set.add_subscription, subscription.handle) for subscription in subscriptions),
            *(partial(wait_set.add_service, service.handle) for service in services),
        ]
        self._calls = {
            "timer": {timer.handle.pointer: partial(_call_timer, timer) for timer in timers},
            "subscription": {
                entity.handle.pointer: partial(_call_subscription, entity, 1 + wants_message_info(entity))
                for entity in subscriptions
            },
            "service": {service.handle.pointer: partial(_call_service, service) for service in services},
        }
        self._events = [event for node in nodes for event in node.waitables if self.can_execute(event)]

    def _served(self, entities: Iterable[_Entity]) -> list[_Entity]:
        return [entity for entity in entities if self.can_execute(entity) and self._keeps(entity.handle)]

    def _keeps(self, handle: object) -> bool:
        """Keep the object of a handle from being destroyed; False if it already is."""
        try:
            self._in_use.enter_context(handle)
        except InvalidHandle:
            return False
        return True

    def _look_at_events(self) -> None:
        """Call the callbacks of events, which need no wait, since the middleware stores them."""
        with ExitStack() as in_use:
            events = []
            for event in self._events:
                try:
                    in_use.enter_context(event)
                except InvalidHandle:
                    continue
                events.append(event)
            wait_set = rclpy_implementation.WaitSet(0, 0, 0, 0, 0, len(events), self._context.handle)
            wait_set.clear_entities()
            for event in events:
                event.add_to_wait_set(wait_set)
            wait_set.wait(0)
            self._ready.extend(partial(_call_event, event) for event in events if event.is_ready(wait_set))

    def _release(self) -> None:
        self._ready.clear()
        self._in_use.close()


def _call_timer(timer: Timer) -> None:
    try:
        with timer.handle:
            if not timer.handle.is_timer_ready():  # it was cancelled after it became ready
                return
            timer.handle.call_timer()
    except InvalidHandle:
        return
    timer.callback()


def _call_subscription(subscription: Subscription, arguments: int) -> None:
    taken = take(subscription)
    if taken is None:
        return
    subscription.callback(*taken[:arguments])


def _call_service(service: Service) -> None:
    try:
        with service.handle:
            request, header = service.handle.service_take_request(service.srv_type.Request)
    except InvalidHandle:
        return
    if header is not None:
        service.send_response(service.callback(request, service.srv_type.Response()), header)


def _call_event(event: Waitable) -> None:
    steps = event.execute(event.take_data())
    try:
        steps.send(None)
    except StopIteration:
        return
    raise RuntimeError("LeanExecutor: expected callbacks of events that do not wait, got one that does")
