"""What may be asked of a pipeline, in all forms, with numbers that can be changed in place."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from traj_integrator_ros.engine.integrator import TrajectoryIntegrator, Wanted
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.handling.engine_configuration import engine_config
from traj_integrator_ros.handling.evaluation import CostFields, EvaluationFields
from traj_integrator_ros.handling.parameters import NodeParameters, default_values
from traj_integrator_ros.handling.pipeline import Pipeline
from traj_integrator_ros.handling.published import PublishedMotion
from traj_integrator_ros.handling.requests import SequenceFields, UpstreamFields
from traj_integrator_ros.kernels import ControlSpace, CostTerm

NONE = np.zeros(0, np.float32)
NO_INDEX = np.zeros(0, np.uint32)
STATE = ("position", "velocity", "acceleration")
LIMIT = 2.0
"""Limits of all joints' velocities, rad/s."""


@cache
def pipeline(dof: int = 2, **parameters: object) -> Pipeline:
    """A pipeline for joints a, b, ... on the CPU."""
    return pipeline_with(None, dof, **parameters)


def pipeline_with(runner: StagedRunner | None, dof: int = 2, **changes: object) -> Pipeline:
    values = default_values() | {"joint_names": [chr(ord("a") + i) for i in range(dof)], "device": "cpu"}
    values |= {"max_batch": 8, "max_horizon": 16, "warmup": ["1x1"], "limits.velocity": [LIMIT] * dof} | changes
    parameters = NodeParameters.from_values(values)
    engine = TrajectoryIntegrator(engine_config(parameters), runner)
    return Pipeline(parameters, engine, PublishedMotion(), lambda _: None)


class Question(NamedTuple):
    """All fields that a request may have."""

    sequence: SequenceFields
    asked: EvaluationFields
    upstream: UpstreamFields

    def of(self, **changes: object) -> Question:
        """The question with another sequence."""
        return self._replace(sequence=self.sequence._replace(**changes))

    def asking(self, **changes: object) -> Question:
        """The question with other wishes for an evaluation."""
        return self._replace(asked=self.asked._replace(**changes))

    @property
    def numbers(self) -> Iterable[np.ndarray]:
        """The arrays that may change."""
        names = ("data", *(f"{end}_{part}" for end in ("start", "goal") for part in STATE))
        yield from (getattr(self.sequence, name) for name in names)
        yield from (values for term in self.asked.cost for values in term[:3])
        yield from self.upstream

    def change(self, seed: int, scale: float = 1.0) -> None:
        """Write other numbers into the arrays."""
        rng = np.random.default_rng(seed)
        for values in self.numbers:
            values[:] = scale * rng.normal(size=values.size)


def floats(*shape: int) -> np.ndarray:
    return np.zeros(int(np.prod(shape)), np.float32)


def question(batch: int = 2, horizon: int = 5, dof: int = 2, seed: int = 0) -> Question:
    """A question about velocities that both services prepare answers to."""
    sequence = SequenceFields(
        (), ControlSpace.VELOCITY, batch, horizon, NONE, floats(dof), NONE, NONE, NO_INDEX, floats(batch, horizon, dof)
    )
    term = CostTerm(floats(dof), floats(horizon, dof), floats(batch, dof), NONE, NONE, NONE)
    cost = CostFields(term, term._replace(limit_weight=floats(dof) + 1), CostTerm(*[NONE] * 6), CostTerm(*[NONE] * 6))
    upstream = UpstreamFields(floats(batch, horizon, dof), NONE, floats(batch, horizon, dof), NONE)
    made = Question(sequence, EvaluationFields(cost, Wanted(), NO_INDEX, 0), upstream)
    made.change(seed)
    return made


