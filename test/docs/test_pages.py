"""All that the documentation shows works as printed: every page's blocks run in order, in one folder."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from documentation_pages import NODE, OFFLINE, PAGES, ROBOT, ROOT, Block, blocks, name_of, prose
from preloaded_process import PreloadedProcess

from traj_integrator_ros.limits.parameter_files import dotted
from traj_integrator_ros.parameters.parameters import NodeParameters, default_values
from traj_integrator_ros.parameters.table import SPECS, of_joints
from traj_integrator_ros.requests.plan import GOALS

BLOCK_TIMEOUT_S = 150
FIGURES = sorted((ROOT / "docs" / "figures").glob("*.py"))
TOOLS = ROOT / "docs" / "tools.md"
QUICK = [page for page in PAGES if page != TOOLS]  # test/tools runs the tools on smaller files
END = "-- end of a block --"
MODULES = ("rclpy", "traj_integrator_interfaces", "matplotlib", "rosbags", "scipy")
# A command in an indented block would not be run.
COMMAND = re.compile(r"^(?:    |\$ )(?:ros2|python3?|make|cmake|colcon|pip|fastdds|taskset|chrt) ", re.M)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a page has up to 15 programs, each of which may load torch on a busy machine
@pytest.mark.parametrize("page", [*QUICK, pytest.param(TOOLS, marks=pytest.mark.thorough)], ids=name_of)
def test_what_a_page_shows_works_as_printed(page: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    executed = [block for block in blocks(page) if block.needs is not None]
    missing = next((module for module in MODULES if importlib.util.find_spec(module) is None), None)
    runnable = executed
    if missing:  # Python blocks without ROS use none of these
        runnable = [block for block in executed if block.needs == OFFLINE and block.language == "python"]
    for group in groups_of(runnable):
        if group[0].needs in (NODE, ROBOT):
            request.getfixturevalue("fresh_panda_node")
        if group[0].needs == ROBOT:
            request.getfixturevalue("robot")
        outputs = run(together(group), folder).split(END) if len(group) > 1 else [run(group[0], folder)]
        for block, output in zip(group, outputs, strict=False):
            assert block.missing_from(output) == [], f"{name_of(page)}, block {block.number} printed:\n{output}"
    if len(runnable) < len(executed):
        pytest.skip(f"{missing} cannot be imported; {len(runnable)} of {len(executed)} blocks ran")


def groups_of(runnable: list[Block]) -> Iterator[list[Block]]:
    """Blocks that run in one process: of Python without a node as many as follow one another."""
    for is_python, group in itertools.groupby(runnable, lambda it: it.language == "python" and it.needs == OFFLINE):
        following = list(group)
        yield from [following] if is_python else ([block] for block in following)


def together(group: list[Block]) -> Block:
    """One program of Python blocks, each with names of its own: what they import takes longer than most of them."""
    after = f"torch.set_default_dtype(torch.float32)\nprint({END!r})\n"
    texts = (f"exec(compile({it.text!r}, 'block {it.number}', 'exec'), {{}})\n{after}" for it in group)
    return replace(group[0], text="import torch\n" + "".join(texts))


def run(block: Block, folder: Path) -> str:
    """Run a block, bash with `set -e`; return its output."""
    where, log = f"{block.page}, block {block.number}:\n{block.text}\n", folder / "block.log"
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    script = f"set -e\ntrap 'kill -INT $(jobs -p) 2> /dev/null || true; wait' EXIT\n{block.text}"
    if block.language == "python":
        process = PreloadedProcess(["-c", block.text], log, cwd=folder)
        code, said = process.wait(BLOCK_TIMEOUT_S), process.output
    else:
        python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        options = {"cwd": folder, "env": {**os.environ, "PATH": path, "PYTHONPATH": python_path}, "text": True}
        told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "timeout": BLOCK_TIMEOUT_S}
        result = subprocess.run(["bash", "-c", script], **told, **options)
        code, said = result.returncode, result.stdout
    assert code == 0 and "Traceback" not in said, where + said
    return said


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_is_in_a_block_that_says_how_it_is_tested(page: Path) -> None:
    for block in blocks(page):
        told = block.needs is not None or re.fullmatch(r"not executed: .{10,}", block.mark)
        assert told or block.language not in ("bash", "sh", "python"), f"block {block.number}: {block.text}"
        assert block.needs is None or block.language in ("bash", "python"), f"block {block.number}: {block.text}"
        assert not block.printed or block.needs is not None, f"block {block.number}: {block.text}"
        assert block.mark in ("", "parameters", "compiled") or told, f"block {block.number}: {block.mark}"
    assert COMMAND.findall(prose(page)) == []


def marked(mark: str) -> list:
    found = [(page, block) for page in PAGES for block in blocks(page) if block.mark == mark]
    return [pytest.param(block, id=f"{page.stem}-{block.number}") for page, block in found]


@pytest.mark.parametrize("block", marked("compiled"))
def test_cpp_compiles_against_the_interface_package(block: Block, tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    prefixes = [Path(prefix) for prefix in (sys.prefix, *os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep))]
    folders = [folder for prefix in prefixes for folder in (prefix / "include", *(prefix / "include").glob("*"))]
    if compiler is None or not any((folder / "traj_integrator_interfaces/msg").is_dir() for folder in folders):
        pytest.skip("needs g++ and the headers of traj_integrator_interfaces")
    (tmp_path / "block.cpp").write_text(block.text, encoding="utf-8")
    includes = [f"-I{folder}" for folder in folders if folder.is_dir()]
    command = [compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", *includes, "block.cpp"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=BLOCK_TIMEOUT_S)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("block", marked("parameters"))
def test_parameter_files_on_the_pages_are_valid(block: Block) -> None:
    (tree,) = yaml.safe_load(block.text).values()
    values = {name: value for name, value in dotted(tree["ros__parameters"]).items() if "qos_overrides" not in name}
    of_each = {spec.name for kind in ("trajectory", "goal") for spec in of_joints(kind, values.get("joint_names", []))}
    assert set(values) <= set(SPECS) | of_each
    NodeParameters.from_values({**default_values(), "joint_names": ["a", "b"], **values})


def test_the_controllers_on_the_page_fit_robot_and_action() -> None:
    found = blocks(ROOT / "docs" / "controllers_and_policies.md")
    text, moveit = (
        next(block.text for block in found if block.text.startswith(first))
        for first in ("controller_manager:", "moveit_controller_manager:")
    )
    robot = yaml.safe_load((ROOT / "config" / "franka.yaml").read_text(encoding="utf-8"))["/**"]["ros__parameters"]
    controller = yaml.safe_load(text)["joint_trajectory_controller"]["ros__parameters"]
    assert controller["joints"] == robot["joint_names"]
    assert controller["allow_nonzero_velocity_at_trajectory_end"] == (robot["publish"]["end"] != "stop")
    manager = yaml.safe_load(moveit)["moveit_simple_controller_manager"]
    [name] = manager["controller_names"]
    assert (name, manager[name]["action_ns"]) == ("traj_integrator", GOALS)
    assert manager[name]["type"] == "FollowJointTrajectory" and manager[name]["joints"] == robot["joint_names"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^):]+)\)", prose(page))
    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.M)
            anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in anchors, f"{link}: {anchors}"


@pytest.mark.parametrize("program", FIGURES, ids=lambda path: path.stem)
def test_a_figures_program_finds_what_it_imports(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib", "rclpy"):
        pytest.importorskip(module, reason=f"{module} cannot be imported")
    monkeypatch.syspath_prepend(str(program.parent))
    assert {"main", "running"} & {*runpy.run_path(str(program), run_name="loaded")}
