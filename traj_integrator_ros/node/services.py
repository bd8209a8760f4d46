"""The node's services: requests to the pipeline and answers back, counted and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate

from ..engine.integrator import StartState
from ..handling.pipeline import Pipeline
from ..handling.rejection import Rejected
from ..handling.repeated import RepeatedAnswer, RepeatedCalls
from ..wire import messages
from ..wire.borrowed_services import BorrowedResponse
from .accounts import Accounts
from .latency import LatencyRing

_Made = tuple[RepeatedAnswer | None, Callable[..., None]]
"""An answer, if one can be prepared, and what fills it into a response."""


class _Prepared(NamedTuple):
    """How a request is answered when it comes again."""

    by: RepeatedCalls
    answer: RepeatedAnswer
    response: BorrowedResponse
    """Points to the answer."""


class Services:
    """The callbacks of the services, and how often and how quickly they succeeded.

    Args:
        accounts: count and log what fails.
        accepting: returns the pipeline, or raises Rejected while the node is not active.
        update: brings the joint states up to date and returns the time, ns.

    """

    def __init__(self, accounts: Accounts, accepting: Callable[[], Pipeline], update: Callable[[], int]) -> None:
        self._accounts, self._accepting, self._update = accounts, accepting, update
        self.calls = 0
        """Number of calls since the start."""
        self.latency = LatencyRing()
        """Times that calls which succeeded have taken, s."""

    def integrate(self, request: Integrate.Request, response: Integrate.Response) -> Integrate.Response:
        """Answer ~/integrate."""
        with self._serving("integrate", response):
            pipeline = self._accepting()
            batch = pipeline.integrate(messages.sequence_fields(request.actions), self._update(), request.fields)
            pipeline.check_limits(batch)
            messages.fill_trajectories(response.trajectory, batch, request.actions.header.stamp)
        return response

    def compute_gradient(
        self, request: ComputeGradient.Request, response: ComputeGradient.Response
    ) -> ComputeGradient.Response:
        """Answer ~/compute_gradient."""
        if (repeated := self._repeated("compute_gradient", request)) is not None:
            return repeated
        with self._serving("compute_gradient", response):
            pipeline, fields = self._accepting(), messages.sequence_fields(request.actions)
            gradient = pipeline.gradient(fields, messages.upstream_fields(request), self._update)
            messages.fill_gradient(response, gradient)
        self._prepare("compute_gradient", request, response, self._prepared_gradient)
        return response

    def evaluate(self, request: Evaluate.Request, response: Evaluate.Response) -> Evaluate.Response:
        """Answer ~/evaluate."""
        if (repeated := self._repeated("evaluate", request)) is not None:
            return repeated
        with self._serving("evaluate", response):
            pipeline, fields = self._accepting(), messages.sequence_fields(request.actions)
            evaluated = pipeline.evaluate(fields, messages.evaluation_fields(request), self._update)
            messages.fill_evaluation(response, evaluated, request.actions.header.stamp)
        self._prepare("evaluate", request, response, self._prepared_evaluation)
        return response

    def _repeated(self, service: str, request: object) -> BorrowedResponse | None:
        """Answer a request for which an answer is prepared; None if it has to be answered as any other."""
        prepared: _Prepared | None = getattr(request, "answer", None)
        if prepared is None:
            return None
        started = time.perf_counter()
        try:
            pipeline = self._accepting()
            if pipeline.repeated is not prepared.by:
                request.answer = None
                return None
            if not prepared.answer.renew(self._start_of(pipeline)):
                return None
        except Rejected:  # answered as any other, it is counted, and the response says why
            return None
        except Exception as error:
            self._accounts.failure(service, error)
            request.answer = None
            return None
        self.calls += 1
        self.latency.add(time.perf_counter() - started)
        return prepared.response

    def _prepare(
        self,
        service: str,
        request: object,
        response: BorrowedResponse,
        make: Callable[[Pipeline, object], _Made],
    ) -> None:
        """If a request that was answered repeats an earlier one, answer the next one by what `make` returns."""
        kept = getattr(request, "kept", None)
        if kept is None or not response.success:
            return
        with self._accounts.guard(service):
            pipeline = self._accepting()
            if getattr(kept, "refused_by", None) is pipeline.repeated:
                return
            answer, fill = make(pipeline, kept)
            if answer is None:
                kept.refused_by = pipeline.repeated
                return
            kept_response = type(response)()
            fill(kept_response, answer.answer)
            kept_response.success = True
            kept_response.keep()
            kept.answer = _Prepared(pipeline.repeated, answer, kept_response)

    def _prepared_gradient(self, pipeline: Pipeline, kept: ComputeGradient.Request) -> _Made:
        fields, upstream = messages.sequence_fields(kept.actions), messages.upstream_fields(kept)
        return pipeline.repeated.gradient(fields, upstream), messages.fill_gradient

    def _prepared_evaluation(self, pipeline: Pipeline, kept: Evaluate.Request) -> _Made:
        fields, asked = messages.sequence_fields(kept.actions), messages.evaluation_fields(kept)
        answer = pipeline.repeated.evaluation(fields, asked, self._start_of(pipeline))
        return answer, partial(messages.fill_evaluation, stamp=kept.actions.header.stamp)

    def _start_of(self, pipeline: Pipeline) -> Callable[[], StartState]:
        return lambda: pipeline.start(self._update())

    @contextmanager
    def _serving(
        self, service: str, response: Integrate.Response | ComputeGradient.Response | Evaluate.Response
    ) -> Iterator[None]:
        """Count a call, and say in the response whether it succeeded."""
        started = time.perf_counter()
        self.calls += 1
        with self._accounts.guard(service) as outcome:
            yield
        response.success, response.message = outcome.accepted, outcome.reason
        if outcome.accepted:
            self.latency.add(time.perf_counter() - started)
