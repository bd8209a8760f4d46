"""The engine gives what the kernels give, keeps its buffers, and refuses what it cannot do."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from engine_cases import KINDS, EngineCase, assert_same, engine_cases, tensors_of
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import MAP

from traj_integrator_ros.engine.integrator import (
    IntegratorConfig,
    OutOfDeviceMemory,
    StartState,
    TrajectoryIntegrator,
    UpstreamGradient,
    Wanted,
    resolve_device,
)
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import MAPS, ControlSpace, CostTerm, QuadraticCost, SplineForm, quadratic_cost

ZEROS = StartState(np.zeros((1, 2)))
EVERYTHING = Wanted(action=True, start=True, goal=True, dt=True)


@MAP
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@settings(max_examples=25)
@given(data=st.data())
def test_calls_give_the_numbers_and_gradients_of_the_public_function(kernel, dtype, data):
    case = data.draw(engine_cases(kernel=kernel))
    engine = case.engine(dtype=str(dtype).removeprefix("torch."))
    expected = case.expected(dtype)
    assert_same(case.run(engine, want_dt=True), expected, exact=False)
    given = case.arguments()
    rows = {"start_rows": len(given.pop("start").position)}
    if "goal" in given:
        rows["goal_rows"] = len(given.pop("goal").position)
    given["batch"], given["action_horizon"], _ = given.pop("actions").shape
    linear = engine.vjp_arrays(None, case.upstream(), **given, **rows)  # needs no actions and no rows
    assert linear.dt is None
    assert_same(tensors_of(linear), [*expected[4:8], *expected[9:]], exact=False)


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
@settings(max_examples=25)
@given(data=st.data())
def test_costs_and_gradients_are_those_of_the_public_function(kernel, data):
    case = data.draw(engine_cases(kernel=kernel))
    runner = StagedRunner(torch.device("cpu"), torch.float64, max_graphs=0)
    engine = case.engine(data.draw(st.sampled_from((None, runner)), "runner"), dtype="float64")
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
    if data.draw(st.booleans(), "in parts"):
        engine._sizes._fitting["evaluate", engine.control_map().name, case.horizon] = 2
    for wanted in (EVERYTHING, Wanted(start=True, goal=True), Wanted(), Wanted(action=False)):
        arguments = case.arguments()
        got = engine.evaluate(arguments.pop("start"), arguments.pop("actions"), cost, wanted=wanted, **arguments)
        np.testing.assert_allclose(got.cost, expected.detach().numpy(), rtol=1e-11)
        answers = {"action": got.action, "dt": got.dt}
        answers |= {f"start_{kind}": x for kind, x in zip(KINDS, got.start or (), strict=False)}
        answers |= {f"goal_{kind}": x for kind, x in zip(KINDS, got.goal or (), strict=False)}
        answers = {name: value for name, value in answers.items() if value is not None}
        assert set(answers) == {name for name in found if getattr(wanted, name.split("_")[0])}
        for name, value in answers.items():
            right = found[name].numpy()
            atol = 1e-9 * (1 + np.abs(right).max())
            np.testing.assert_allclose(value.reshape(right.shape), right, rtol=1e-9, atol=atol, err_msg=name)


@pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
def test_a_spline_of_its_own_form_is_that_of_an_engine_with_this_form(staged):
    case = EngineCase(MAPS["bspline_tight"], batch=4, goal="pool")
    runner = StagedRunner(torch.device("cpu"), torch.float32, max_graphs=0) if staged else None
    configured = {"bspline_degree": 5, "bspline_steps": 3, "bspline_layout": "curobo"}
    results = []
    for engine, form in (
        (case.engine(runner), SplineForm(5, 3, "curobo")),
        (TrajectoryIntegrator(dataclasses.replace(case.config(), **configured)), None),
    ):
        given = case.arguments()
        outputs = engine.integrate_array(**given, spline=form).copy()
        start, cost = given.pop("start"), QuadraticCost(CostTerm(weight=np.ones(case.dof)))
        gradient = engine.vjp_arrays(start, UpstreamGradient(*outputs), **given, spline=form, want_dt=True)
        evaluated = engine.evaluate(start, cost=cost, **given, spline=form)
        costs = [torch.tensor(values).double() for values in (evaluated.cost, evaluated.action)]
        results.append([torch.tensor(outputs), *tensors_of(gradient), *costs])
    assert_same(*results, exact=False)


def test_the_vjp_of_no_upstream_gradient_is_zero():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2))
    gradient = engine.vjp_arrays(StartState(np.zeros((3, 2))), UpstreamGradient(), batch=3, action_horizon=4)
    assert gradient.action.shape == (3, 4, 2) and gradient.start_velocity.shape == (3, 2)
    assert not gradient.values.any()


@pytest.mark.parametrize(
    "dt", [None, 0.1, np.float32(0.1), [0.1], np.full(5, 0.1), np.full((2, 1), 0.1), np.full((2, 5), 0.1)]
)
def test_the_gradient_of_dt_has_the_shape_that_dt_had(dt):
    engine = TrajectoryIntegrator(IntegratorConfig(dof=3, dt=0.1, control_space=ControlSpace.JERK, dtype="float64"))
    given = {"actions": np.random.default_rng(0).standard_normal((2, 5, 3)), "want_dt": True}
    start, upstream = StartState(np.ones((1, 3))), UpstreamGradient(position=np.ones((2, 5, 3)))
    gradient = engine.vjp_arrays(start, upstream, dt=dt, **given).dt
    assert gradient.shape == np.shape(dt)
    assert gradient.sum() == pytest.approx(float(engine.vjp_arrays(start, upstream, dt=0.1, **given).dt))


def test_with_changes_keeps_the_buffers_of_the_same_device_and_dtype():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2, device="cpu"))
    address = engine.integrate_array(ZEROS, np.zeros((4, 5, 2))).ctypes.data
    changed = engine.with_changes(dt=0.5, control_space=ControlSpace.VELOCITY)
    assert changed.config.dt == 0.5
    assert changed.integrate_array(ZEROS, np.zeros((4, 5, 2))).ctypes.data == address
    assert engine.with_changes(dtype="float64").integrate_array(ZEROS, np.zeros((4, 5, 2))).dtype == np.float64


def test_read_only_input_is_accepted(recwarn):
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2))
    actions = np.frombuffer(np.arange(8, dtype=np.float32).tobytes(), np.float32).reshape(1, 4, 2)
    assert engine.integrate_array(ZEROS, actions)[0, 0, 1].tolist() == [0.0, 1.0]
    assert not recwarn


def test_a_batch_beyond_memory_raises_and_the_engine_continues():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2, max_batch=10**8, max_horizon=10**6, device="cpu"))
    enormous = torch.zeros(1).expand(10**8, 10**5, 2)  # 80 TB once it is copied
    with pytest.raises(OutOfDeviceMemory, match="out of memory on cpu"):
        engine.integrate_array(ZEROS, enormous)
    assert engine.integrate_array(ZEROS, np.ones((2, 3, 2)))[0, 0, 1].tolist() == [1.0] * 2


@pytest.mark.parametrize(
    ("finite_difference", "dt", "expected"),
    [
        ("backward", None, [0.0, 0.02, 0.04]),
        ("backward", 0.1, [0.0, 0.1, 0.2]),
        ("backward", [0.5, 0.1, 0.2], [0.0, 0.1, 0.3]),
        ("backward", [[0.1], [0.2]], [[0.0, 0.1, 0.2], [0.0, 0.2, 0.4]]),
        ("central", 0.1, [-0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
    ],
)
def test_time_from_start_counts_from_the_start_state(finite_difference, dt, expected):
    engine = TrajectoryIntegrator(IntegratorConfig(dof=1, finite_difference=finite_difference))
    time = engine.time_from_start(dt, batch=2, action_horizon=3)
    np.testing.assert_allclose(time, expected, atol=1e-15)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": (2, 3)}, r"actions: expected shape \[batch, horizon, dof = 2\], got \[2, 3\]"),
        ({"actions": (2, 3, 5)}, r"actions: .*dof = 2\], got \[2, 3, 5\]"),
        ({"actions": (0, 3, 2)}, "actions: expected 1 to 8 trajectories, got 0"),
        ({"actions": (9, 3, 2)}, "actions: expected 1 to 8 trajectories, got 9"),
        ({"actions": (1, 17, 2)}, "actions: expected 1 to 16 steps, got 17"),
        ({"dt": -0.1}, "dt: expected finite numbers .*got -0.1"),
        ({"dt": 0.0}, "dt: expected finite numbers .*got 0.0"),
        ({"dt": np.nan}, "dt: expected finite numbers .*got nan"),
        ({"dt": np.inf}, "dt: expected finite numbers .*got inf"),
        ({"dt": np.ones(4)}, r"dt: expected a number.*got shape \[4\]"),
        ({"dt": [0.1, 0.1, 0.2], "finite_difference": "central"}, "dt: central differences need one step length"),
        ({"start": [(3, 2)]}, "start.position: expected 1 or 2 rows"),
        ({"start": [(1, 2), (1, 3)]}, r"start.velocity: expected shape \[1, dof = 2\], got \[1, 3\]"),
        ({"start_index": [0, 1]}, "start_index: expected rows 0 to 0, got 0 to 1"),
        ({"start_index": [-1, 0]}, "start_index: expected rows 0 to 0, got -1 to 0"),
        ({"start_index": [0]}, r"start_index: expected shape \[2\]"),
        (
            {"goal": [(1, 2)], "control_space": ControlSpace.VELOCITY},
            "goal: expected None, .* map velocity takes no goal$",
        ),
        ({"goal": [(1, 2)] * 2}, "goal.velocity: expected None, .* map clique takes a position only$"),
        (
            {"goal": [(3, 2)], "control_space": ControlSpace.BSPLINE},
            "goal.position: expected 1 or 2 rows .*goal_index, got 3",
        ),
    ],
)
def test_misuse_is_named(changes, message):
    arrays = {"start": [(1, 2)], "actions": (2, 3, 2), "goal": None, **changes}
    fields = {name: arrays.pop(name) for name in ("finite_difference", "control_space") if name in arrays}
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2, max_batch=8, max_horizon=16, **fields))
    for name in ("start", "goal"):
        arrays[name] = arrays[name] and StartState(*(np.zeros(shape) for shape in arrays[name]))
    with pytest.raises(ValueError, match=message):
        engine.integrate_array(**{**arrays, "actions": np.zeros(arrays["actions"])})


@pytest.mark.parametrize(
    ("upstream", "arguments", "message"),
    [
        (None, {"batch": 1}, "batch, action_horizon: expected both"),
        (None, {"batch": 1, "action_horizon": 2, "want_dt": True}, "actions: the gradient of dt"),
        ((1, 2, 2), {"batch": 1, "action_horizon": 3}, r"upstream.jerk: expected shape \[1, 3, 2\], got \[1, 2, 2\]"),
    ],
)
def test_misuse_of_gradients_is_named(upstream, arguments, message):
    given = UpstreamGradient(jerk=None if upstream is None else np.zeros(upstream))
    with pytest.raises(ValueError, match=message):
        TrajectoryIntegrator(IntegratorConfig(dof=2)).vjp_arrays(ZEROS, given, **arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dt": 0.0}, "dt: expected a finite number of seconds > 0, got 0.0"),
        ({"dtype": "float16"}, "dtype: expected one of float32, float64, got 'float16'"),
        ({"max_batch": 0}, "max_batch: expected at least 1, got 0"),
        ({"device": "tpu"}, "device: expected auto, cpu, cuda or cuda:N, got 'tpu'"),
        ({"device": "cuda:99"}, "device: got 'cuda:99', but torch .* sees . CUDA devices"),
        ({"finite_difference": "forward"}, "'forward' is not a valid FiniteDifference"),
        ({"bspline_degree": 7}, "^bspline_degree: expected 3, 4 or 5, got 7"),
    ],
)
def test_a_wrong_configuration_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        TrajectoryIntegrator(IntegratorConfig(dof=2)).with_changes(**changes)


def test_costs_of_arrays_that_do_not_fit_are_an_error():
    cost = QuadraticCost(CostTerm(np.ones(3)))
    with pytest.raises(ValueError, match="arrays: expected real numbers in shapes that belong together"):
        TrajectoryIntegrator(IntegratorConfig(dof=2)).evaluate(ZEROS, np.zeros((1, 2, 2)), cost, 0.1)


def test_auto_takes_cuda_where_there_is_one():
    assert resolve_device("auto").type == ("cuda" if torch.cuda.device_count() else "cpu")


def test_warm_up_and_close_leave_the_engine_usable():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2))
    engine.warm_up([(1, 8), (4, 8)])
    engine.close()
    assert engine.integrate_array(ZEROS, np.ones((1, 2, 2))).shape == (4, 1, 2, 2)
