"""The C++ examples build against libtorch without Python, plan, run a policy, and differentiate to Python's numbers."""

from __future__ import annotations

import importlib.util
import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from traj_integrator_ros.kernels import MAPS, bspline_step

if shutil.which("cmake") is None or shutil.which("c++") is None:
    pytest.skip("cmake or a C++ compiler is missing", allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


# The loops need no torch; objects that set-up has compiled with the same flags are reused.
COMPILER = """#!/bin/sh
output=; source=; wants=
for word do
  case "$wants" in -o) output=$word ;; esac
  case "$word" in */loops_*.cpp) source=${{word##*/}} ;; esac
  wants=$word
done
object={objects}/${{source%.cpp}}.o
case "$source" in ?*) [ ! -f "$object" ] || exec cp "$object" "$output" ;; esac
exec "{compiler}" "$@"
"""


def compiled_loops(project_root: Path) -> Path:
    """The folder with set-up's objects if they are as new as the sources; otherwise a folder that does not exist."""
    sources = project_root / "kernels" / "native" / "src"
    changed = max(path.stat().st_mtime for path in (project_root / "setup.py", *sources.rglob("*")))
    for folder in (project_root / "build").glob("temp.*/traj_integrator_ros/kernels/native/src"):
        if min((path.stat().st_mtime for path in folder.glob("loops_*.o")), default=0.0) >= changed:
            return folder
    return project_root / "build" / "nothing"


@pytest.fixture(scope="module")
def plan(project_root: Path, tmp_path_factory: pytest.TempPathFactory, quick_compiler: Path) -> Path:
    """The program, built."""
    build = tmp_path_factory.mktemp("cpp")
    compiler = build / "c++"
    compiler.write_text(COMPILER.format(objects=compiled_loops(project_root), compiler=quick_compiler))
    compiler.chmod(0o755)
    # A build type without flags: writing debugging information takes as long as compiling.
    options = [f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}", "-DCMAKE_BUILD_TYPE=None"]
    options += [f"-DCMAKE_CXX_COMPILER={compiler}"]
    output_of("cmake", "-S", project_root / "examples" / "cpp", "-B", build, *options)
    output_of("cmake", "--build", build, "--parallel", "2")
    return build / "plan"


def output_of(*command: object) -> str:
    words = list(map(str, command))
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500)
    assert done.returncode == 0, done.stdout
    return done.stdout


def sines(*shape: int, first: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) + first).sin().reshape(shape)


def printed(lines: list[str], size: int) -> dict[str, list[torch.Tensor]]:
    """The numbers of each block of lines, by the block's first line; the other lines begin with a label."""
    blocks = {lines[i]: lines[i + 1 : i + size] for i in range(0, len(lines), size)}
    return {
        head: [torch.tensor([float(number) for number in line.split()[1:]], dtype=torch.float64) for line in rows]
        for head, rows in blocks.items()
    }


def test_it_plans(plan):
    lines = [line.split() for line in output_of(plan).splitlines()]
    costs, spline_costs = ([float(line[-1]) for line in lines if line[0] == name] for name in ("iteration", "spline"))
    assert len(costs) == 4 and costs[-1] < 0.01 * costs[0]
    assert len(spline_costs) == 4 and spline_costs[-1] < 0.1 * spline_costs[0]


@pytest.mark.parametrize("program", ["plan", "policy"])
def test_they_need_no_python(plan, program):
    libraries = [line.split()[0] for line in output_of("ldd", plan.with_name(program)).splitlines()]
    assert any(name.startswith("libtorch_cpu") for name in libraries)
    assert not [name for name in libraries if "python" in name or "torch_cuda" in name]


def test_its_gradients_are_those_of_python(plan):
    blocks = printed(output_of(plan, "--gradients").splitlines(), 6)
    assert set(blocks) == {name for name in MAPS if not name.startswith("bspline")}  # the names of the C++ functions
    for name, found in blocks.items():
        leaves = [sines(2, 5, 3, first=0), *(sines(2, 3, first=first) for first in (50, 60, 70))]
        leaves = [leaf.requires_grad_() for leaf in leaves]
        cost = sum(output.square().sum() for output in MAPS[name].step(*leaves, dt=0.02))
        for got, expected in zip(found, (cost, *torch.autograd.grad(cost, leaves)), strict=True):
            torch.testing.assert_close(got, expected.detach().reshape(-1), rtol=1e-12, atol=1e-12)


def test_it_writes_into_tensors_that_fit_and_refuses_larger_ones(plan):
    written = [line.split() for line in output_of(plan, "--into").splitlines()]
    assert len(written) == 4 * len([name for name in MAPS if not name.startswith("bspline")])
    assert {last for *_, last in written} == {"written"}


