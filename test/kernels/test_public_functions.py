"""Every public function under everything that torch does to functions: one table, and one test for each transform."""

from __future__ import annotations

import copy
import inspect
import io
import itertools
import pickle
import subprocess
import sys
from collections.abc import Container, Iterable
from dataclasses import replace

import pytest
import torch
from operator_cases import MAP, SIGNATURE, SIGNATURES, assert_all_close, cost, signature_case
from torch.utils._python_dispatch import TorchDispatchMode

from traj_integrator_ros import kernels
from traj_integrator_ros.kernels import MAPS, CostTerm, QuadraticCost, Trajectory

BATCH, HORIZON, DOF = 3, 5, 2
COST = QuadraticCost(
    position=CostTerm(weight=1.0, terminal_weight=2.0, target=0.3), velocity=CostTerm(limit_weight=1.0, upper=0.1)
)

LIMITS = QuadraticCost(*[CostTerm(lower=-0.5, upper=0.4)] * 4)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Call(torch.nn.Module):
    """A public function of tensors with its options; a user's policy ends in one."""

    def __init__(self, function, **options):
        super().__init__()
        self.function = function
        self.options = options

    def forward(self, *tensors):
        return self.function(*tensors, **self.options)


def violations(*outputs, cost):
    return kernels.limit_violations(Trajectory(*outputs), cost)


def vjp(upstream, *, of, **options):
    return of.vjp((upstream, None, None, None), **options)


ACTION, P0, V0 = normal(BATCH, HORIZON, DOF), normal(BATCH, DOF, seed=1), normal(BATCH, DOF, seed=2)
ROWS = normal(BATCH, (HORIZON + 3) * 4 + 1, DOF, seed=3)
GOAL = {"goal_position": normal(1, DOF, seed=4)}
TABLE: dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...]]] = {
    **{
        f"{name}_step": (Call(getattr(kernels, f"{name}_step"), dt=0.1), (ACTION, P0, V0))
        for name in ("clique", "clique_central", "velocity", "acceleration", "jerk", "bspline")
    },
    "evaluate_bspline": (Call(kernels.evaluate_bspline, dt=0.1, times=[0.05, 0.31]), (ACTION, P0, V0)),
    "fit_bspline": (Call(kernels.fit_bspline, dt=0.1, **GOAL), (ROWS, P0, V0)),
    "differentiate_positions": (
        Call(kernels.differentiate_positions),
        (ACTION, torch.arange(HORIZON).double() ** 1.1, V0),
    ),
    "limit_violations": (
        Call(violations, cost=LIMITS),
        tuple(normal(BATCH, HORIZON, DOF, seed=k) for k in range(4)),
    ),
    "quadratic_cost": (Call(kernels.quadratic_cost, cost=COST, control_map=MAPS["clique"], dt=0.1), (ACTION, P0, V0)),
    "ControlMap.vjp": (
        Call(vjp, of=replace(MAPS["clique"], name="own"), dt=0.1, action_horizon=HORIZON, start_rows=BATCH),
        (ACTION,),
    ),
}
WITHOUT_TENSORS = {"backend_info", "control_map", "default_backend"}
EACH = pytest.mark.parametrize(("call", "inputs"), TABLE.values(), ids=TABLE)
# Slow checks take one step of each signature.
TRACED = {
    **{name: (Call(MAPS[name].step, dt=0.1), (ACTION, P0, V0)) for name in SIGNATURES},
    "truncated": (Call(kernels.clique_central_step, dt=0.1, truncate_terminal_gradient=True), (ACTION, P0, V0)),
    "a goal": (Call(kernels.bspline_step, dt=0.1, **GOAL), (ACTION, P0, V0)),
    **{name: row for name, row in TABLE.items() if not name.endswith("_step")},
}


def counting(backend: str):
    """A compiler that counts the graphs it compiles."""
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    return CompileCounterWithBackend(backend)


def tensors(result) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if leaf is not None]


def same(got, expected) -> None:
    assert_all_close(tensors(got), tensors(expected))


def test_the_table_has_every_public_function():
    functions = {name for name in kernels.__all__ if inspect.isfunction(getattr(kernels, name))}
    assert functions == {name for name in TABLE if "." not in name} | WITHOUT_TENSORS


