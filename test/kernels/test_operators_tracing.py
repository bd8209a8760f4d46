"""The operators as torch sees them: registration, tracing, compilation, export."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from operator_cases import SIGNATURE, OperatorCalls, assert_all_close, cost, signature_case
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from traj_integrator_ros.kernels import MAPS, Backend

TRANSFORMS = {
    "grad": lambda f: torch.func.grad(lambda *x: cost(f(*x)), argnums=tuple(range(5))),
    "hessian": lambda f: torch.func.hessian(lambda *x: cost(f(*x)), argnums=(1, 4)),
    "jvp": lambda f: lambda *x: torch.func.jvp(f, x, x)[1],
    "vmap": lambda f: lambda *x: torch.vmap(f)(*(torch.stack([t, 2 * t]) for t in x)),
    "dual level": lambda f: lambda *x: _dual_level(f, x),
}


# The omitted one takes seconds, and every signature is compiled below.
OPCHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def _dual_level(f, x):
    with forward_ad.dual_level():
        return [forward_ad.unpack_dual(y).tangent for y in f(*(forward_ad.make_dual(t, t.clone()) for t in x))]


def our_nodes(graph: torch.fx.Graph) -> list[str]:
    return [str(node.target) for node in graph.nodes if "traj_integrator" in str(node.target)]


@SIGNATURE
def test_opcheck_passes_for_every_operator(kernel):
    case = signature_case(kernel, start="pool")
    inputs = case.leaves()
    with OperatorCalls() as recorded:
        outputs = case.step(*inputs, backend=Backend.REFERENCE)
        gradients = torch.autograd.grad(outputs[1:], [inputs[2], inputs[-1]], outputs[1:], create_graph=True)
        torch.autograd.grad(cost(gradients), inputs[:2])
    assert {operator._opname.rsplit("_", 1)[1] for operator, _ in recorded.calls} == {"forward", "vjp"}
    for operator, arguments in recorded.calls[:2]:
        arguments = [x.detach().requires_grad_(x.requires_grad) if torch.is_tensor(x) else x for x in arguments]
        assert set(torch.library.opcheck(operator, arguments, test_utils=OPCHECKS).values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", ["acceleration_zoh", pytest.param("bspline_tight", marks=pytest.mark.thorough)])
def test_compiles_as_one_graph_with_one_node_and_the_same_gradients(name):
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph.graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, example_inputs)

    case = signature_case(MAPS[name])
    inputs, f = case.leaves(), case.function()
    torch._dynamo.reset()
    outputs = torch.compile(f, fullgraph=True, backend=backend, dynamic=True)(*inputs)
    assert [len(our_nodes(graph)) for graph in graphs] == [1]
    assert_all_close(outputs, f(*inputs))
    assert_all_close(torch.autograd.grad(cost(outputs), inputs), torch.autograd.grad(cost(f(*inputs)), inputs))


THOROUGH = [pytest.param(name, marks=pytest.mark.thorough) for name in ("jvp", "vmap")]


@pytest.mark.parametrize("transform", ["grad", *THOROUGH])
def test_function_transforms_compile(transform):
    """The transforms that all others consist of; the others are traced below."""
    case = signature_case(MAPS["acceleration_zoh"])
    inputs, f = case.values, TRANSFORMS[transform](case.function())
    torch._dynamo.reset()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")(*inputs)
    expected, structure = torch.utils._pytree.tree_flatten(f(*inputs))
    assert_all_close(structure.flatten_up_to(compiled), expected)


@pytest.mark.parametrize("transform", [pytest.param("hessian", marks=pytest.mark.thorough), "dual level"])
def test_make_fx_keeps_the_operators_whole_under_function_transforms(transform):
    case = signature_case(MAPS["acceleration_zoh"])
    inputs, f = case.values, TRANSFORMS[transform](case.function())
    graph = make_fx(f)(*inputs)
    assert our_nodes(graph.graph)
    assert_all_close(torch.utils._pytree.tree_leaves(graph(*inputs)), torch.utils._pytree.tree_leaves(f(*inputs)))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.usefixtures("quick_inductor")
def test_compiles_with_inductor():
    case = signature_case(MAPS["clique"])
    inputs, f = case.leaves(), case.function()
    torch._dynamo.reset()
    outputs = torch.compile(f, fullgraph=True)(*inputs)
    assert_all_close(torch.autograd.grad(cost(outputs), inputs), torch.autograd.grad(cost(f(*inputs)), inputs))


STRICT = pytest.param("clique", True, marks=pytest.mark.thorough)


@pytest.mark.parametrize(("name", "strict"), [("bspline_tight", False), STRICT])
def test_exports_with_a_dynamic_batch(name, strict):
    kernel = MAPS[name]

    class Model(torch.nn.Module):
        def forward(self, action, p0, v0, dt):
            return tuple(kernel.step(action, p0, v0, dt=dt))

    def arguments(batch):
        action, p0, v0, *_, dt = signature_case(kernel, batch=batch).values
        return action, p0, v0, dt

    batch = torch.export.Dim("batch")
    program = torch.export.export(Model(), arguments(3), strict=strict, dynamic_shapes=[{0: batch}] * 4)
    assert len(our_nodes(program.graph)) == 1
    assert len(our_nodes(program.run_decompositions().graph)) == 1
    for other in (3, 5):
        assert_all_close(program.module()(*arguments(other)), Model()(*arguments(other)))


def test_outputs_have_shapes_without_data_on_the_meta_device():
    for kernel in MAPS.values():
        action = torch.empty(3, 5, 2, device="meta")
        outputs = kernel.step(action, torch.empty(3, 2, device="meta"), dt=0.1)
        assert all(output.shape == (3, kernel.output_horizon(5), 2) and output.is_meta for output in outputs)


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
