"""The node's services: requests to the pipeline and answers back, counted and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager

from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate, Retime

from ..handling.background import in_background
from ..handling.pipeline import Pipeline
from ..wire import messages
from ..wire.readers import nanoseconds
from .accounts import Accounts, LatencyRing
from .entities import SUPERVISION_PERIOD_S


class Services:
    """The callbacks of the services, and how often and how quickly they succeeded.

    Args:
        accounts: count and log what fails.
        accepting: returns the pipeline, or raises Rejected while the node is not active.
        update: brings the joint states up to date and returns the time, ns.
        supervise: called every 10 ms during a call that takes long.

    """

    def __init__(
        self,
        accounts: Accounts,
        accepting: Callable[[], Pipeline],
        update: Callable[[], int],
        supervise: Callable[[], None],
    ) -> None:
        self._accounts, self._accepting, self._update, self._supervise = accounts, accepting, update, supervise
        self.calls = 0
        """Number of calls since the start."""
        self.latency = LatencyRing()
        """Times that calls which succeeded have taken, s."""

    def integrate(self, request: Integrate.Request, response: Integrate.Response) -> Integrate.Response:
        """Answer ~/integrate."""
        with self._serving("integrate", response):
            pipeline = self._accepting()
            now_ns, stamp = self._update(), request.actions.header.stamp
            batch = pipeline.integrate(messages.sequence_fields(request.actions), now_ns, request.fields)
            if request.as_published:
                pipeline.require_publishable(batch, nanoseconds((stamp.sec, stamp.nanosec)), now_ns)
            else:
                pipeline.check_limits(batch)
            messages.fill_trajectories(response.trajectory, batch, stamp)
        return response

    def committed(self, request: Committed.Request, response: Committed.Response) -> Committed.Response:
        """Answer ~/committed."""
        with self._serving("committed", response):
            pipeline = self._accepting()
            messages.fill_committed(
                response,
                pipeline.committed(messages.committed_fields(request), self._update()),
                pipeline.parameters.joint_names,
            )
        return response

    def compute_gradient(
        self, request: ComputeGradient.Request, response: ComputeGradient.Response
    ) -> ComputeGradient.Response:
        """Answer ~/compute_gradient."""
        with self._serving("compute_gradient", response):
            pipeline, fields = self._accepting(), messages.sequence_fields(request.actions)
            gradient = pipeline.gradient(fields, messages.upstream_fields(request), self._update)
            messages.fill_gradient(response, gradient)
        return response

    def evaluate(self, request: Evaluate.Request, response: Evaluate.Response) -> Evaluate.Response:
        """Answer ~/evaluate."""
        with self._serving("evaluate", response):
            pipeline, fields = self._accepting(), messages.sequence_fields(request.actions)
            evaluated = pipeline.evaluate(fields, messages.evaluation_fields(request), self._update)
            messages.fill_evaluation(response, evaluated, request.actions.header.stamp)
        return response

    def retime(self, request: Retime.Request, response: Retime.Response) -> Retime.Response:
        """Answer ~/retime; the robot is supervised meanwhile."""
        with self._serving("retime", response):
            checked = self._accepting().retiming(messages.retime_fields(request))
            answer = in_background(checked.answer)
            while not wait([answer], SUPERVISION_PERIOD_S).done:
                self._supervise()
            messages.fill_retime(response, answer.result())
        return response

    @contextmanager
    def _serving(
        self,
        service: str,
        response: Integrate.Response
        | ComputeGradient.Response
        | Evaluate.Response
        | Committed.Response
        | Retime.Response,
    ) -> Iterator[None]:
        """Count a call, and say in the response whether it succeeded."""
        started = time.perf_counter()
        self.calls += 1
        with self._accounts.guard(service) as outcome:
            yield
        response.success, response.message = outcome.accepted, outcome.reason
        if outcome.accepted:
            self.latency.add(time.perf_counter() - started)
