"""Checks of DTensors, on each of the processes that hold them; test_sharding.py runs this file in them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from operator_cases import POOL, SIGNATURES, UNIFORM, Case, weights_like
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

from traj_integrator_ros.kernels import MAPS, CostTerm, QuadraticCost, clique_step, jerk_step, quadratic_cost

BATCH, HORIZON, DOF = 5, 6, 3
"""A batch and a number of joints that are not divisible by two."""
LAYOUTS = ("batch", "joints")
ENDS = ("one", "own", "pool")
LINE = init_device_mesh("cpu", (2,))
GRID = init_device_mesh("cpu", (1, 2), mesh_dim_names=("batch", "joints"))
TOLERANCE = {"rtol": 1e-12, "atol": 1e-12}
NONE = [None] * 3


def call(name: str, **fields: object) -> Case:
    sizes = {"batch": BATCH, "horizon": HORIZON, "dof": DOF, "dt": "number", "absent": (), "seed": 7}
    return Case(MAPS[name], **{**sizes, **fields})


def table() -> dict[str, tuple[Case, str]]:
    """Calls of each map and their layouts; all layouts for maps with a signature, or a goal's place, of their own."""
    rows = [(call(name), "batch") for name in MAPS]
    for i, name in enumerate(("clique", *SIGNATURES)):
        kernel = MAPS[name]
        rows += [(call(name, start=start), LAYOUTS[(i + j) % 2]) for j, start in enumerate(ENDS)]
        known = [dt for dt in ("scalar", "[B, 1]", "[H]", "[B, H]") if dt in UNIFORM or not kernel.uniform_dt_only]
        rows += [(call(name, dt=dt), LAYOUTS[(i + j) % 2]) for j, dt in enumerate(known)]
        if kernel.goal:
            rows += [(call(name, start=ENDS[-j], goal=goal), LAYOUTS[(i + j) % 2]) for j, goal in enumerate(ENDS)]
            rows.append((call(name, dt="scalar", start="one", goal="one"), "batch"))
        rows.append((call(name, start="pool"), "both"))
    rows += [(call("clique", batch=1), "batch"), (call("jerk", start="one", dt="scalar", batch=2), "batch")]
    rows.append((call("acceleration_zoh", start="pool", batch=POOL), "batch"))
    return {
        f"{case.kernel.name}: {layout}, batch {case.batch}, start {case.start}, goal {case.goal}, dt {case.dt}": row
        for row in rows
        for case, layout in [row]
    }


def spread(tensor: Tensor, layout: str, batch: int | None, joints: int | None) -> DTensor:
    """Distribute a tensor along its batch and joint dimensions; None if it lacks one."""
    places = {"batch": [batch], "joints": [joints], "both": [batch, joints]}[layout]
    mesh = GRID if layout == "both" else LINE
    return distribute_tensor(tensor, mesh, [Replicate() if place is None else Shard(place) for place in places])


def distributed(case: Case, layout: str) -> tuple[dict[str, DTensor], dict[str, DTensor]]:
    """The tensors of a call, which require grad, and its indices."""

    def place(name: str, tensor: Tensor) -> DTensor:
        rows = (0 if case.start == "own" else None, 1), (0 if case.goal == "own" else None, 1)
        known = {"action": (0, 2), "dt": (0 if tensor.dim() == 2 else None, None)}
        return spread(tensor, layout, *known.get(name, rows[name.startswith("goal")])).requires_grad_()

    indices = {name: spread(x, layout, 0, None) for name, x in case.fixed.items() if name.endswith("_index")}
    return {name: place(name, tensor) for name, tensor in case.tensors.items()}, indices


def full(tensor: DTensor) -> Tensor:
    return tensor.detach().full_tensor()


