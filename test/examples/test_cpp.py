"""The C++ example builds against libtorch without Python, plans, and differentiates to Python's numbers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from traj_integrator_ros.kernels import MAPS, bspline_step

if shutil.which("cmake") is None or shutil.which("c++") is None:
    pytest.skip("cmake or a C++ compiler is missing", allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def plan(project_root: Path, tmp_path_factory: pytest.TempPathFactory, quick_compiler: Path) -> Path:
    """The program, built."""
    build = tmp_path_factory.mktemp("cpp")
    # A build type without flags: what a debugger would like to know takes as long to write as all the rest to compile.
    options = [f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}", "-DCMAKE_BUILD_TYPE=None"]
    options += [f"-DCMAKE_CXX_COMPILER={quick_compiler}"]
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


def test_it_plans(plan):
    lines = [line.split() for line in output_of(plan).splitlines()]
    costs, spline_costs = ([float(line[-1]) for line in lines if line[0] == name] for name in ("iteration", "spline"))
    assert len(costs) == 4 and costs[-1] < 0.01 * costs[0]
    assert len(spline_costs) == 4 and spline_costs[-1] < 0.1 * spline_costs[0]


def test_it_needs_no_python(plan):
    libraries = [line.split()[0] for line in output_of("ldd", plan).splitlines()]
    assert any(name.startswith("libtorch_cpu") for name in libraries)
    assert not [name for name in libraries if "python" in name]


def test_its_gradients_are_those_of_python(plan):
    lines = output_of(plan, "--gradients").splitlines()
    blocks = {lines[i]: [line.split() for line in lines[i + 1 : i + 6]] for i in range(0, len(lines), 6)}
    assert set(blocks) == {name for name in MAPS if not name.startswith("bspline")}  # those of the C++ functions
    for name, printed in blocks.items():
        leaves = [sines(2, 5, 3, first=0), *(sines(2, 3, first=first) for first in (50, 60, 70))]
        leaves = [leaf.requires_grad_() for leaf in leaves]
        cost = sum(output.square().sum() for output in MAPS[name].step(*leaves, dt=0.02))
        cost.backward()
        expected = {"cost": cost, "action": leaves[0].grad}
        for label, leaf in zip(("position", "velocity", "acceleration"), leaves[1:], strict=True):
            expected[f"start_{label}"] = leaf.grad
        for label, *numbers in printed:
            got = torch.tensor([float(number) for number in numbers], dtype=torch.float64)
            torch.testing.assert_close(got, expected[label].detach().reshape(-1), rtol=1e-12, atol=1e-12)


def test_gradients_of_its_splines_are_those_of_python_to_the_second_order(plan):
    lines = output_of(plan, "--spline-gradients").splitlines()
    blocks = {lines[i]: [line.split()[1:] for line in lines[i + 1 : i + 12]] for i in range(0, len(lines), 12)}
    assert len(blocks) == 4
    for form, printed in blocks.items():
        degree, steps, layout = form.split()
        leaves = [sines(2, 5, 3, first=0), sines(2, 3, first=50), sines(2, 3, first=60)]
        leaves += [sines(1, 3, first=first) for first in (70, 80)]
        points, *start, goal, acceleration = [leaf.requires_grad_() for leaf in leaves]
        ends = {"goal_position": goal, "goal_acceleration": acceleration}
        spline = {"degree": int(degree), "steps": int(steps), "layout": layout}
        cost = sum(output.square().sum() for output in bspline_step(points, *start, **ends, dt=0.02, **spline))
        gradients = torch.autograd.grad(cost, leaves, create_graph=True)
        second = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), leaves)
        for numbers, expected in zip(printed, (cost, *gradients, *second), strict=True):
            got = torch.tensor([float(number) for number in numbers], dtype=torch.float64)
            limit = 1e-11 * float(expected.detach().abs().max())
            torch.testing.assert_close(got, expected.detach().reshape(-1), rtol=0, atol=limit)