class Draw:
    """Draws the forms in which a question may be asked."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.batch, self.horizon, self.dof = self.number(1, 5), self.number(1, 9), self.number(1, 3)
        self.rng = np.random.default_rng(self.number(0, 999))

    def number(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))

    def one_of(self, *choices: object) -> object:
        return self._draw(st.sampled_from(choices))

    def some(self, *shapes: tuple[int, ...]) -> np.ndarray:
        """Numbers in one of some shapes, or none."""
        shape = self.one_of((0,), *shapes)
        return self.rng.normal(size=int(np.prod(shape))).astype(np.float32)

    def end(self, name: str, rows: int) -> dict[str, np.ndarray]:
        """Fields of a start or goal of some rows."""
        pool = rows > 0 and self.one_of(rows not in (1, self.batch), True)
        index = self.rng.integers(0, rows, self.batch).astype(np.uint32) if pool else NO_INDEX
        given = [True, self.one_of(True, False), self.one_of(True, False)]
        states = [floats(rows, self.dof) if part else NONE for part in given]
        return {f"{name}_{part}": values for part, values in zip((*STATE, "index"), (*states, index), strict=True)}

    def steps(self, uniform: bool) -> np.ndarray:
        """Step lengths in any form, of one length where the map needs that."""
        count = self.one_of(0, 1, self.horizon, self.batch * self.horizon)
        steps = self.rng.uniform(0.05, 0.2, count)
        if uniform and count == self.horizon:
            steps[:] = steps[0]
        elif uniform and count > 1:
            steps.reshape(self.batch, -1)[:] = steps.reshape(self.batch, -1)[:, :1]
        return steps.astype(np.float32)

    def term(self, points: int) -> CostTerm:
        """A term of the cost, or none."""
        batch, dof = self.batch, self.dof
        rows = ((dof,), (points, dof), (batch, points, dof))
        weight, terminal = self.some(*rows), self.some((dof,), (batch, dof))
        target = self.some(*rows) if weight.size or terminal.size else NONE
        limits = [NONE] * 3
        if self.one_of(False, True):
            bound = self.rng.random(dof).astype(np.float32)
            limits = [self.rng.random(dof).astype(np.float32), -bound, bound]
        return CostTerm(weight, target, terminal, *limits)


@st.composite
def pipelines_and_questions(draw: st.DrawFn, spaces: Iterable[ControlSpace]) -> tuple[Pipeline, Question]:
    """Questions about costs in all forms to which answers are prepared, with any upstream gradients."""
    any_of = Draw(draw)
    space, is_spline = (found := any_of.one_of(*spaces)), found is ControlSpace.BSPLINE
    difference = any_of.one_of("backward", "central")
    integrator = any_of.one_of("zoh", "semi_implicit_euler")
    node = pipeline(any_of.dof, finite_difference=difference, acceleration_integrator=integrator, dt=0.1)
    degree, steps = (any_of.number(3, 5), any_of.number(2, 4)) if is_spline else (0, 0)
    kernel = node.engine.control_map(space, node.engine.config.spline(degree, steps) if is_spline else None)
    batch, horizon, dof = any_of.batch, any_of.horizon, any_of.dof
    points = kernel.output_horizon(horizon)
    sequence = SequenceFields(
        joint_names=any_of.one_of((), node.parameters.joint_names),
        control_space=space.value,
        batch=batch,
        horizon=horizon,
        dt=any_of.steps(kernel.uniform_dt_only),
        **any_of.end("start", any_of.one_of(1, batch, 4)),
        data=floats(batch, horizon, dof),
        **any_of.end("goal", any_of.one_of(0, 1, batch, 4) if is_spline else 0),
        degree=degree,
        steps=steps,
    )
    cost = CostFields(*(any_of.term(points) for _ in range(4)))
    upstream = UpstreamFields(*(any_of.some((batch, points, dof)) for _ in range(4)))
    wanted = Wanted(action=any_of.one_of(True, False))
    return node, Question(sequence, EvaluationFields(cost, wanted, NO_INDEX, any_of.number(0, 15)), upstream)
