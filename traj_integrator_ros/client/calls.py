"""Service calls from any thread: sent once the service is there, repeated without a response, and given up at last."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import rclpy
from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future as RclpyFuture

from ..requests.rejection import RejectionReason

_DEPTH = 1000
"""Depth of the queue of responses; a response that is displaced from it is lost."""
_POLL_S = 0.02
"""Period, s, of checks whether calls in progress are due again or over."""
_IDLE_S = 0.2
"""Longest wait of the thread, s, while no call is in progress."""
_BUSY = f"{RejectionReason.BUSY.value}: "
"""What the message of a response begins with if the call waited for too long."""
_FORKED = "expected clients in one process, got a fork of it, where none of its threads run: start workers by spawn"


@dataclass(eq=False)
class _Call:
    client: Client
    request: object
    take: Callable[[Any], object]
    timeout_s: float
    retry_after_s: float
    deadline: float
    answer: Future = field(default_factory=Future)
    sent: list[RclpyFuture] = field(default_factory=list)
    due: float = 0.0


class Calls:
    """The service calls of one program, made by a node and a thread of their own.

    Therefore they need nobody who spins `node`, and its callbacks may wait for them.

    Args:
        node: its context, namespace and remappings apply to the names of services.

    """

    _first_pid = 0
    """The process that made the first client."""

    def __init__(self, node: Node) -> None:
        self._pid = os.getpid()
        Calls._first_pid = Calls._first_pid or self._pid
        self._resolve = node.resolve_service_name
        self._node = rclpy.create_node(
            f"{node.get_name()}_calls", namespace=node.get_namespace(), context=node.context,
            use_global_arguments=False, enable_rosout=False, start_parameter_services=False,
        )  # fmt: skip
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(self._node)
        self._clients: dict[str, Client] = {}
        self._pending: list[_Call] = []
        self._lock = threading.RLock()
        self._closing, self._over = threading.Event(), ""
        self._thread = threading.Thread(target=self._run, name="integrator calls", daemon=True)
        self._thread.start()

    @classmethod
    def check_process(cls) -> None:
        """Raise RuntimeError if this process is a fork of one that had clients, whose place in the domain it shares."""
        if cls._first_pid not in (0, os.getpid()):
            raise RuntimeError(_FORKED)

    @property
    def is_forked(self) -> bool:
        """Return whether this object is a copy in a forked process: all that it owns belongs to the parent."""
        return self._pid != os.getpid()

    def check(self) -> None:
        """Raise RuntimeError if this object is closed, rclpy is shut down, or the process is a fork."""
        if over := _FORKED if self.is_forked else self._over:
            raise RuntimeError(over)

    def client(self, service: type, name: str) -> Client:
        """Return the client of a service; it is made once."""
        name = self._resolve(name)
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self._node.create_client(service, name, qos_profile=QoSProfile(depth=_DEPTH))
            return self._clients[name]

    def begin(
        self,
        service: type,
        name: str,
        request: object,
        take: Callable[[Any], object] = lambda answer: answer,
        *,
        timeout_s: float,
        retry_after_s: float = float("inf"),
        service_within_s: float | None = None,
    ) -> Future:
        """Begin a call; never waits.

        Args:
            service: its type.
            name: of the service.
            request: of that type. It may be sent several times, so that its effect must not depend on that.
            take: converts the response to the future's result; the future raises what it raises.
            timeout_s: longest time from the first sending to the response, s.
            retry_after_s: time after which a request without a response is sent again, s.
            service_within_s: longest time until the service is there, s; None: `timeout_s`.

        Returns:
            A future. It raises TimeoutError if no response comes, and RuntimeError if rclpy or this object is shut
            down. Its callbacks must not wait for other calls.

        """  # fmt: skip
        self.check()  # Before the lock, which another thread may have held when the process was forked.
        now = time.monotonic()
        deadline = now + (timeout_s if service_within_s is None else service_within_s)
        with self._lock:
            self.check()
            call = _Call(self.client(service, name), request, take, timeout_s, retry_after_s, deadline)
            self._pending.append(call)
            self._step(call, now)
        if not call.sent:
            self._wake()
        return call.answer

    def wait(self, answer: Future) -> Any:
        """Return the result of a future of `begin`. Raises RuntimeError in callbacks of futures, which cannot wait."""
        if threading.current_thread() is self._thread and not answer.done():
            raise RuntimeError("expected no waiting for calls in the callback of a future: begin further calls there")
        return answer.result()

    def close(self) -> None:
        """Give up all calls."""
        if self.is_forked:
            return
        self._closing.set()
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake(self) -> None:
        self._executor.create_task(lambda: None)  # In some releases a plain wake-up does not end the waiting.

    def _run(self) -> None:
        over = "the client is closed"
        try:
            while not self._closing.is_set():
                self._executor.spin_once(timeout_sec=_POLL_S if self._pending else _IDLE_S)
                now = time.monotonic()
                with self._lock:
                    for call in list(self._pending):
                        self._step(call, now)
        except Exception as error:  # rclpy raises one of several errors if a context is shut down
            over = f"rclpy is shut down: {error}"
        self._give_up(over)
        self._executor.shutdown(timeout_sec=0)
        self._node.destroy_node()

    def _give_up(self, over: str) -> None:
        with self._lock:
            self._over, pending, self._pending = over, self._pending, []
        for call in pending:
            if call.answer.set_running_or_notify_cancel():
                call.answer.set_exception(RuntimeError(over))

    def _step(self, call: _Call, now: float) -> None:
        """Send a call if it is due, or give it up."""
        if call.answer.cancelled() or now > call.deadline:
            what = f"no answer within {call.timeout_s:g} s" if call.sent else "expected such a service, found none"
            self._finish(call, TimeoutError(f"{call.client.srv_name}: {what}"))
        elif now >= call.due and call.client.service_is_ready():
            if not call.sent:
                call.deadline = now + call.timeout_s
            call.due = now + call.retry_after_s
            call.sent.append(call.client.call_async(call.request))
            call.sent[-1].add_done_callback(lambda found: self._answered(call, found.exception() or found.result()))

    def _answered(self, call: _Call, found: object) -> None:
        """Take a response. That one of several copies of a request came too late says nothing about the others."""
        waits = any(not one.done() for one in call.sent)
        if not (waits and getattr(found, "message", "").startswith(_BUSY)):
            self._finish(call, found)

    def _finish(self, call: _Call, found: object) -> None:
        """Set the result of a call to a response or an error, unless it has one already."""
        with self._lock:
            if call not in self._pending:
                return
            self._pending.remove(call)
            for one in call.sent:
                if not one.done():
                    call.client.remove_pending_request(one)
        if not call.answer.set_running_or_notify_cancel():
            return
        try:
            if isinstance(found, Exception):
                raise found
            call.answer.set_result(call.take(found))
        except Exception as error:
            call.answer.set_exception(error)
