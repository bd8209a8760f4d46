"""Every tool that reads motions takes tables and bags, and refuses others; test/motions has all kinds and forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from recordings import JOINT_STATE, Message, joint_state, read_plain, states, write_bag
from tool_runs import Result, Tool

from traj_integrator_ros.tools import replay

COUNT, STEP = 40, 0.02
ROWS = states(count=COUNT, step=STEP)
TIME = STEP * np.arange(COUNT)
POSITION, VELOCITY = (np.array([getattr(row, name) for row in ROWS]) for name in ("position", "velocity"))
FLOAT32 = 1e-6
"""Rounding of positions up to 2 rad."""

READERS = {
    # arguments behind the file, and words that show that `COUNT` samples were read
    "integrate": ("--out out.csv", "points, 2 joints"),
    "check_trajectory": ("--moving-end", f"2 joints, {COUNT} points"),
    "retime": ("--out out.csv", f"unchanged, {COUNT} points"),
    "plot_trajectory": ("--out out.svg", f"2 joints, {COUNT} points"),
    "replay": ("--speed 50", f"{COUNT} joint states published"),
    "demo": ("--write-motion out.csv", f"{COUNT} samples"),
}
LIMITS = ("--velocity", "9", "--acceleration", "999", "--jerk", "1e6")
"""Arguments that `retime` needs without a robot."""
ALL = [pytest.param(name, marks=pytest.mark.ros if name == "replay" else ()) for name in READERS]


@pytest.fixture
def read(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """A function that has a reader read a file; its standard error contains notes, or the refusal."""
    monkeypatch.setattr(replay, "SUBSCRIBER_WITHIN_S", 0.0)

    def run(reader: str, path: Path, *robot: object) -> Result:
        name, *options = reader.split()
        given = robot or (LIMITS if name == "retime" else ())
        return tool(name, path, *options, *READERS[reader][0].split(), *given)

    return run


def of_joint(name: str, message: Message) -> Message:
    k = message["name"].index(name)
    return {**message, **{field: [message[field][k]] for field in ("name", "position", "velocity")}}


STATES = [joint_state(row) for row in ROWS]
WHEELS = [{**one, "name": ["left", "right"], "position": []} for one in STATES]
NAMES = ["time", *(f"{name}_{joint}" for name in ("position", "velocity") for joint in "ab")]
TABLE = [",".join(NAMES), *(",".join(map(repr, row)) for row in np.column_stack([TIME, POSITION, VELOCITY]).tolist())]
INPUTS = {
    # file, content, a part of a note
    "table": ("log.csv", "\n".join([*TABLE, "0.8,1"]), "the last row is cut off, and left out"),
    "bag": ("bag", [of_joint(name, one) for one in STATES for name in "ab"], "merged by name: messages"),
}


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
        return path
    return write_bag(path, [("/topic", JOINT_STATE, list(enumerate(content, 1)))])


@pytest.mark.parametrize(("name", "content", "note"), INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("reader", ALL)
def test_every_tool_reads_them_and_tells_what_it_left_out(
    read: Callable[..., Result], tmp_path: Path, reader: str, name: str, content: object, note: str
) -> None:
    result = read(reader, written(tmp_path, name, content))
    assert READERS[reader][1] in result.told
    told = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert any(note in line for line in told), told
    if (tmp_path / "out.csv").exists():
        out = read_plain(tmp_path / "out.csv")
        at = np.searchsorted(out.time, TIME - 1e-6)
        np.testing.assert_allclose(out.position[at], POSITION, atol=FLOAT32)


REFUSED = {
    "bag": ("bag", WHEELS, "40 with velocities only (left, right)"),
    "table": ("a.csv", "time,x,y\n0,1,2\n1,2,3\n", "got time, x, y"),
}


@pytest.mark.parametrize(("name", "content", "told"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("reader", ALL)
def test_every_tool_refuses_what_is_no_motion_in_one_line(
    read: Callable[..., Result], tmp_path: Path, reader: str, name: str, content: object, told: str
) -> None:
    result = read(reader, written(tmp_path, name, content))
    assert result.returncode == 2 and result.stdout == "" and told in result.stderr
    assert result.stderr.count("\n") == 1


JOINT = '<joint name="{}" type="{}"><limit {} velocity="{}" acceleration="999" jerk="1e6"/></joint>'
ENDS = 'lower="-3" upper="3"'
URDF = f'<robot name="r">{JOINT.format("a", "revolute", ENDS, 0.3)}{JOINT.format("b", "revolute", ENDS, 9)}</robot>'
OTHER = JOINT.format("wheel", "revolute", 'lower="0" upper="-1"', 1) + "</robot>"
EXCEEDED = {
    "integrate": "limit exceeded: velocity of a",
    "check_trajectory": "limits: velocity of a",
    "retime": f"(was {TIME[-1]:.3f} s)",
    "plot_trajectory": "limit exceeded at the points: velocity of a",
}
"""By tool, the words that show that the URDF's limit counts."""


@pytest.mark.parametrize("reader", EXCEEDED)
def test_every_tool_takes_limits_from_a_urdf_or_refuses_it(
    read: Callable[..., Result], tmp_path: Path, reader: str
) -> None:
    urdf, table = tmp_path / "robot.urdf", written(tmp_path, "log.csv", "\n".join(TABLE))
    urdf.write_text(URDF.replace("</robot>", OTHER))
    result = read(reader, table, "--urdf", urdf)
    assert (result.returncode, result.stderr) == (reader == "check_trajectory", "")
    assert EXCEEDED[reader] in result.stdout
    urdf.write_text(URDF.replace(ENDS, 'lower="3" upper="-3"'))
    result = read(reader, table, "--urdf", urdf)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert f"{urdf}: joint a: expected" in result.stderr


WAY = 2.5 + 2 * TIME
TURNING = ["time,position_a", *(f"{t},{(x + np.pi) % (2 * np.pi) - np.pi}" for t, x in zip(TIME, WAY, strict=True))]
PASSED = "a: turned on where angles pass pi"


@pytest.mark.parametrize("reader", [*EXCEEDED, "demo"])
@pytest.mark.parametrize("kind", ["continuous", "revolute"])
def test_every_tool_turns_continuous_joints_on_and_revolute_never(
    read: Callable[..., Result], tmp_path: Path, reader: str, kind: str
) -> None:
    path = written(tmp_path, "log.csv", "\n".join(TURNING))
    if reader == "demo":  # a tool without a robot
        assert PASSED in read(reader, path).stderr
        np.testing.assert_allclose(read_plain(tmp_path / "out.csv").position[:, 0], WAY, atol=1e-12)
        return
    (tmp_path / "robot.urdf").write_text(f'<robot name="r">{JOINT.format("a", kind, ENDS, 3)}</robot>')
    result = read(reader, path, "--urdf", tmp_path / "robot.urdf")
    if (tmp_path / "out.csv").exists() and kind == "continuous":
        out = read_plain(tmp_path / "out.csv")  # retimed, or with a brake behind it
        last = COUNT - 1 if reader == "integrate" else -1
        assert out.position[last, 0] - out.position[0, 0] == pytest.approx(np.ptp(WAY))
    assert (PASSED in result.stderr) == (kind == "continuous")
    assert result.returncode == (reader == "check_trajectory" and kind == "revolute"), result
    if reader in (told := {"check_trajectory": "velocity between the points of a", "retime": EXCEEDED["retime"]}):
        assert (told[reader] in result.stdout) == (kind == "revolute")