QUICK = {"quadratic_cost", "ControlMap.vjp", *SIGNATURES}
"""What is exported in every run: each kind of operator. Of `SIGNATURES`, the first is compiled as well."""
COMPILED = ("quadratic_cost", "ControlMap.vjp", SIGNATURES[0])


def traced(names: Iterable[str], quick: Container[str] = QUICK) -> list[object]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.thorough) for name in names]


@pytest.mark.parametrize("name", traced(TRACED, COMPILED))
def test_compiles_as_one_graph_with_its_gradients_and_once_for_two_batches(name):
    call, inputs = TRACED[name]
    torch._dynamo.reset()
    leaves = [x.clone().requires_grad_() for x in inputs]
    got, expected = tensors(torch.compile(call, fullgraph=True, backend="aot_eager")(*leaves)), tensors(call(*leaves))
    same(got, expected)
    same(torch.autograd.grad(got[0].sum(), leaves[0]), torch.autograd.grad(expected[0].sum(), leaves[0]))
    if call.function is vjp:
        call = Call(vjp, **{**call.options, "start_rows": 1})
    graphs = counting("eager")
    compiled = torch.compile(call, fullgraph=True, backend=graphs, dynamic=True)
    for batch in (3, 4):
        larger = [x.repeat(2, *[1] * (x.dim() - 1))[:batch] if x.shape[0] == BATCH else x for x in inputs]
        same(compiled(*larger), call(*larger))
    assert graphs.frame_count == 1


# One case of each place where the number becomes a tensor.
@pytest.mark.parametrize("name", traced([*COMPILED, "fit_bspline"], COMPILED))
def test_a_number_for_dt_that_changes_compiles_twice_at_most(name):
    call, inputs = TRACED[name]

    def function(dt, *inputs):
        return call.function(*inputs, **{**call.options, "dt": dt})

    graphs = counting("eager")
    compiled = torch.compile(function, fullgraph=True, backend=graphs)
    for dt in (0.02, 0.03, 0.05):
        same(compiled(dt, *inputs), function(dt, *inputs))
    assert graphs.frame_count <= 2


WITH_STARTS = {name: row for name, row in TRACED.items() if len(row[1]) == 3 and "differentiate" not in name}


@pytest.mark.parametrize(("call", "inputs"), WITH_STARTS.values(), ids=WITH_STARTS)
@pytest.mark.parametrize("flat", [(1,), (2,), (1, 2)])
def test_a_start_or_goal_without_a_batch_is_that_of_all_trajectories(call, inputs, flat):
    """Rows with a batch beside them keep it; gradients are those of the rows repeated for each trajectory."""
    goal = {name: value[0] for name, value in call.options.items() if name in GOAL}
    leaves = [value[0].clone().requires_grad_() if k in flat else value for k, value in enumerate(inputs)]
    spread = [value.expand(BATCH, DOF) if k in flat else value for k, value in enumerate(leaves)]
    got, expected = (tensors(call.function(*given, **call.options | goal)) for given in (leaves, spread))
    same(got, expected)
    wanted = [leaves[k] for k in flat]
    same(torch.autograd.grad(got[0].sum(), wanted), torch.autograd.grad(expected[0].sum(), wanted))


@MAP
def test_one_row_beside_a_pool_is_that_of_the_whole_pool(kernel):
    pool, index = normal(4, DOF), torch.tensor([3, 0, 1])
    for row in (V0[0], V0[:1]):
        got = kernel.step(ACTION, pool, row, start_index=index, dt=0.1)
        same(got, kernel.step(ACTION, pool, row.expand(4, DOF), start_index=index, dt=0.1))


def test_a_trajectory_is_saved_moved_and_taken_apart():
    leaf = normal(BATCH, HORIZON, DOF).requires_grad_()
    motion = kernels.clique_step(leaf, P0, dt=0.1)
    file = io.BytesIO()
    torch.save({"motion": motion.detach()}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)["motion"]
    assert type(loaded) is Trajectory
    same(loaded, motion)
    assert not any(output.requires_grad for output in motion.detach())
    assert all(output.device.type == "meta" for output in motion.to(device="meta"))
    assert all(output.dtype == torch.float32 for output in motion.to(torch.float32))
    row = motion.row(-1)
    assert type(row) is Trajectory and all(torch.equal(a, b[-1]) for a, b in zip(row, motion, strict=True))
    with pytest.raises(IndexError):
        motion.row(BATCH)


