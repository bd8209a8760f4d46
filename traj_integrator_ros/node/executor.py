"""The node's executor: rclpy's own one examines all entities in every turn, which takes up to 0.5 ms."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from rclpy.waitable import Waitable

EVENTS_PERIOD_S = 0.25
NEEDED = {
    "WaitSet": ("add_subscription", "add_guard_condition", "clear_entities", "wait", "get_ready_entities"),
    "Subscription": ("take_message", "pointer"),
    "Service": ("service_take_request", "pointer"),
    "Timer": ("call_timer", "is_timer_ready", "pointer"),
}
"""Attributes below rclpy's public interface that `LeanExecutor` uses, by class."""

Call = Callable[[], None]


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
        self._served: list[Node] = []
        self._in_use = ExitStack()
        """Keeps the handles in the wait set from being destroyed while it waits."""
        self._calls: dict[str, dict[int, Call]] = {}
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
            if self._stale or self._served != self.get_nodes():
                self._stale, self._served = False, self.get_nodes()
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
        nodes = self._served
        if any(next(iter(others), None) for node in nodes for others in (node.clients, node.guards)):
            raise RuntimeError("LeanExecutor: expected no clients and no guard conditions, got some")
        self._in_use.enter_context(self._context.handle)
        guards = [guard.handle for guard in (self._guard, self._sigint_gc) if self._keeps(guard.handle)]
        entities = {
            kind: [
                entity
                for node in nodes
                for entity in getattr(node, f"{kind}s")
                if self.can_execute(entity) and self._keeps(entity.handle)
            ]
            for kind in _CALLS
        }
        timers, subscriptions, services = (len(found) for found in entities.values())
        counts = (subscriptions, len(guards), timers, 0, services, 0)
        self._wait_set = wait_set = rclpy_implementation.WaitSet(*counts, self._context.handle)
        self._additions = [partial(wait_set.add_guard_condition, handle) for handle in guards]
        for kind, found in entities.items():
            self._additions += [partial(getattr(wait_set, f"add_{kind}"), entity.handle) for entity in found]
            self._calls[kind] = {entity.handle.pointer: _CALLS[kind](entity) for entity in found}
        self._events = [event for node in nodes for event in node.waitables if self.can_execute(event)]

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


def _timer_call(timer: Timer) -> Call:
    def call() -> None:
        try:
            with timer.handle:
                if not timer.handle.is_timer_ready():  # it was cancelled after it became ready
                    return
                timer.handle.call_timer()
        except InvalidHandle:
            return
        timer.callback()

    return call


def _subscription_call(subscription: Subscription) -> Call:
    arguments = len(inspect.signature(subscription.callback).parameters)

    def call() -> None:
        for taken in take_waiting(subscription, 1):
            subscription.callback(*taken[:arguments])  # the message, and its info where that is asked for

    return call


def _service_call(service: Service) -> Call:
    def call() -> None:
        try:
            with service.handle:
                request, header = service.handle.service_take_request(service.srv_type.Request)
        except InvalidHandle:
            return
        if header is not None:
            service.send_response(service.callback(request, service.srv_type.Response()), header)

    return call


_CALLS = {"timer": _timer_call, "subscription": _subscription_call, "service": _service_call}
"""What handles an entity that is ready, by its kind, in the order in which those ready at the same time are called."""


def take_waiting(subscription: Subscription, most: int) -> Iterator[tuple[Any, dict[str, object]]]:
    """Take messages from a subscription's queue, and their info, without blocking; none if it is gone."""
    for _ in range(most):
        try:
            with subscription.handle:
                taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
        except InvalidHandle:
            return
        if taken is None:
            return
        yield taken


def _call_event(event: Waitable) -> None:
    steps = event.execute(event.take_data())
    try:
        steps.send(None)
    except StopIteration:
        return
    raise RuntimeError("LeanExecutor: expected callbacks of events that do not wait, got one that does")
