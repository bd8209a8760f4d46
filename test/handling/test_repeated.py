"""Answers to repeated requests: those of the pipeline, bit for bit, for whatever the same arrays then contain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from questions import NONE, Question, floats, pipeline, pipeline_with, pipelines_and_questions, question

from traj_integrator_ros.engine.buffers import Buffers
from traj_integrator_ros.engine.integrator import StartState, Wanted
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.handling.pipeline import Pipeline
from traj_integrator_ros.handling.rejection import Rejected, RejectionReason
from traj_integrator_ros.handling.repeated import RepeatedAnswer
from traj_integrator_ros.handling.requests import RepeatedFields, SequenceFields, UpstreamFields
from traj_integrator_ros.handling.results import BatchGradient, EvaluatedBatch
from traj_integrator_ros.kernels import Backend, ControlSpace, default_backend

pytestmark = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
)


def no_state() -> int:
    raise AssertionError("no start state is needed")


def no_start() -> StartState:
    raise AssertionError("no start state is needed")


class Service(NamedTuple):
    """What a service does, and how it does it again."""

    answer: Callable[[Pipeline, Question], EvaluatedBatch | BatchGradient]
    prepare: Callable[[Pipeline, Question], RepeatedAnswer | None]


EVALUATE = Service(
    lambda node, question: node.evaluate(question.sequence, question.asked, no_state),
    lambda node, question: node.repeated.evaluation(question.sequence, question.asked, no_start),
)
GRADIENT = Service(
    lambda node, question: node.gradient(question.sequence, question.upstream, no_state),
    lambda node, question: node.repeated.gradient(question.sequence, question.upstream),
)
both = pytest.mark.parametrize("service", [EVALUATE, GRADIENT], ids=["evaluate", "gradient"])


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
        assert prepared.renew(no_start)
        repeated = numbers_of(prepared.answer)
        assert repeated == numbers_of(service.answer(node, asked))
        assert repeated == numbers_of(prepared.answer), "the engine's own memory is another"


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


def test_a_repeated_evaluation_starts_from_where_the_robot_then_is() -> None:
    node = pipeline_with(None)
    asked = question().of(start_position=NONE)
    now = 0

    def measured() -> int:
        nonlocal now
        now += 10**9
        state = np.random.default_rng(now).normal(size=(2, 2))
        node.take_joint_state(node.parameters.joint_names, *state, now, now)
        return now

    prepared = node.repeated.evaluation(asked.sequence, asked.asked, lambda: node.start(measured()))
    answers = []
    for _ in range(3):
        assert prepared.renew(lambda: node.start(measured()))
        answers.append(numbers_of(prepared.answer))
        assert answers[-1] == numbers_of(node.evaluate(asked.sequence, asked.asked, lambda: now))
    assert answers[0] != answers[1] != answers[2]
    # A motion that is continued gives an acceleration, too, for which nothing is prepared.
    assert not prepared.renew(lambda: StartState(*np.zeros((3, 1, 2))))


@given(pipelines_and_questions(ControlSpace))
def test_a_repeated_sequence_is_integrated_like_a_new_one(case: tuple[Pipeline, Question]) -> None:
    node, asked = case
    repeated = RepeatedFields(*asked.sequence)
    for seed in range(4):
        asked.change(seed)
        found, new = node.integrate(repeated, 0), node.integrate(SequenceFields(*asked.sequence), 0)
        assert found.request is repeated.checked
        assert numbers_of(found.trajectories) == numbers_of(new.trajectories)
        np.testing.assert_array_equal(found.times.float32, new.times.float32)


def test_a_repeated_sequence_starts_from_where_the_robot_then_is() -> None:
    node = pipeline_with(None)
    sequence = question().sequence._replace(start_position=NONE)
    repeated = RepeatedFields(*sequence)
    for now in range(1, 5):
        state = np.random.default_rng(now).normal(size=(2, 2))
        node.take_joint_state(node.parameters.joint_names, *state, now, now)
        found = numbers_of(node.integrate(repeated, now).trajectories)
        assert found == numbers_of(node.integrate(sequence, now).trajectories)
    assert repeated.prepared is not None


def test_a_repeated_sequence_is_checked_again_when_the_configuration_changes() -> None:
    repeated = RepeatedFields(*question().sequence)
    for _ in range(3):
        pipeline().integrate(repeated, 0)
    checked = repeated.checked
    with pytest.raises(Rejected, match="batch: expected 1 to 1"):
        pipeline(max_batch=1).integrate(repeated, 0)
    times = pipeline(dt=0.2).integrate(repeated, 0).times
    assert times.float32[1] == np.float32(0.2)
    assert repeated.checked is not checked


def test_a_repeated_sequence_with_joints_in_another_order_is_arranged_each_time() -> None:
    node, asked = pipeline(), question().of(**REORDERED)
    repeated = RepeatedFields(*asked.sequence)
    for seed in range(4):
        asked.change(seed)
        found = numbers_of(node.integrate(repeated, 0).trajectories)
        assert found == numbers_of(node.integrate(asked.sequence, 0).trajectories)


REORDERED = {"joint_names": ("b", "a")}
NOT_PREPARED = {
    "evaluate": {
        "joints in another order": lambda asked: asked.of(**REORDERED),
        "the gradient of the start": lambda asked: asked.asking(wanted=Wanted(start=True)),
        "the gradient of dt": lambda asked: asked.asking(wanted=Wanted(dt=True)),
        "rows": lambda asked: asked.asking(rows=np.array([1], np.uint32)),
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
def test_without_memory_for_the_results_nothing_is_prepared(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> torch.Tensor:
        raise torch.OutOfMemoryError("there is none")

    node, asked = pipeline_with(None), question()
    monkeypatch.setattr(Buffers, "_allocate", none_left)
    assert service.prepare(node, asked) is None
    repeated = RepeatedFields(*asked.sequence)
    with pytest.raises(Rejected, match="out_of_device_memory"):
        node.integrate(repeated, 0)
    monkeypatch.undo()
    assert service.prepare(node, asked) is not None
    node.integrate(repeated, 0)
    assert repeated.prepared is not None


@both
def test_a_result_that_overflows_is_left_to_the_pipeline_which_says_why(service: Service) -> None:
    node, asked = pipeline(), question()
    prepared = service.prepare(node, asked)
    asked.change(1, scale=1e38)
    assert not prepared.renew(no_start)
    with pytest.raises(Rejected) as refused:
        service.answer(node, asked)
    assert refused.value.reason is RejectionReason.NON_FINITE_RESULT
    asked.change(2)
    assert prepared.renew(no_start)
    assert numbers_of(prepared.answer) == numbers_of(service.answer(node, asked))


def test_prepared_answers_do_not_disturb_each_other() -> None:
    node, questions = pipeline(), [question(2, 5), question(2, 5, seed=1), question(3, 4)]
    prepared, expected = [], []
    for asked in questions:
        for service in (EVALUATE, GRADIENT):
            prepared.append(service.prepare(node, asked))
            expected.append(numbers_of(service.answer(node, asked)))
    assert all(one.renew(no_start) for one in prepared)
    assert [numbers_of(one.answer) for one in prepared] == expected
    questions[1].change(2)
    assert prepared[2].renew(no_start) and prepared[3].renew(no_start)
    others = (0, 1, 4, 5)
    assert [numbers_of(prepared[i].answer) for i in others] == [expected[i] for i in others]
    assert numbers_of(prepared[2].answer) != expected[2] and numbers_of(prepared[3].answer) != expected[3]


def test_the_answer_is_that_of_the_engine_for_which_it_was_prepared() -> None:
    asked, nodes = question(), [pipeline(dt=dt) for dt in (0.1, 0.2)]
    prepared = [EVALUATE.prepare(node, asked) for node in nodes]
    assert all(one.renew(no_start) for one in prepared)
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
