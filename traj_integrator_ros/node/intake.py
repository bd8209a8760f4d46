"""Messages and calls for the node: read from the middleware at once, and kept until they are handled."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from operator import attrgetter
from types import TracebackType
from typing import Any, NamedTuple

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import HistoryPolicy
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.waitable import NumberOfEntities, Waitable

from ..wire.readers import SequenceGaps
from .accounts import Accounts
from .answers import Answers
from .rclpy_features import request_age_s

GIVES_WAY_S = 0.02
"""Time, s, after which a waiting message gives way to newer ones of its topic: two periods of the supervision."""
_MOST_GIVE_WAY = 10
"""Largest number of messages in a row that give way: where each takes longer than the period of the stream, a newer
one always waits.
"""
MOST_SEQUENCES = 10
"""Largest number of sequences of a topic that wait, so that a planner that is too fast loses them instead of delaying
them; fewer if the depth of its quality of service is smaller.
"""
CALL_WAITS_S = 0.5
"""Longest time, s, that a call waits before it is refused: half of the time in which every call is answered."""
MOST_CALLS = 100
"""Largest number of calls that wait; more are refused at once. So many gradient requests of 16 x 32 actions of 7 joints
take 7 MB.
"""
READ_EVERY_S = 5e-3
"""Longest time, s, between two readings while there is work: a queue of 1,000 then holds calls at 200 kHz."""
_YOUNG_S = 2e-3
"""Age of a call, s, beyond which no more calls are expected with it: the executor announces those."""
MOST_READ = 1000
"""Largest number of messages that are taken from one input in a row, and that wait if its history is not limited."""
AT_ONCE = 8
"""Largest number of messages that are taken from one topic or service at once: stops wait while they are decoded."""


class Message(NamedTuple):
    """A message on a topic that waits to be handled."""

    topic: str
    data: bytes
    info: Mapping[str, object]
    arrived_s: float
    """When the middleware received the message, s of the steady clock."""
    missed: int
    """Number of messages that were lost before this one."""
    gives_way: bool = False
    """True if the message has waited for `GIVES_WAY_S`, and a newer one waits."""


class Call:
    """A call of a service that waits to be answered.

    Args:
        name: of the service.
        service: sends the response.
        request: of the caller.
        header: identifies the caller.

    """

    __slots__ = ("_header", "_service", "arrived_s", "name", "request", "response", "steps")

    def __init__(self, name: str, service: Service, request: object, header: object) -> None:
        self.name, self.request, self._service, self._header = name, request, service, header
        self.response: Any = service.srv_type.Response()
        self.steps: Iterator[None] | None = None
        """What is left of its handling; None before that has begun."""
        self.arrived_s = time.monotonic() - request_age_s(header)
        """When the call was sent or, if the sender's clock differs, received, s of the steady clock."""

    @property
    def age_s(self) -> float:
        """Time since the call was sent, s."""
        return time.monotonic() - self.arrived_s

    def answer(self, answers: Answers) -> None:
        """Send the response."""
        answers.send(self._service, self.response, self._header)


class _Topic:
    """A subscription with its newest messages that wait."""

    def __init__(self, name: str, subscription: Subscription, count_publishers: Callable[[], int]) -> None:
        self._name, self.subscription, self._count_publishers = name, subscription, count_publishers
        qos = subscription.qos_profile
        self._most = min(qos.depth, MOST_SEQUENCES) if qos.history is HistoryPolicy.KEEP_LAST else MOST_READ
        self._gaps = SequenceGaps()
        self._missed = self._gave_way = 0
        self.waiting: deque[Message] = deque()

    def read(self) -> int:
        """Take messages out of the middleware; returns how many."""
        taken = [*take_waiting(self.subscription, AT_ONCE)]
        for data, info in taken:
            self._missed += self._gaps.missed_before(info, self._count_publishers)
            arrived_s = time.monotonic() - age_ns(info) * 1e-9
            self.waiting.append(Message(self._name, data, info, arrived_s, self._missed))
            self._missed = 0
            if len(self.waiting) > self._most:
                lost = self.waiting.popleft()
                following = self.waiting.popleft()
                self.waiting.appendleft(following._replace(missed=following.missed + lost.missed + 1))
        return len(taken)

    def next(self) -> Message:
        message = self.waiting.popleft()
        late = bool(self.waiting) and time.monotonic() - message.arrived_s > GIVES_WAY_S
        self._gave_way = (self._gave_way + 1) % (_MOST_GIVE_WAY + 1) if late else 0
        return message._replace(gives_way=True) if self._gave_way else message


