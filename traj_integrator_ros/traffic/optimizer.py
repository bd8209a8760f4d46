"""The optimizer's side: calls ~/integrate and ~/compute_gradient, one after the other or many at once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from rclpy.task import Future

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Integrate

from .ledger import Ledger
from .participant import Participant

DEPTH = 1000
"""Depth of our queue: answers that displace each other in it would not be losses of the node."""
ANSWER_WITHIN_S = 3.0
"""A call that takes longer is given up and repeated: the node may have been restarted in the meantime."""
ATTEMPTS = 8
About = TypeVar("About")


class Refused(Exception):
    """The node refuses a request; the message says which and why."""


class Optimizer(Generic[About]):
    """Calls the services of a participant's integrator node."""

    def __init__(self, participant: Participant) -> None:
        self.calls = 0
        """Calls that were waited for."""
        self.ledger: Ledger[About] = Ledger()
        """Calls that were not."""
        self.participant = participant
        self._gradient = participant.client(ComputeGradient, "compute_gradient", DEPTH)
        self._numbers = itertools.count()

    @property
    def is_connected(self) -> bool:
        """Whether the node's service is available."""
        return self._gradient.service_is_ready()

    def integrate(self, actions: ActionSequence) -> TrajectoryBatch:
        """The trajectories of a sequence. Raises Refused; TimeoutError where no answer comes."""
        return self._call(Integrate, "integrate", Integrate.Request(actions=actions)).trajectory

    def gradient(self, request: ComputeGradient.Request) -> ComputeGradient.Response:
        """The vjp of a sequence. Raises as `integrate`."""
        return self._call(ComputeGradient, "compute_gradient", request)

    def send(
        self,
        request: ComputeGradient.Request,
        about: About,
        on_answer: Callable[[About, ComputeGradient.Response], None],
    ) -> None:
        """Call ~/compute_gradient and do not wait; the answer, of success or not, is given to `on_answer`."""
        number = next(self._numbers)
        self.ledger.send(number, about, time.monotonic())
        self._gradient.call_async(request).add_done_callback(partial(self._on_answer, number, on_answer))

    def _on_answer(
        self, number: int, on_answer: Callable[[About, ComputeGradient.Response], None], future: Future
    ) -> None:
        on_answer(self.ledger.answer(number, time.monotonic()), future.result())

    def _call(self, service: type, name: str, request: object) -> object:
        self.calls += 1
        answer = self.participant.call(service, name, request, ANSWER_WITHIN_S, attempts=ATTEMPTS)
        if not answer.success:
            raise Refused(f"~/{name} refused a request: {answer.message}")
        return answer
