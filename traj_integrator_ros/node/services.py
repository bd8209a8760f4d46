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
        if (repeated := self._repeated(request)) is not None:
            return repeated
        with self._serving("compute_gradient", response):
            pipeline, fields = self._accepting(), messages.sequence_fields(request.actions)
            upstream = messages.upstream_fields(request)
            messages.fill_gradient(response, pipeline.gradient(fields, upstream, self._update))
            if (kept := _kept(request, pipeline)) is not None:
                fields, upstream = messages.sequence_fields(kept.actions), messages.upstream_fields(kept)
                answer = pipeline.repeated.gradient(fields, upstream)
                _prepare(kept, pipeline, answer, type(response), messages.fill_gradient)
        return response

    def evaluate(self, request: Evaluate.Request, response: Evaluate.Response) -> Evaluate.Response:
        """Answer ~/evaluate."""
        if (repeated := self._repeated(request)) is not None:
            return repeated
        with self._serving("evaluate", response):
            pipeline, fields = self._accepting(), messages.sequence_fields(request.actions)
            asked, stamp = messages.evaluation_fields(request), request.actions.header.stamp
            messages.fill_evaluation(response, pipeline.evaluate(fields, asked, self._update), stamp)
            if (kept := _kept(request, pipeline)) is not None:
                fields, asked = messages.sequence_fields(kept.actions), messages.evaluation_fields(kept)
                answer = pipeline.repeated.evaluation(fields, asked, self._start_of(pipeline))
                _prepare(kept, pipeline, answer, type(response), partial(messages.fill_evaluation, stamp=stamp))
        return response

    def _repeated(self, request: object) -> BorrowedResponse | None:
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
        self.calls += 1
        self.latency.add(time.perf_counter() - started)
        return prepared.response

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


def _kept(request: object, pipeline: Pipeline) -> object | None:
    """The earlier request that this one repeats, if an answer to it can be prepared now."""
    kept = getattr(request, "kept", None)
    return kept if kept is not None and getattr(kept, "refused_by", None) is not pipeline.repeated else None


def _prepare(
    kept: object, pipeline: Pipeline, answer: RepeatedAnswer | None, response_type: type, fill: Callable[..., None]
) -> None:
    """Answer a kept request by `answer` from now on, which `fill` writes to a response; None: not by less than all."""
    if answer is None:
        kept.refused_by = pipeline.repeated
        return
    response: BorrowedResponse = response_type()
    fill(response, answer.answer)
    response.success = True
    response.keep()
    kept.answer = _Prepared(pipeline.repeated, answer, response)