def test_gradients_of_its_splines_are_those_of_python_to_the_second_order(plan):
    blocks = printed(output_of(plan, "--spline-gradients").splitlines(), 12)
    assert len(blocks) == 4
    for form, found in blocks.items():
        degree, steps, layout = form.split()
        leaves = [sines(2, 5, 3, first=0), sines(2, 3, first=50), sines(2, 3, first=60)]
        leaves += [sines(1, 3, first=first) for first in (70, 80)]
        points, *start, goal, acceleration = [leaf.requires_grad_() for leaf in leaves]
        ends = {"goal_position": goal, "goal_acceleration": acceleration}
        spline = {"degree": int(degree), "steps": int(steps), "layout": layout}
        cost = sum(output.square().sum() for output in bspline_step(points, *start, **ends, dt=0.02, **spline))
        gradients = torch.autograd.grad(cost, leaves, create_graph=True)
        second = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), leaves)
        for got, expected in zip(found, (cost, *gradients, *second), strict=True):
            limit = 1e-11 * float(expected.detach().abs().max())
            torch.testing.assert_close(got, expected.detach().reshape(-1), rtol=0, atol=limit)


@pytest.fixture(scope="module")
def exporter(project_root: Path) -> ModuleType:
    """The example that compiles a policy."""
    file = project_root / "examples" / "cpp" / "export_policy.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("quick_inductor")
def test_a_compiled_policy_that_ends_in_a_step_runs_without_python(plan, exporter, tmp_path):
    policy = exporter.Policy()
    package = exporter.compile_policy(policy, str(tmp_path / "policy.pt2"))
    lines = output_of(plan.with_name("policy"), package).splitlines()
    with torch.no_grad():
        answer = policy(*(sines(*shape, first=first).float() for *shape, first in ((2, 14, 0), (2, 7, 50), (2, 7, 60))))
    assert [line.split()[0] for line in lines] == ["position", "velocity", "acceleration", "jerk"]
    for line, expected in zip(lines, answer, strict=True):
        got = torch.tensor([float(number) for number in line.split()[1:]])
        torch.testing.assert_close(got, expected.reshape(-1), rtol=1e-4, atol=1e-4)


def results_of(name, arguments):
    """Outputs of an operator, and the gradients of the sum of their squares."""
    leaves = [argument for argument in arguments if isinstance(argument, torch.Tensor) and argument.requires_grad]
    outputs = [output for output in getattr(torch.ops.traj_integrator, name)(*arguments) if output is not None]
    gradients = torch.autograd.grad(sum(output.square().sum() for output in outputs), leaves)
    return [tensor.detach() for tensor in (*outputs, *gradients)]


# In a Python that knows the operators from the C++ library alone.
OPERATORS_OF_THE_LIBRARY = f"""
import sys, torch
{inspect.getsource(results_of)}
_, library, file = sys.argv
torch.ops.load_library(library)
assert "traj_integrator_ros" not in sys.modules
known = map(str, torch._C._jit_get_all_schemas())
schemas = [schema for schema in known if schema.startswith("traj_integrator::")]
torch.save((schemas, [results_of(*call) for call in torch.load(file, weights_only=False)]), file)
"""


def test_operators_of_the_library_are_those_of_python(plan, tmp_path):
    calls = [call for entry in MAPS.values() for call in calls_of(entry.operator, entry.scheme)]
    file = tmp_path / "calls.pt"
    torch.save(calls, file)
    library = plan.parent / "traj_integrator" / "libtraj_integrator.so"
    output_of(sys.executable, "-c", OPERATORS_OF_THE_LIBRARY, library, file)
    schemas, results = torch.load(file, weights_only=False)
    names = {f"traj_integrator::{name}" for name, _ in calls}
    ours = torch._C._jit_get_all_schemas()
    assert set(schemas) == {str(schema) for schema in ours if schema.name in names} and len(schemas) == 12
    for (name, arguments), got in zip(calls, results, strict=True):
        for tensor, expected in zip(got, results_of(name, arguments), strict=True):
            torch.testing.assert_close(tensor, expected, rtol=1e-12, atol=1e-12, msg=name)


def calls_of(operator, scheme):
    """Calls of the operators of a map, forward and vjp, with a pool of starts, and one start for each trajectory."""
    dt, horizon = torch.full((1, 1), 0.02, dtype=torch.float64), operator.output_horizon(5, scheme)
    takes = [k < kinds for kinds in (operator.starts, operator.goals) for k in range(4)]
    for rows, index in ((2, None), (3, torch.tensor([2, 0]))):
        values = [sines(rows, 3, first=50 + 10 * k).requires_grad_() if one else None for k, one in enumerate(takes)]
        indices = index, index if operator.goals else None
        action = sines(2, 5, 3, first=0).requires_grad_()
        yield f"{operator.name}_forward", [action, *values, *indices, dt, *scheme, None]
        upstream = [sines(2, horizon, 3, first=90 + 10 * k).requires_grad_() for k in range(4)]
        own = 0 if index is None else rows
        counts = own, own if operator.goals else -1
        yield f"{operator.name}_vjp", [*upstream, *indices, dt, *counts, 5, [True, *takes], *scheme, None]