def test_no_trajectory_starts_from_a_pool_and_ends_in_one():
    none = torch.zeros(0, dtype=torch.int64)
    ends = {"start_index": none, "goal_position": P0, "goal_index": none}
    assert kernels.clique_step(ACTION[:0], P0, dt=0.1, **ends).position.shape == (0, HORIZON, DOF)


@pytest.mark.parametrize("name", traced(TRACED))
def test_exports_and_survives_saving(name):
    call, inputs = TRACED[name]
    dynamic = [{0: torch.export.Dim("batch")}] * len(inputs) if name in SIGNATURES else None
    program = torch.export.export(call, inputs, strict=False, dynamic_shapes=dynamic and {"tensors": tuple(dynamic)})
    for batch in (BATCH, 5) if dynamic else (BATCH,):
        given = [x.repeat(2, *[1] * (x.dim() - 1))[:batch] for x in inputs] if dynamic else inputs
        same(program.module()(*given), call(*given))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    result = torch.export.load(file).module()(*inputs)
    assert type(result) is type(call(*inputs))
    same(result, call(*inputs))


@EACH
@pytest.mark.parametrize("first", [0, 1], ids=["all", "all but the first"])
def test_vmap_is_one_call_after_the_other(call, inputs, first):
    if first == len(inputs):
        pytest.skip("it takes one tensor")
    several = [torch.stack([x, 2 * x, x / 2]) for x in inputs]
    each = [call(*inputs[:first], *rows) for rows in zip(*several[first:], strict=True)]
    got = torch.vmap(lambda *rows: call(*inputs[:first], *rows))(*several[first:])
    same(got, [torch.stack(parts) for parts in zip(*map(tensors, each), strict=True)])


@EACH
def test_jvp_is_a_difference_quotient(call, inputs):
    tangents = [torch.cos(x) / 100 for x in inputs]
    _, moved = torch.func.jvp(call, inputs, tuple(tangents))
    step = 1e-6
    ends = [call(*(x + sign * step * t for x, t in zip(inputs, tangents, strict=True))) for sign in (1, -1)]
    for got, high, low in zip(tensors(moved), *map(tensors, ends), strict=True):
        torch.testing.assert_close(got, (high - low) / (2 * step), rtol=1e-5, atol=1e-5)


@EACH
def test_a_module_that_ends_in_it_is_pickled_saved_and_copied(call, inputs):
    file = io.BytesIO()
    torch.save(call, file)
    file.seek(0)
    for restored in (pickle.loads(pickle.dumps(call)), copy.deepcopy(call), torch.load(file, weights_only=False)):
        same(restored(*inputs), call(*inputs))


@EACH
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_computed_in_float32_under_autocast(call, inputs, half):
    first, *others = [x.float() for x in inputs]
    call = Call(call.function, **{k: v.float() if torch.is_tensor(v) else v for k, v in call.options.items()})
    leaf = first.to(half).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = tensors(call(leaf, *others))
    expected = tensors(call(leaf.float(), *others))
    if call.function is vjp:  # no other argument that would widen it
        assert {x.dtype for x in got} == {half}
        return
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b)
    (gradient,) = torch.autograd.grad(got[0].sum(), leaf)
    assert gradient.dtype == half
    torch.testing.assert_close(gradient, torch.autograd.grad(expected[0].sum(), leaf)[0])


