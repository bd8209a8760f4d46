"""An executor of one node that waits at a third of the CPU time of rclpy's, which was most of the node's load.

rclpy's executor makes a wait set and a task for each callback, and waits twice more after it. It takes 1.3 ms of CPU
for an empty callback of a timer, and this one 0.4 ms (`python -m benchmarks --suite message_costs`).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.task import Task
from rclpy.timer import Timer
from rclpy.waitable import NumberOfEntities, Waitable

from .answers import Answers

_KINDS = "subscription", "guard_condition", "timer", "service"
_FOREVER_NS = -1
_OFTEN_S = 0.025
"""Shortest waiting, s, of an executor that is not busy. A busy one does not wait for calls about parameters and the
lifecycle most of the time: each of these dozen services takes 3 us of a waiting.
"""
_TURNS = 6
"""Number of waitings of which a busy executor waits twice for these services: their calls wait for 0.1 s at most."""
_EVENTS_EVERY_S = 0.5
"""Period, s, of reading events of the middleware, which have as many handlers as everything else."""


class LeanExecutor(SingleThreadedExecutor):
    """Spins one node without clients whose callbacks are plain functions: its own, and those of rclpy."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = True
        """True if the node's entities have changed since the wait set was made."""
        self._entities: dict[str, list] = {}
        self._handles: dict[str, list] = {}
        self._waitables: list[Waitable] = []
        self._events: list[Waitable] = []
        """Handlers of events of the middleware, such as a mismatch of QoS, which can wait."""
        self._events_s = 0.0
        self._brief = 0
        """Number of short waitings in a row."""
        self._wait_set: Any = None
        self._begun: deque[Task] = deque()
        self._answers = Answers()
        self._calls = {**_CALLED, "service": self._call_service}

    def wake(self) -> None:
        """End the waiting, because entities were created or removed."""
        self._changed = True
        super().wake()

    def create_task(self, callback: Callable | Coroutine, *arguments: object, **options: object) -> Task:
        """Have work done in the next `spin_once`."""
        task = Task(callback, arguments, options, executor=self)
        self._begun.append(task)
        super().wake()
        return task

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Wait until something is ready, and call its callbacks: those of the node's inputs come first."""
        if self._changed:
            self._gather()
        self._run_tasks()
        wait_set, entities, waitables, kinds = self._wait_set, self._entities, self._waitables, _KINDS
        longest_s = float("inf") if timeout_sec is None or timeout_sec < 0 else timeout_sec
        if self._brief % _TURNS > 1:
            kinds, longest_s = _KINDS[:-1], min(longest_s, _OFTEN_S)
        if (now_s := time.monotonic()) > self._events_s + _EVENTS_EVERY_S:
            self._events_s, waitables = now_s, waitables + self._events
        try:
            wait_set.clear_entities()
            for kind in kinds:
                add = getattr(wait_set, f"add_{kind}")
                for handle in self._handles[kind]:
                    add(handle)
            for waitable in waitables:
                waitable.add_to_wait_set(wait_set)
        except InvalidHandle:
            self._changed = True
            return
        self._answers.send_again()
        longest_s = min(longest_s, max(0.0, self._answers.due_s - time.monotonic()))
        wait_set.wait(round(longest_s * 1e9) if math.isfinite(longest_s) else _FOREVER_NS)
        if not self._context.ok():
            raise ExternalShutdownException
        self._brief = self._brief + 1 if time.monotonic() - now_s < _OFTEN_S else 0
        ready = {kind: set(wait_set.get_ready_entities(kind)) for kind in kinds}
        if ready.get("service"):  # A message and then a call may have come between the looks at topics and at services.
            ready["subscription"] = {entity.handle.pointer for entity in entities["subscription"]}
        calls: list[Callable[[], None]] = [
            lambda waitable=waitable: _execute(waitable) for waitable in waitables if waitable.is_ready(wait_set)
        ]
        for kind in self._calls:
            for entity in entities[kind] if ready.get(kind) else ():
                if entity.handle.pointer in ready[kind]:
                    calls.append(lambda entity=entity, call=self._calls[kind]: call(entity))
        for call in calls:
            try:
                call()
            except InvalidHandle:  # an earlier callback has removed it
                self._changed = True

    def _gather(self) -> None:
        """Collect the entities to wait for."""
        self._changed = False
        (node,) = self.get_nodes()
        own = [guard for guard in (self._guard, self._sigint_gc) if guard is not None]
        kinds = (node.subscriptions, [*node.guards, *own], node.timers, node.services)
        self._entities = {
            kind: [one for one in found if one.callback_group is None or one.callback_group.can_execute(one)]
            for kind, found in zip(_KINDS, kinds, strict=True)
        }
        count = NumberOfEntities(*(len(self._entities[kind]) for kind in _KINDS[:3]), 0, len(self._entities["service"]))
        self._handles = {kind: [entity.handle for entity in found] for kind, found in self._entities.items()}
        self._waitables, self._events = [], []
        for waitable in node.waitables:
            own = waitable.get_num_entities()
            (self._events if own.num_events else self._waitables).append(waitable)
            count += own
        self._wait_set = rclpy_implementation.WaitSet(
            *(getattr(count, name) for name in NumberOfEntities.__slots__), self._context.handle
        )

    def _call_service(self, service: Service) -> None:
        with service.handle:
            request, header = service.handle.service_take_request(service.srv_type.Request)
        if header is None:
            return
        # The other calls of a burst are taken in the next turns, each after the messages that came before it.
        self._brief = 0
        self._answers.send(service, service.callback(request, service.srv_type.Response()), header)

    def _run_tasks(self) -> None:
        for _ in range(len(self._begun)):
            task = self._begun.popleft()
            task()
            if not task.done():
                self._begun.append(task)
            elif (error := task.exception()) is not None:
                raise error


def _execute(waitable: Waitable) -> None:
    try:
        waitable.execute(waitable.take_data()).send(None)
    except StopIteration:
        return
    raise RuntimeError(f"{type(waitable).__name__}: expected callbacks that wait for nothing")


def _call_timer(timer: Timer) -> None:
    with timer.handle:
        if not timer.handle.is_timer_ready():
            return
        timer.handle.call_timer()
    timer.callback()


def _call_guard(guard: Any) -> None:
    if guard.callback is not None:
        guard.callback()


def _call_subscription(subscription: Subscription) -> None:
    with subscription.handle:
        taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
    if taken is not None:
        subscription.callback(taken[0])


_CALLED: dict[str, Callable[[Any], None]] = {
    "timer": _call_timer,
    "guard_condition": _call_guard,
    "subscription": _call_subscription,
}