def test_operators_of_torch_take_dtensors_also_if_they_are_called_first() -> None:
    action = torch.randn(4, HORIZON, DOF, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    start = torch.ones(1, DOF, dtype=torch.float64)
    dt = torch.full((1, 1), 0.1, dtype=torch.float64)
    forward = torch.ops.traj_integrator.velocity_forward
    shards = [spread(action, "batch", 0, 2), *(distribute_tensor(one, LINE, [Replicate()]) for one in (start, dt))]
    none = [None] * 9
    got = forward(shards[0], shards[1], *none, shards[2], None)
    assert torch.equal(full(got[0]), forward(action, start, *none, dt, None)[0])
    vjp, needs = torch.ops.traj_integrator.velocity_vjp, [True, True, *[False] * 7]
    # A number of rows that equals the whole batch does not match a shard: then nothing is split.
    own = vjp(shards[0], *none[:5], shards[2], 4, -1, HORIZON, needs, None)
    wanted = vjp(action, *none[:5], dt, 4, -1, HORIZON, needs, None)
    assert torch.equal(full(own[1]), wanted[1])
    assert own[2] is None
    with pytest.raises(RuntimeError, match="action: expected a horizon that is whole"):
        forward(distribute_tensor(action, LINE, [Shard(1)]), shards[1], *none, shards[2], None)


def is_sum(placement: object) -> bool:
    return isinstance(placement, Partial)


@pytest.mark.parametrize(("case", "layout"), table().values(), ids=table())
def test_a_map_of_dtensors_is_that_of_the_whole_and_sends_nothing_but_sums(case: Case, layout: str) -> None:
    """Outputs, first and second derivatives, against those of one process."""
    wholes, (named, indices) = case.leaves(), distributed(case, layout)
    splits = list(named.values())
    expected = case.step(*wholes)
    with CommDebugMode() as forward:
        outputs = case.step(*splits, **indices)
    for got, wanted in zip(outputs, expected, strict=True):
        assert case.batch == 1 or got.placements == splits[0].placements
        assert got.shape == wanted.shape
        assert torch.equal(full(got), wanted)
    upstream = weights_like(expected)
    shards = [spread(one, layout, 0, 2) for one in upstream]
    # Further results of a mean or a sum: the same number everywhere.
    shards[0] = distribute_tensor(upstream[0], shards[0].device_mesh, [Replicate()] * shards[0].device_mesh.ndim)
    for one in (*upstream, *shards):
        one.requires_grad_()
    wanted = torch.autograd.grad(expected, wholes, upstream, create_graph=True)
    with CommDebugMode() as backward:
        gradients = torch.autograd.grad(outputs, splits, shards, create_graph=True)
    with CommDebugMode() as sums:
        summed = [full(gradient) if any(map(is_sum, gradient.placements)) else gradient for gradient in gradients]
    for one, gradient, variable, got in zip(wanted, gradients, splits, summed, strict=True):
        # A gradient has its variable's placements; where the variable is replicated, it may be a partial sum.
        sizes = variable.device_mesh.shape
        for found, place, size in zip(gradient.placements, variable.placements, sizes, strict=True):
            is_kept = found == place or (place.is_replicate() and is_sum(found))
            assert is_kept or size == 1 or case.batch == 1, f"{gradient.placements} of {variable.placements}"
        torch.testing.assert_close(full(got) if isinstance(got, DTensor) else got, one, **TOLERANCE)
    assert (forward.get_total_counts() > 0) == (case.batch == 1), "a batch smaller than the mesh is gathered"
    shared = sum(any(map(is_sum, gradient.placements)) for gradient in gradients)
    assert shared >= 3 or layout != "batch" or case.start == "own"
    assert case.batch == 1 or (backward.get_total_counts(), sums.get_total_counts()) == (0, shared)
    # Derivatives of the gradients by upstream gradients, and by dt where it is a tensor.
    by_dt = slice(0) if case.dt == "number" else slice(-1, None)
    cotangents = weights_like(wanted)
    spread_out = [
        distribute_tensor(one, gradient.device_mesh, [Replicate() if is_sum(p) else p for p in gradient.placements])
        for one, gradient in zip(cotangents, gradients, strict=True)
    ]
    second = torch.autograd.grad(wanted, [*upstream, *wholes[by_dt]], cotangents, allow_unused=True)
    found = torch.autograd.grad(gradients, [*shards, *splits[by_dt]], spread_out, allow_unused=True)
    assert_same(found, second)


def assert_same(got: Sequence[DTensor | None], wanted: Sequence[Tensor | None]) -> None:
    for one, other in zip(got, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(full(one), other, **TOLERANCE)


@pytest.mark.parametrize("layout", ["batch", "joints", "both"])
@pytest.mark.parametrize("start", ENDS)
def test_quadratic_cost_of_dtensors_is_that_of_the_whole_and_sends_nothing(layout: str, start: str) -> None:
    weights = torch.linspace(0.1, 2.0, HORIZON * DOF, dtype=torch.float64).view(HORIZON, DOF)
    target = torch.linspace(-1, 1, BATCH * DOF, dtype=torch.float64).view(BATCH, DOF)[:, None].expand(-1, HORIZON, -1)
    cost = QuadraticCost(
        position=CostTerm(weights, target.contiguous(), terminal_weight=3.0),
        velocity=CostTerm(limit_weight=2.0, upper=0.5),
    )
    case = call("velocity", start=start, dt="scalar")
    wholes, (named, indices) = dict(zip(case.tensors, case.leaves(), strict=True)), distributed(case, layout)
    costs = []
    for given, options in ((wholes, case.fixed), (named, indices)):
        with CommDebugMode() as comm:
            costs.append(quadratic_cost(**given, **options, cost=cost, control_map="velocity"))
        assert comm.get_total_counts() == 0
    upstream = torch.linspace(1, 2, BATCH, dtype=torch.float64)
    wanted = torch.autograd.grad(costs[0], list(wholes.values()), upstream)
    spread_out = spread(upstream, layout, 0, None)
    with CommDebugMode() as comm:
        got = torch.autograd.grad(costs[1], list(named.values()), spread_out)
    assert comm.get_total_counts() == 0
    assert_same([costs[1], *got], [costs[0].detach(), *wanted])


def test_gradients_without_a_step_are_those_of_the_whole() -> None:
    for case, layout in (
        (call("bspline_tight", goal="pool"), "batch"),
        (call("clique", start="pool", goal="own"), "batch"),
        (call("clique", goal="one"), "joints"),
        (call("acceleration_zoh"), "batch"),
        (call("jerk", start="one", dt="[H]"), "batch"),
    ):
        upstream, (named, indices) = weights_like(case.step()), distributed(case, layout)
        ends = ("start", "goal")[: 1 + bool(case.goal)]
        sizes = {f"{end}_rows": len(case.tensors[f"{end}_position"]) for end in ends}
        sizes = {"action_horizon": HORIZON, **sizes, **case.fixed}
        shards = [spread(one, layout, 0, 2) for one in upstream]
        whole, split = (
            case.kernel.vjp(gradients, **{"dt": tensors.get("dt"), **sizes, **given})
            for gradients, tensors, given in ((upstream, case.tensors, {}), (shards, named, indices))
        )
        assert_same(split, whole)


def test_what_is_none_is_part_of_the_question() -> None:
    """Rules are asked again if other arguments are None; answers for different arguments are not reused."""
    action = torch.randn(4, HORIZON, DOF, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rows = torch.ones(4, DOF, dtype=torch.float64)
    everywhere = distribute_tensor(rows, LINE, [Replicate()])  # redistributed, which makes a difference
    for options in ({"start_velocity": rows}, {"start_acceleration": rows}, {}):
        whole = jerk_step(action, rows, **options, dt=0.1)
        split = jerk_step(spread(action, "batch", 0, 2), everywhere, **dict.fromkeys(options, everywhere), dt=0.1)
        for got, wanted in zip(split, whole, strict=True):
            assert torch.equal(full(got), wanted)


def test_a_split_horizon_and_plain_tensors_beside_are_refused_by_name() -> None:
    action = torch.zeros(2, HORIZON, DOF)
    along, good = distribute_tensor(action, LINE, [Shard(1)]), spread(action, "batch", 0, 2)
    plain = torch.zeros(1, DOF)
    start = distribute_tensor(plain, LINE, [Replicate()])
    told = r"expected a horizon that is whole on every device.*Shard\(1\), and dimension 1 is the horizon"
    for kernel in MAPS.values():
        with pytest.raises(ValueError, match=f"^{kernel.action_name}: {told}"):
            kernel.step(along, start, dt=0.1)
    terms = QuadraticCost(CostTerm(1.0))
    for name, call in (
        ("action", lambda: clique_step(along, start, dt=0.1, goal_position=start)),
        ("grad_position", lambda: MAPS["jerk"].vjp([along, *NONE], dt=0.1, action_horizon=HORIZON, start_rows=1)),
        ("dt", lambda: jerk_step(good, start, dt=distribute_tensor(torch.ones(HORIZON), LINE, [Shard(0)]))),
        ("action", lambda: quadratic_cost(along, start, cost=terms, control_map="jerk", dt=0.1)),
    ):
        with pytest.raises(ValueError, match=f"^{name}: {told}"):
            call()
    told = "expected a DTensor like the other tensors, got a plain tensor"
    for name, value in {
        **dict.fromkeys(("start_position", "start_velocity", "goal_position"), plain),
        "start_index": torch.zeros(2, dtype=torch.int64),
        "dt": torch.tensor(0.1),
    }.items():
        with pytest.raises(TypeError, match=f"^{name}: {told}"):
            clique_step(good, **{"start_position": start, "dt": 0.1, name: value})
    with pytest.raises(TypeError, match=f"^grad_jerk: {told}"):
        MAPS["jerk"].vjp([good, None, None, action], dt=0.1, action_horizon=6, start_rows=1)
    with pytest.raises(ValueError, match=r"^start_position: expected the mesh"):
        clique_step(good, distribute_tensor(plain, GRID, [Replicate()] * 2), dt=0.1)


def test_a_plain_start_that_requires_grad_gets_all_of_it() -> None:
    """A DTensor of a tensor that each process has anyway: torch sums its gradient up once."""
    start = torch.zeros(1, DOF, dtype=torch.float64, requires_grad=True)
    action = torch.zeros(BATCH, HORIZON, DOF, dtype=torch.float64)
    everywhere = DTensor.from_local(start, LINE, [Replicate()])
    moved = clique_step(spread(action, "batch", 0, 2), everywhere, dt=0.1)
    with CommDebugMode() as comm:
        moved.position.sum().full_tensor().backward()
    torch.testing.assert_close(start.grad, torch.full((1, DOF), float(BATCH), dtype=torch.float64))
    assert comm.get_total_counts() == 2  # the loss, and the start's gradient