class Intake(Waitable):
    """The inputs of a node as one object that executors wait for, with the messages that wait to be handled.

    rclpy takes messages one by one, without regard to their urgency, while later ones displace each other in queues of
    the middleware.

    Args:
        node: the node.
        accounts: count requests that cannot be decoded.
        arrived: called by the executor when something has arrived.

    """

    def __init__(self, node: Node, accounts: Accounts, arrived: Callable[[], None]) -> None:
        super().__init__(node.default_callback_group)
        self._node, self._accounts, self._arrived = node, accounts, arrived
        self._topics: dict[str, _Topic] = {}
        self._services: dict[str, Service] = {}
        self._at_once: set[str] = set()
        self._indices: list[tuple[str, str, int]] = []
        """Name, kind and index in the wait set of each input."""
        self._ready: set[str] = set()
        """Names of inputs at which an executor has found something."""
        self._read_s = 0.0
        self.unread: set[str] = set()
        """Names of inputs of which more may have arrived than was read."""
        self.calls: deque[Call] = deque()
        """Calls that wait, in the order of their arrival."""

    def open(self) -> None:
        """Have executors wait for the inputs that were added."""
        self._node.add_waitable(self)

    def close(self) -> None:
        """End the waiting of executors for the inputs."""
        self._node.remove_waitable(self)

    def add_topic(self, name: str, subscription: Subscription, count_publishers: Callable[[], int]) -> None:
        """Add a raw subscription, which no executor must serve; for `count_publishers` see `SequenceGaps`."""
        self._topics[name] = _Topic(name, subscription, count_publishers)

    def add_service(self, name: str, service: Service, *, at_once: bool = False) -> None:
        """Add a service, which no executor must serve; with `at_once`, only `take_calls` takes its calls."""
        self._services[name] = service
        self._at_once |= {name} if at_once else set()

    @property
    def waits(self) -> bool:
        """Return whether anything waits."""
        return bool(self.calls) or any(topic.waiting for topic in self._topics.values())

    def read_ready(self) -> list[Call]:
        """Take what the executor has found out of the middleware; returns calls to be answered at once."""
        ready, self._ready = self._ready, set()
        if ready:
            self._read(ready)
        return [call for name in ready & self._at_once for call in self.take_calls(name)]

    def read(self, *, everything: bool = False) -> list[Call]:
        """Take what has arrived out of the middleware, of most inputs only now and then, or `everything`."""
        if everything or self.unread or time.monotonic() >= self._read_s + READ_EVERY_S:
            self._read((not everything and self.unread) or {*self._topics, *self._services})
        return [call for name in self._at_once for call in self.take_calls(name)]

    def _read(self, names: set[str]) -> None:
        self._read_s = time.monotonic()
        taken = {name: self._topics[name].read() for name in names & self._topics.keys()}
        arrived: list[Call] = []
        for name in names & self._services.keys() - self._at_once:
            before = len(arrived)
            arrived += self.take_calls(name)
            taken[name] = len(arrived) - before
        self.calls.extend(sorted(arrived, key=attrgetter("arrived_s")))
        self.unread = {name for name, count in taken.items() if count == AT_ONCE}

    def take_calls(self, name: str) -> Iterator[Call]:
        """Take the calls of one service out of the middleware."""
        service = self._services[name]
        for _ in range(AT_ONCE):
            request = header = None
            with self._accounts.guard(name):  # A request that is not valid has no header to answer it by.
                try:
                    with service.handle:
                        request, header = service.handle.service_take_request(service.srv_type.Request)
                except InvalidHandle:
                    return
                if header is None:
                    return
                call = Call(name, service, request, header)
                yield call
                if 0 < call.age_s < _YOUNG_S:  # rclpy makes a request even where there is none, which takes 0.1 ms.
                    return

    def next(self) -> Message | Call | None:
        """Take the next message or, if none waits, the next call, in order of arrival; None if nothing waits."""
        waiting = [topic for topic in self._topics.values() if topic.waiting]
        if waiting:
            return min(waiting, key=lambda topic: topic.waiting[0].arrived_s).next()
        return self.calls.popleft() if self.calls else None

    # What executors call

    def __enter__(self) -> None:
        """Keep the inputs from being destroyed."""
        with ExitStack() as stack:
            for entity in self._entities():
                stack.enter_context(entity.handle)
            self._in_use = stack.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the inputs be destroyed."""
        self._in_use.close()

    def get_num_entities(self) -> NumberOfEntities:
        """Return the numbers of inputs of each kind."""
        return NumberOfEntities(num_subs=len(self._topics), num_services=len(self._services))

    def add_to_wait_set(self, wait_set: Any) -> None:
        """Have an executor wait for the inputs."""
        self._indices = [
            (name, "subscription", wait_set.add_subscription(topic.subscription.handle))
            for name, topic in self._topics.items()
        ]
        self._indices += [
            (name, "service", wait_set.add_service(service.handle)) for name, service in self._services.items()
        ]

    def is_ready(self, wait_set: Any) -> bool:
        """Return whether something has arrived."""
        self._ready = {name for name, kind, index in self._indices if wait_set.is_ready(kind, index)}
        return bool(self._ready)

    def take_data(self) -> None:
        """Take nothing yet: what has arrived is read in the order of its urgency."""

    async def execute(self, taken: None) -> None:
        """Answer what has arrived."""
        self._arrived()

    def _entities(self) -> list[Subscription | Service]:
        return [*(topic.subscription for topic in self._topics.values()), *self._services.values()]


def age_ns(info: Mapping[str, object]) -> int:
    """Return the time since a message arrived, ns, by its message info; 0 if that has no time."""
    arrived_ns = info.get("received_timestamp")
    if not isinstance(arrived_ns, int) or arrived_ns <= 0:
        return 0
    return max(0, time.time_ns() - arrived_ns)


def take_waiting(subscription: Subscription, most: int) -> Iterator[tuple[Any, dict[str, object]]]:
    """Take messages and their info from a subscription's queue, without blocking; empty if the subscription is gone."""
    for _ in range(most):
        try:
            with subscription.handle:
                taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
        except InvalidHandle:
            return
        if taken is None:
            return
        yield taken