def test_batches_of_motions_are_differentiated_like_each_of_them():
    times = torch.rand(2, BATCH, HORIZON, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(-1)
    position, v0, a0 = normal(2, BATCH, HORIZON, DOF), normal(2, BATCH, DOF, seed=1), normal(DOF, seed=2)
    whole = kernels.differentiate_positions(position, times, v0, a0)
    assert isinstance(whole, Trajectory)
    for one in itertools.product(range(2), range(BATCH)):
        alone = kernels.differentiate_positions(position[one], times[one], v0[one], a0)
        same([output[one] for output in whole], alone)
    shared = kernels.differentiate_positions(position, times[0, 0])
    same([output[1, 2] for output in shared], kernels.differentiate_positions(position[1, 2], times[0, 0]))


def test_a_traced_fit_leaves_nothing_behind_that_a_later_call_would_meet():
    call, inputs = TABLE["fit_bspline"]
    # one more control point, which no earlier test has used
    shifted = (torch.cat([inputs[0], inputs[0][:, -4:]], 1), *inputs[1:])
    torch.export.export(call, shifted, strict=False)
    assert type(call(*shifted)) is torch.Tensor
    with torch.inference_mode():
        call(*shifted)
    leaf = shifted[0].clone().requires_grad_()
    call(leaf, *shifted[1:]).sum().backward()


class OperatorCalls(TorchDispatchMode):
    """Records every call of one of our operators with its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[torch._ops.OpOverload, tuple]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "traj_integrator":
            self.calls.append((func, args))
        return func(*args, **(kwargs or {}))


@SIGNATURE
def test_opcheck_passes_for_every_operator(kernel):
    """Without the check of compiling, which takes seconds: every signature is compiled above."""
    case = signature_case(kernel, start="pool")
    inputs = case.leaves()
    with OperatorCalls() as recorded:
        outputs = case.step(*inputs, backend="reference")
        gradients = torch.autograd.grad(outputs[1:], [inputs[2], inputs[-1]], outputs[1:], create_graph=True)
        torch.autograd.grad(cost(gradients), inputs[:2])
    assert {operator._opname.rsplit("_", 1)[1] for operator, _ in recorded.calls} == {"forward", "vjp"}
    for operator, arguments in recorded.calls[:2]:
        arguments = [x.detach().requires_grad_(x.requires_grad) if torch.is_tensor(x) else x for x in arguments]
        checks = "test_schema", "test_autograd_registration", "test_faketensor"
        assert set(torch.library.opcheck(operator, arguments, test_utils=checks).values()) == {"SUCCESS"}


TRANSFORMS = {
    "grad": lambda f: torch.func.grad(lambda *x: cost(f(*x)), argnums=tuple(range(5))),
    "jvp": lambda f: lambda *x: torch.func.jvp(f, x, x)[1],
    "vmap": lambda f: lambda *x: torch.vmap(f)(*(torch.stack([t, 2 * t]) for t in x)),
}


@pytest.mark.parametrize("transform", traced(TRANSFORMS, {"grad"}))
def test_function_transforms_compile(transform):
    """The transforms that all others consist of."""
    case = signature_case(MAPS["acceleration_zoh"])
    inputs, f = case.values, TRANSFORMS[transform](case.function())
    torch._dynamo.reset()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")(*inputs)
    expected, structure = torch.utils._pytree.tree_flatten(f(*inputs))
    assert_all_close(structure.flatten_up_to(compiled), expected)


@pytest.mark.thorough
@pytest.mark.slow
def test_compiles_with_inductor():
    case = signature_case(MAPS["clique"])
    inputs, f = case.leaves(), case.function()
    torch._dynamo.reset()
    outputs = torch.compile(f, fullgraph=True)(*inputs)
    assert_all_close(torch.autograd.grad(cost(outputs), inputs), torch.autograd.grad(cost(f(*inputs)), inputs))


@MAP
def test_outputs_have_shapes_without_data_on_the_meta_device(kernel):
    outputs = kernel.step(ACTION.to("meta"), P0.to("meta"), dt=0.1)
    assert all(x.shape == (BATCH, kernel.output_horizon(HORIZON), DOF) and x.is_meta for x in outputs)


def test_import_of_the_kernels_loads_no_triton_no_rclpy_and_no_compiler():
    code = (
        "import sys, torch; before = set(sys.modules); import traj_integrator_ros.kernels as k; k.backend_info(); "
        "import traj_integrator_ros.kernels.integration_utils; "
        "k.clique_step(torch.zeros(1, 4, 2), torch.zeros(1, 2), dt=0.1); "
        "print([m for m in ('triton', 'rclpy', 'matplotlib', 'torch._inductor', 'torch._dynamo') "
        "if m in set(sys.modules) - before])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert result.stdout.strip() == "[]"
