"""Answers to repeated requests: those of the pipeline, bit for bit, for whatever the same arrays then contain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from traj_integrator_ros.engine.integrator import TrajectoryIntegrator, Wanted
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.handling.engine_configuration import engine_config
from traj_integrator_ros.handling.evaluation import CostFields, EvaluationFields
from traj_integrator_ros.handling.parameters import NodeParameters, default_values
from traj_integrator_ros.handling.pipeline import Pipeline
from traj_integrator_ros.handling.published import PublishedMotion
from traj_integrator_ros.handling.rejection import Rejected, RejectionReason
from traj_integrator_ros.handling.repeated import RepeatedAnswer
from traj_integrator_ros.handling.requests import SequenceFields, UpstreamFields
from traj_integrator_ros.handling.results import BatchGradient, EvaluatedBatch
from traj_integrator_ros.kernels import Backend, ControlSpace, CostTerm, default_backend

pytestmark = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
)
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


def no_state() -> int:
    raise AssertionError("no start state is needed")


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


class Service(NamedTuple):
    """What a service does, and how it does it again."""

    answer: Callable[[Pipeline, Question], EvaluatedBatch | BatchGradient]
    prepare: Callable[[Pipeline, Question], RepeatedAnswer | None]


EVALUATE = Service(
    lambda node, question: node.evaluate(question.sequence, question.asked, no_state),
    lambda node, question: node.repeated.evaluation(question.sequence, question.asked),
)
GRADIENT = Service(
    lambda node, question: node.gradient(question.sequence, question.upstream, no_state),
    lambda node, question: node.repeated.gradient(question.sequence, question.upstream),
)
both = pytest.mark.parametrize("service", [EVALUATE, GRADIENT], ids=["evaluate", "gradient"])


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


def numbers_of(answer: object) -> list[tuple[tuple[int, ...], bytes]]:
    """Shapes and bits of all arrays of an answer."""
    if isinstance(answer, np.ndarray):
        return [(answer.shape, answer.astype(np.float32, copy=False).tobytes())] if answer.size else [((0,), b"")]
    return [one for part in answer or () for one in numbers_of(part)]


def assert_repeats(node: Pipeline, service: Service, asked: Question, seeds: Iterable[int]) -> None:
    """An answer that is prepared now is that of the pipeline for the numbers of some seeds."""
    prepared = service.prepare(node, asked)
    assert prepared is not None
    for seed in seeds:
        asked.change(seed)
        assert prepared.renew()
        repeated = numbers_of(prepared.answer)
        assert repeated == numbers_of(service.answer(node, asked))
        assert repeated == numbers_of(prepared.answer), "the engine's own memory is another"


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
    return node, Question(sequence, EvaluationFields(cost, Wanted(), NO_INDEX, any_of.number(0, 15)), upstream)


@given(pipelines_and_questions(ControlSpace))
def test_a_repeated_evaluation_is_that_of_the_pipeline(case: tuple[Pipeline, Question]) -> None:
    assert_repeats(case[0], EVALUATE, case[1], range(3))


@given(pipelines_and_questions(set(ControlSpace) - {ControlSpace.BSPLINE}), st.booleans())
def test_a_repeated_gradient_is_that_of_the_pipeline(case: tuple[Pipeline, Question], has_data: bool) -> None:
    node, asked = case
    if not any(values.size for values in asked.upstream):
        points = node.engine.output_horizon(asked.sequence.horizon, ControlSpace(asked.sequence.control_space))
        asked = asked._replace(
            upstream=UpstreamFields(NONE, floats(asked.sequence.batch, points, node.engine.config.dof), NONE, NONE)
        )
    assert_repeats(node, GRADIENT, asked.of(dt=NONE) if has_data else asked.of(data=NONE), range(3))


REORDERED = {"joint_names": ("b", "a")}
NOT_PREPARED = {
    "evaluate": {
        "joints in another order": lambda asked: asked.of(**REORDERED),
        "no gradient": lambda asked: asked.asking(wanted=Wanted(action=False)),
        "the gradient of the start": lambda asked: asked.asking(wanted=Wanted(start=True)),
        "the gradient of dt": lambda asked: asked.asking(wanted=Wanted(dt=True)),
        "rows": lambda asked: asked.asking(rows=np.array([1], np.uint32)),
        "no start": lambda asked: asked.of(start_position=NONE),
        "a goal that replaces actions": lambda asked: asked.of(
            control_space=ControlSpace.POSITION, goal_position=floats(2)
        ),
    },
    "gradient": {
        "joints in another order": lambda asked: asked.of(**REORDERED),
        "data with dt": lambda asked: asked.of(dt=floats(1) + 0.1),
        "a goal": lambda asked: asked.of(control_space=ControlSpace.POSITION, goal_position=floats(2)),
        "a spline": lambda asked: asked.of(control_space=ControlSpace.BSPLINE)._replace(
            upstream=UpstreamFields(floats(2, 33, 2), NONE, NONE, NONE)
        ),
        "no upstream gradient": lambda asked: asked._replace(upstream=UpstreamFields(NONE, NONE, NONE, NONE)),
    },
}


@pytest.mark.parametrize(
    ("service", "change"),
    [
        pytest.param(service, change, id=f"{name} with {what}")
        for (name, changes), service in zip(NOT_PREPARED.items(), (EVALUATE, GRADIENT), strict=True)
        for what, change in changes.items()
    ],
)
def test_what_needs_more_than_the_loops_is_not_prepared(
    service: Service, change: Callable[[Question], Question]
) -> None:
    node, asked = pipeline(), question()
    assert service.prepare(node, asked) is not None
    assert service.prepare(node, change(asked)) is None
    if service is EVALUATE and not change(asked).sequence.start_position.size:
        return
    service.answer(node, change(asked))  # which is not refused


@both
def test_an_engine_in_float64_prepares_nothing(service: Service) -> None:
    assert service.prepare(pipeline(dtype="float64"), question()) is None


@both
@pytest.mark.parametrize("built", [True, False], ids=["", "not built"])
def test_without_the_kernels_nothing_is_prepared(service: Service, built: bool) -> None:
    staged = StagedRunner(torch.device("cpu"), torch.float32, max_graphs=0)
    node = pipeline_with(None if built else staged)
    assert (service.prepare(node, question()) is not None) is built


@both
def test_a_result_that_overflows_is_left_to_the_pipeline_which_says_why(service: Service) -> None:
    node, asked = pipeline(), question()
    prepared = service.prepare(node, asked)
    asked.change(1, scale=1e38)
    assert not prepared.renew()
    with pytest.raises(Rejected) as refused:
        service.answer(node, asked)
    assert refused.value.reason is RejectionReason.NON_FINITE_RESULT
    asked.change(2)
    assert prepared.renew()
    assert numbers_of(prepared.answer) == numbers_of(service.answer(node, asked))


def test_prepared_answers_do_not_disturb_each_other() -> None:
    node, questions = pipeline(), [question(2, 5), question(2, 5, seed=1), question(3, 4)]
    prepared, expected = [], []
    for asked in questions:
        for service in (EVALUATE, GRADIENT):
            prepared.append(service.prepare(node, asked))
            expected.append(numbers_of(service.answer(node, asked)))
    assert all(one.renew() for one in prepared)
    assert [numbers_of(one.answer) for one in prepared] == expected
    questions[1].change(2)
    assert prepared[2].renew() and prepared[3].renew()
    others = (0, 1, 4, 5)
    assert [numbers_of(prepared[i].answer) for i in others] == [expected[i] for i in others]
    assert numbers_of(prepared[2].answer) != expected[2] and numbers_of(prepared[3].answer) != expected[3]


def test_the_answer_is_that_of_the_engine_for_which_it_was_prepared() -> None:
    asked, nodes = question(), [pipeline(dt=dt) for dt in (0.1, 0.2)]
    prepared = [EVALUATE.prepare(node, asked) for node in nodes]
    assert all(one.renew() for one in prepared)
    found = [numbers_of(one.answer) for one in prepared]
    assert found == [numbers_of(EVALUATE.answer(node, asked)) for node in nodes]
    assert found[0] != found[1]


def weighted(asked: Question, **changes: object) -> Question:
    """The question with another term for velocities."""
    cost = asked.asked.cost
    return asked.asking(cost=cost._replace(velocity=cost.velocity._replace(**changes)))


NAN = np.full(2, np.nan, np.float32)
REFUSED = {
    "invalid_control_space": lambda asked: asked.of(control_space=9),
    "unknown_joint": lambda asked: asked.of(joint_names=("a", "z")),
    "size_out_of_range": lambda asked: asked.of(batch=9),
    "invalid_dt": lambda asked: asked.of(dt=-1 - floats(1)),
    "size_mismatch": lambda asked: asked.of(data=floats(3)),
    "start_index_out_of_range": lambda asked: asked.of(start_index=np.array([0, 1], np.uint32)),
    "goal_not_supported": lambda asked: asked.of(goal_position=floats(2)),
    "invalid_spline": lambda asked: asked.of(degree=3),
    "not_finite": lambda asked: asked.of(start_position=NAN),
}
REFUSED_EVALUATIONS = {
    "size_mismatch": lambda asked: weighted(asked, weight=floats(3)),
    "not_finite": lambda asked: weighted(asked, target=NAN),
    "invalid_cost": lambda asked: weighted(asked, limit_weight=NONE, lower=-1 - floats(2)),
    "row_out_of_range": lambda asked: asked.asking(rows=np.array([2], np.uint32)),
    "invalid_fields": lambda asked: asked.asking(fields=16),
}
REFUSED_GRADIENTS = {
    "gradient_length": lambda asked: asked._replace(upstream=asked.upstream._replace(grad_jerk=floats(3))),
    "not_finite": lambda asked: asked._replace(upstream=asked.upstream._replace(grad_position=np.repeat(NAN, 10))),
}


@pytest.mark.parametrize(
    ("service", "reason", "change"),
    [
        pytest.param(service, reason, change, id=f"{name}, {reason}")
        for name, service, own in (
            ("evaluate", EVALUATE, REFUSED_EVALUATIONS),
            ("gradient", GRADIENT, REFUSED_GRADIENTS),
        )
        for reason, change in (*REFUSED.items(), *own.items())
    ],
)
def test_what_the_pipeline_refuses_is_refused_for_the_same_reason(
    service: Service, reason: str, change: Callable[[Question], Question]
) -> None:
    node, asked = pipeline(), change(question())
    said = []
    for act in service:
        with pytest.raises(Rejected) as refused:
            act(node, asked)
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert said[0].startswith(f"{reason}: ")
