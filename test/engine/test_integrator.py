"""The engine gives the kernels' results, keeps its buffers, and refuses calls that it cannot compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_cases import KINDS, assert_same, engine_cases, tensors_of
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import MAP

from traj_integrator_ros.engine.call import Call, Wanted, call_of, ends_of, step_lengths, time_from_start
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.engine.runners import OutOfDeviceMemory, resolve_device
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import MAPS, CostTerm, QuadraticCost, quadratic_cost

EVERYTHING = Wanted(action=True, start=True, goal=True, dt=True)


@MAP
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@settings(max_examples=10)
@given(data=st.data())
def test_calls_give_the_numbers_and_gradients_of_the_public_function(kernel, dtype, data):
    case = data.draw(engine_cases(kernel=kernel))
    engine = TrajectoryIntegrator("cpu", str(dtype).removeprefix("torch."))
    expected = case.expected(dtype)
    assert_same(case.run(engine, want_dt=True), expected)
    call = case.call()._replace(actions=None, upstream=case.upstream())
    start, goal = call.start._replace(rows=()), call.goal._replace(rows=())
    linear = engine.vjp(call._replace(start=start, goal=goal))  # the vjp needs neither actions nor rows
    assert linear.dt is None
    assert_same(tensors_of(linear), [*expected[4:8], *expected[9:]])


def cost_of(batch: int, horizon: int, dof: int, duration: object) -> QuadraticCost:
    rng = np.random.default_rng(7)
    bound = rng.random(dof)
    return QuadraticCost(
        CostTerm(rng.random((batch, horizon, dof)), rng.normal(size=(horizon, dof)), rng.random((batch, dof))),
        CostTerm(rng.random(dof), rng.normal(size=(batch, horizon, dof))),
        CostTerm(limit_weight=rng.random(dof), lower=-bound, upper=bound),
        CostTerm(weight=1e-3 * rng.random((horizon, dof))),
        duration_weight=duration,
    )


@MAP
@settings(max_examples=10)
@given(data=st.data())
def test_costs_and_gradients_are_those_of_the_public_function(kernel, data):
    case = data.draw(engine_cases(kernel=kernel))
    runner = StagedRunner(torch.device("cpu"), torch.float64, max_graphs=0)
    engine = TrajectoryIntegrator("cpu", "float64", runner=data.draw(st.sampled_from((None, runner)), "runner"))
    duration = np.linspace(0.0, 1.0, case.batch) if data.draw(st.booleans(), "a weight for each") else 0.7
    cost = cost_of(case.batch, kernel.output_horizon(case.horizon), case.dof, duration)
    leaves = case.leaves()
    terms = QuadraticCost(
        *(CostTerm(*(x if x is None else torch.tensor(x) for x in term)) for term in cost.outputs),
        duration_weight=torch.as_tensor(cost.duration_weight, dtype=torch.float64),
    )
    expected = quadratic_cost(**leaves, cost=terms, control_map=kernel, **case.indices)
    found = torch.autograd.grad(expected.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True)
    found = dict(zip(leaves, found, strict=True))
    for wanted in (EVERYTHING, Wanted(start=True, goal=True), Wanted(), Wanted(action=False)):
        costs, got = engine.evaluate(case.call(), cost, wanted)
        np.testing.assert_allclose(costs, expected.detach().numpy(), rtol=1e-11)
        answers = {"action": got.action, "dt": got.dt}
        answers |= {f"start_{kind}": x for kind, x in zip(KINDS, got.start or (), strict=False)}
        answers |= {f"goal_{kind}": x for kind, x in zip(KINDS, got.goal or (), strict=False)}
        answers = {name: value for name, value in answers.items() if value is not None}
        assert set(answers) == {name for name in found if getattr(wanted, name.split("_")[0])}
        for name, value in answers.items():
            right = found[name].numpy()
            atol = 1e-9 * (1 + np.abs(right).max())
            np.testing.assert_allclose(value.reshape(right.shape), right, rtol=1e-9, atol=atol, err_msg=name)


def ones(*shape: int, start: int = 1, kernel: str = "clique", dt: object = 0.02, **fields: object) -> Call:
    """A call with actions of 1 from rest."""
    rest = ends_of((np.zeros((start, shape[-1])), None, None))
    return call_of(MAPS[kernel], np.ones(shape), dt, rest)._replace(**fields)


def test_read_only_input_is_accepted(recwarn):
    actions = np.frombuffer(np.arange(8, dtype=np.float32).tobytes(), np.float32).reshape(1, 4, 2)
    assert TrajectoryIntegrator().integrate(ones(1, 4, 2, actions=actions))[0, 0, 1].tolist() == [0.0, 1.0]
    assert not recwarn


def test_a_batch_beyond_memory_raises_and_the_engine_continues():
    engine = TrajectoryIntegrator("cpu")
    enormous = torch.zeros(1).expand(10**8, 10**5, 2)  # 80 TB as a copy
    with pytest.raises(OutOfDeviceMemory, match="out of memory on cpu"):
        engine.integrate(call_of(MAPS["clique"], enormous, 0.1, ends_of((np.zeros((1, 2)), None, None))))
    assert engine.integrate(ones(2, 3, 2))[0, 0, 1].tolist() == [1.0] * 2


@pytest.mark.parametrize(
    ("kernel", "dt", "expected"),
    [
        ("clique", 0.1, [0.0, 0.1, 0.2]),
        ("clique", np.array([0.5, 0.1, 0.2]), [0.0, 0.1, 0.3]),
        ("clique", np.array([[0.1], [0.2]]), [[0.0, 0.1, 0.2], [0.0, 0.2, 0.4]]),
        ("clique_central", 0.1, [-0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
    ],
)
def test_time_from_start_counts_from_the_start_state(kernel, dt, expected):
    time = time_from_start(MAPS[kernel], step_lengths(dt), action_horizon=3)
    np.testing.assert_allclose(time, expected, atol=1e-15)


@pytest.mark.parametrize(
    "changes",
    [
        {"actions": np.ones((2, 3, 3))},
        {"dt": np.ones((1, 4))},
        {"start": ends_of((np.zeros((1, 2)), None, None), [-1, 0])},
        {"upstream": (np.ones((2, 4, 2)), None, None, None)},
        {"cost": QuadraticCost(CostTerm(np.ones(3)))},
    ],
)
def test_arrays_that_do_not_fit_together_are_an_error(changes):
    engine, call = TrajectoryIntegrator("cpu"), ones(2, 3, 2)
    with pytest.raises(ValueError, match="arrays: expected real numbers in shapes that belong together"):
        if "cost" in changes:
            engine.evaluate(call, **changes)
        else:
            (engine.vjp if "upstream" in changes else engine.integrate)(call._replace(**changes))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tpu", "device: expected auto, cpu, cuda or cuda:N, got 'tpu'"),
        ("cuda:99", "device: got 'cuda:99', but torch .* sees . CUDA devices"),
    ],
)
def test_a_device_that_does_not_exist_is_named(name, message):
    with pytest.raises(ValueError, match=message):
        TrajectoryIntegrator(name)
    assert resolve_device("auto") == torch.device("cpu")


def test_warm_up_and_close_leave_the_engine_usable():
    engine = TrajectoryIntegrator()
    engine.warm_up(MAPS["clique"], 2, [(1, 8), (4, 8)])
    engine.close()
    assert engine.integrate(ones(1, 2, 2)).shape == (4, 1, 2, 2)
