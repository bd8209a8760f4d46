"""What has to hold for DTensors, on each of the processes that hold them; see sharding_cases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from sharding_cases import BATCH, DOF, HORIZON, Case, Inputs, differentiable, inputs_of, step, upstream_of, variables
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

from traj_integrator_ros.kernels import MAPS, CostTerm, QuadraticCost, clique_step, jerk_step, quadratic_cost

LINE = init_device_mesh("cpu", (2,))
GRID = init_device_mesh("cpu", (1, 2), mesh_dim_names=("batch", "joints"))
TOLERANCE = {"rtol": 1e-12, "atol": 1e-12}


def spread(tensor: Tensor | None, layout: str, batch: int | None, joints: int | None) -> DTensor | None:
    """Distribute a tensor whose batch and joints are these dimensions; None: it has none."""
    if tensor is None:
        return None
    places = {"batch": [batch], "joints": [joints], "both": [batch, joints]}[layout]
    mesh = GRID if layout == "both" else LINE
    return distribute_tensor(tensor, mesh, [Replicate() if place is None else Shard(place) for place in places])


def distributed(given: Inputs, case: Case) -> Inputs:
    def rows(values: Sequence[Tensor], kind: str) -> list[DTensor]:
        return [spread(one, case.layout, 0 if kind == "own" else None, 1) for one in values]

    dt = given.dt
    if isinstance(dt, Tensor):
        dt = spread(dt, case.layout, 0 if dt.dim() == 2 else None, None)
    return Inputs(
        spread(given.action, case.layout, 0, 2),
        rows(given.rows, case.start),
        spread(given.index, case.layout, 0, None),
        dt,
        rows(given.goal, case.goal),
        spread(given.goal_index, case.layout, 0, None),
    )


def full(tensor: DTensor) -> Tensor:
    return tensor.detach().full_tensor()


def compare(case: Case) -> dict[str, int]:
    """Outputs, first and second derivatives, against those of one process; returns what was sent."""
    kernel = MAPS[case.kernel]
    whole = differentiable(inputs_of(case, kernel))
    split = differentiable(distributed(whole, case))
    wholes, splits = variables(whole), variables(split)
    expected = step(kernel, whole)
    with CommDebugMode() as forward:
        outputs = step(kernel, split)
    for got, wanted in zip(outputs, expected, strict=True):
        assert case.batch == 1 or got.placements == split.action.placements
        assert got.shape == wanted.shape
        assert torch.equal(full(got), wanted)
    upstream = upstream_of(expected)
    shards = [spread(one, case.layout, 0, 2) for one in upstream]
    # What else a mean or a sum hands back: the same number everywhere.
    shards[0] = distribute_tensor(upstream[0], shards[0].device_mesh, [Replicate()] * shards[0].device_mesh.ndim)
    for one in (*upstream, *shards):
        one.requires_grad_()
    wanted = torch.autograd.grad(expected, wholes, upstream, create_graph=True)
    with CommDebugMode() as backward:
        gradients = torch.autograd.grad(outputs, splits, shards, create_graph=True)
    with CommDebugMode() as sums:
        summed = [full(gradient) if any(map(is_sum, gradient.placements)) else gradient for gradient in gradients]
    for one, gradient, variable, got in zip(wanted, gradients, splits, summed, strict=True):
        assert is_layout_of(gradient, variable, case), f"{gradient.placements} of {variable.placements}"
        torch.testing.assert_close(full(got) if isinstance(got, DTensor) else got, one, **TOLERANCE)
    check_second(wanted, gradients, [*upstream, *wholes[-1:]], [*shards, *splits[-1:]], case)
    return {
        "forward": forward.get_total_counts(),
        "backward": backward.get_total_counts(),
        "sums": sums.get_total_counts(),
        "summed": sum(any(map(is_sum, gradient.placements)) for gradient in gradients),
    }


def check_second(
    wanted: Sequence[Tensor], gradients: Sequence[DTensor], wholes: list[Tensor], splits: list[DTensor], case: Case
) -> None:
    """Derivatives of the gradients by upstream gradients, and by dt where it is a tensor."""
    if case.dt == "number":
        wholes, splits = wholes[:-1], splits[:-1]
    cotangents = upstream_of(wanted)
    spread_out = [
        distribute_tensor(one, gradient.device_mesh, [Replicate() if is_sum(p) else p for p in gradient.placements])
        for one, gradient in zip(cotangents, gradients, strict=True)
    ]
    expected = torch.autograd.grad(wanted, wholes, cotangents, allow_unused=True)
    got = torch.autograd.grad(gradients, splits, spread_out, allow_unused=True)
    for one, other in zip(got, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(full(one), other, **TOLERANCE)


def is_sum(placement: object) -> bool:
    return isinstance(placement, Partial)


def is_layout_of(gradient: DTensor, variable: DTensor, case: Case) -> bool:
    """Whether a gradient lies where its variable does, or is a partial sum where that is everywhere."""
    for got, place, size in zip(gradient.placements, variable.placements, gradient.device_mesh.shape, strict=True):
        if not (got == place or (place.is_replicate() and is_sum(got)) or size == 1 or case.batch == 1):
            return False
    return True


def a_cost() -> dict[str, int]:
    """`quadratic_cost` on shards is that of the whole, with its gradients; returns what was sent."""
    sent = {"forward": 0, "backward": 0}
    weights = torch.linspace(0.1, 2.0, HORIZON * DOF, dtype=torch.float64).view(HORIZON, DOF)
    target = torch.linspace(-1, 1, BATCH * DOF, dtype=torch.float64).view(BATCH, DOF)[:, None].expand(-1, HORIZON, -1)
    cost = QuadraticCost(
        position=CostTerm(weights, target.contiguous(), terminal_weight=3.0),
        velocity=CostTerm(limit_weight=2.0, upper=0.5),
    )
    for layout in ("batch", "joints", "both"):
        for start in ("own", "pool", "shared"):
            case = Case("velocity", layout, start, dt="one")
            whole = differentiable(inputs_of(case, MAPS["velocity"]))
            split = differentiable(distributed(whole, case))
            costs = []
            for given in (whole, split):
                arguments = {"cost": cost, "control_map": "velocity", "dt": given.dt, "start_index": given.index}
                with CommDebugMode() as comm:
                    costs.append(quadratic_cost(given.action, *given.rows, **arguments))
                sent["forward"] += comm.get_total_counts()
            upstream = torch.linspace(1, 2, BATCH, dtype=torch.float64)
            wanted = torch.autograd.grad(costs[0], variables(whole), upstream)
            spread_out = spread(upstream, layout, 0, None)
            with CommDebugMode() as comm:
                got = torch.autograd.grad(costs[1], variables(split), spread_out)
            sent["backward"] += comm.get_total_counts()
            torch.testing.assert_close(full(costs[1]), costs[0].detach(), **TOLERANCE)
            for one, other in zip(got, wanted, strict=True):
                torch.testing.assert_close(full(one), other, **TOLERANCE)
    return sent


def gradients_without_a_step() -> None:
    """`ControlMap.vjp` of DTensors is that of the whole."""
    for case in (
        Case("bspline_tight", "batch", "own", goal="pool"),
        Case("clique", "batch", "pool", goal="own"),
        Case("clique", "joints", "own", goal="shared"),
        Case("acceleration_zoh", "batch", "own"),
        Case("jerk", "batch", "shared", dt="of steps"),
    ):
        kernel = MAPS[case.kernel]
        whole = inputs_of(case, kernel)
        results = []
        for given in (whole, distributed(whole, case)):
            upstream = upstream_of(step(kernel, whole))
            if isinstance(given.action, DTensor):
                upstream = [spread(one, case.layout, 0, 2) for one in upstream]
            goal = {"goal_rows": given.goal[0].shape[0], "goal_index": given.goal_index} if given.goal else {}
            rows = given.rows[0].shape[0]
            options = {"dt": given.dt, "action_horizon": HORIZON, "start_rows": rows, "start_index": given.index}
            results.append(kernel.vjp(upstream, **options, **goal))
        for got, wanted in zip(results[1], results[0], strict=True):
            assert (got is None) == (wanted is None)
            if wanted is not None:
                torch.testing.assert_close(full(got), wanted, **TOLERANCE)


def what_is_none_is_part_of_the_question() -> None:
    """Rules are asked again where other arguments are None, and nothing is taken from an answer to another question."""
    action = torch.randn(4, HORIZON, DOF, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rows = torch.ones(4, DOF, dtype=torch.float64)
    everywhere = distribute_tensor(rows, LINE, [Replicate()])  # redistributed, which makes a difference
    for options in ({"start_velocity": rows}, {"start_acceleration": rows}, {}):
        whole = jerk_step(action, rows, **options, dt=0.1)
        split = jerk_step(spread(action, "batch", 0, 2), everywhere, **dict.fromkeys(options, everywhere), dt=0.1)
        for got, wanted in zip(split, whole, strict=True):
            assert torch.equal(full(got), wanted)


def operators_of_torch() -> None:
    """The operators themselves take DTensors, also if they are called first."""
    action = torch.randn(4, HORIZON, DOF, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    start = torch.ones(1, DOF, dtype=torch.float64)
    dt = torch.full((1, 1), 0.1, dtype=torch.float64)
    forward = torch.ops.traj_integrator.velocity_forward
    shards = [spread(action, "batch", 0, 2), *(distribute_tensor(one, LINE, [Replicate()]) for one in (start, dt))]
    got = forward(shards[0], shards[1], None, None, None, shards[2], None)
    assert torch.equal(full(got[0]), forward(action, start, None, None, None, dt, None)[0])
    vjp, needs = torch.ops.traj_integrator.velocity_vjp, [True, True, False, False]
    # A number of rows that is the whole batch's holds on no shard: then nothing is split.
    own = vjp(shards[0], None, None, None, None, shards[2], 4, HORIZON, needs, None)
    wanted = vjp(action, None, None, None, None, dt, 4, HORIZON, needs, None)
    assert torch.equal(full(own[1]), wanted[1])
    assert own[2] is None
    with pytest.raises(RuntimeError, match="action: expected a horizon that is whole"):
        forward(distribute_tensor(action, LINE, [Shard(1)]), shards[1], None, None, None, shards[2], None)


def a_split_horizon_is_refused_by_name() -> None:
    action = torch.zeros(2, HORIZON, DOF)
    along = distribute_tensor(action, LINE, [Shard(1)])
    good = spread(action, "batch", 0, 2)
    start = distribute_tensor(torch.zeros(1, DOF), LINE, [Replicate()])
    told = r"expected a horizon that is whole on every device.*Shard\(1\), and dimension 1 is the horizon"
    for kernel in MAPS.values():
        with pytest.raises(ValueError, match=f"^{kernel.action_name}: {told}"):
            kernel.step(along, start, dt=0.1)
    with pytest.raises(ValueError, match=f"^action: {told}"):
        clique_step(along, start, dt=0.1, goal_position=start)
    with pytest.raises(ValueError, match=f"^grad_position: {told}"):
        MAPS["jerk"].vjp([along, None, None, None], dt=0.1, action_horizon=HORIZON, start_rows=1)
    with pytest.raises(ValueError, match=f"^dt: {told}"):
        jerk_step(good, start, dt=distribute_tensor(torch.ones(HORIZON), LINE, [Shard(0)]))
    with pytest.raises(ValueError, match=f"^action: {told}"):
        quadratic_cost(along, start, cost=QuadraticCost(CostTerm(1.0)), control_map="jerk", dt=0.1)


def plain_tensors_beside_are_refused_by_name() -> None:
    action = spread(torch.zeros(2, HORIZON, DOF), "batch", 0, 2)
    start, plain = distribute_tensor(torch.zeros(1, DOF), LINE, [Replicate()]), torch.zeros(1, DOF)
    elsewhere = distribute_tensor(plain, GRID, [Replicate()] * 2)
    told = "expected a DTensor like the other tensors, got a plain tensor"
    for name, arguments in {
        "start_position": {"start_position": plain},
        "start_velocity": {"start_velocity": plain},
        "start_index": {"start_index": torch.zeros(2, dtype=torch.int64)},
        "goal_position": {"goal_position": plain},
        "dt": {"dt": torch.tensor(0.1)},
    }.items():
        with pytest.raises(TypeError, match=f"^{name}: {told}"):
            clique_step(action, **{"start_position": start, "dt": 0.1, **arguments})
    with pytest.raises(TypeError, match=f"^grad_jerk: {told}"):
        MAPS["jerk"].vjp([action, None, None, torch.zeros(2, HORIZON, DOF)], dt=0.1, action_horizon=6, start_rows=1)
    with pytest.raises(ValueError, match=r"^start_position: expected the mesh"):
        clique_step(action, elsewhere, dt=0.1)


def a_plain_start_that_requires_grad_gets_all_of_it() -> None:
    """A DTensor of what each process has anyway: its gradient is summed up once, by torch."""
    start = torch.zeros(1, DOF, dtype=torch.float64, requires_grad=True)
    action = torch.zeros(BATCH, HORIZON, DOF, dtype=torch.float64)
    everywhere = DTensor.from_local(start, LINE, [Replicate()])
    moved = clique_step(spread(action, "batch", 0, 2), everywhere, dt=0.1)
    with CommDebugMode() as comm:
        moved.position.sum().full_tensor().backward()
    torch.testing.assert_close(start.grad, torch.full((1, DOF), float(BATCH), dtype=torch.float64))
    assert comm.get_total_counts() == 2  # the loss, and the start's gradient
