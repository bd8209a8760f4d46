"""Every tool that reads motions takes them in every form that users have, and refuses the rest in the same line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from joint_state_rows import joint_state, states
from motion_tables import read_plain
from recorded_messages import (
    DISPLAY_TRAJECTORY,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    TRAJECTORY_BATCH,
    Message,
    printed,
    write_bag,
)
from tool_runs import Result, Tool

from traj_integrator_ros.demo.motion import load_recording
from traj_integrator_ros.motions.samples import QUANTITIES, RecordingError
from traj_integrator_ros.tools import replay

COUNT, STEP = 40, 0.02
ROWS = states(count=COUNT, step=STEP)
TIME = STEP * np.arange(COUNT)
POSITION, VELOCITY = (np.array([getattr(row, name) for row in ROWS]) for name in ("position", "velocity"))
FLOAT32 = 1e-6
"""Of positions up to 2 rad."""


@dataclass(frozen=True)
class Reader:
    """A tool, how it is asked, and how it says that it has read `COUNT` samples."""

    name: str
    arguments: tuple[str, ...]
    says: str
    limits: tuple[str, ...] = ()
    """Options that it needs without a robot."""


READERS = {
    "integrate": Reader("integrate", ("--quiet", "--out", "out.csv", "--end", "as_planned"), "points, 2 joints"),
    "fit": Reader("integrate", ("--quiet", "--fit", "8", "--out", "fit.npz"), f"for {COUNT} samples"),
    "check_trajectory": Reader("check_trajectory", ("--moving-end",), f"2 joints, {COUNT} points"),
    "retime": Reader(
        "retime", ("--out", "out.csv"), f"unchanged, {COUNT} points",
        ("--velocity", "9", "--acceleration", "999", "--jerk", "1e6"),
    ),
    "plot_trajectory": Reader("plot_trajectory", ("--out", "out.svg"), f"2 joints, {COUNT} points"),
    "replay": Reader("replay", ("--speed", "50"), f"{COUNT} joint states published"),
}  # fmt: skip
DEMO = "demo"
ONE = "check_trajectory"
"""Reads every form; the others, which read by the same function, one form of each kind of files."""


def readers_of(forms: dict[str, object], *of_all: str) -> list:
    """Every form with one tool and the demo, and these forms with all tools."""
    pairs = [(name, reader) for name in forms for reader in (*READERS, DEMO) if name in of_all or reader in (ONE, DEMO)]
    ros = {"replay": pytest.mark.ros}
    return [
        pytest.param(reader, *forms[name], id=f"{name}-{reader}", marks=ros.get(reader, ())) for name, reader in pairs
    ]


@pytest.fixture
def read(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """A function that lets a reader read a file; what it says on standard error are notes, or why it is refused."""
    monkeypatch.setattr(replay, "SUBSCRIBER_WITHIN_S", 0.0)

    def run(reader: str, path: Path, *more: object) -> Result:
        if reader != DEMO:
            asked = READERS[reader]
            return tool(asked.name, path, *asked.arguments, *(more or asked.limits))
        try:
            motion = load_recording(path)
        except RecordingError as error:
            return Result(2, "", f"{error}\n")
        np.testing.assert_allclose(motion.position, POSITION, atol=FLOAT32)
        return Result(0, "", "".join(f"note: {note}\n" for note in motion.notes))

    return run


def empty(at: int) -> Message:
    return {**joint_state(ROWS[at]), "name": [], "position": [], "velocity": []}


def wheels(at: int) -> Message:
    return {**joint_state(ROWS[at]), "name": ["left", "right"], "position": []}


def of_joint(name: str, message: Message) -> Message:
    k = message["name"].index(name)
    return {**message, **{field: [message[field][k]] for field in ("name", "position", "velocity")}}


def trajectory() -> Message:
    times = [{"sec": 0, "nanosec": round(1e9 * time)} for time in TIME]
    points = [
        {"positions": p.tolist(), "velocities": v.tolist(), "time_from_start": time}
        for p, v, time in zip(POSITION, VELOCITY, times, strict=True)
    ]
    return {"joint_names": ["a", "b"], "points": points}


STATES = [joint_state(row) for row in ROWS]
NAN_RATES = [{**one, "velocity": [float("nan")] * 2} for one in STATES]
BATCH = {
    "joint_names": ["a", "b"], "batch": 1, "horizon": COUNT, "time_from_start": TIME.tolist(),
    **{name: [] for name in QUANTITIES}, "position": POSITION.ravel().tolist(), "velocity": VELOCITY.ravel().tolist(),
}  # fmt: skip
MESSAGES = {
    # type, messages, a part of a note or ""
    "joint states": (JOINT_STATE, STATES, ""),
    "of two publishers": (
        JOINT_STATE, [of_joint(joint, one) for one in STATES for joint in "ab"], "merged by name: messages with",
    ),
    "with empty ones": (JOINT_STATE, [empty(0), *STATES], "left out of 41 messages: 1 without positions"),
    "of wheels first": (JOINT_STATE, [wheels(0), *STATES], "1 with velocities only (left, right)"),
    "repeated": (JOINT_STATE, [*STATES[:9], STATES[8], *STATES[9:]], "1 received twice"),
    "out of order": (
        JOINT_STATE, [*STATES[:9], STATES[10], STATES[9], *STATES[11:]], "1 message out of order, sorted",
    ),
    "velocities NaN": (JOINT_STATE, NAN_RATES, ""),
    "JointTrajectory": (JOINT_TRAJECTORY, [trajectory()], ""),
    "DisplayTrajectory": (DISPLAY_TRAJECTORY, [{"trajectory": [{"joint_trajectory": trajectory()}]}], ""),
    "TrajectoryBatch": (TRAJECTORY_BATCH, [BATCH], ""),
}  # fmt: skip


def table(separator: str = ",", sign: str = ".", names: tuple[str, ...] = ("position_{}", "velocity_{}")) -> list[str]:
    time = "time" if "position" in names[0] else "timestamp"
    joints = "ab" if time == "time" else "01"
    header = separator.join([time, *(name.format(joint) for name in names for joint in joints)])
    rows = np.column_stack([TIME, POSITION, VELOCITY]).tolist()
    return [header, *(separator.join(repr(value).replace(".", sign) for value in row) for row in rows)]


PLAIN, SET_POINTS = table(), table(names=("target_q_{}", "target_qd_{}"))
TABLES = {
    "commas": (PLAIN, ""),
    "semicolons, decimal commas": (table(";", ","), ""),
    "tabs": (table("\t"), ""),
    "actual_q of a controller": (table(" ", names=("actual_q_{}", "actual_qd_{}")), ""),
    "set points of a controller, a row twice": ([*SET_POINTS, SET_POINTS[-1]], "1 row left out, with the time of"),
    "a row twice": ([*PLAIN[:9], PLAIN[8], *PLAIN[9:]], "1 row left out, with the time of another one"),
    "rows out of order": ([*PLAIN[:9], PLAIN[10], PLAIN[9], *PLAIN[11:]], "1 row out of order, sorted by their times"),
    "last row cut off": ([*PLAIN, "0.8,1"], "the last row is cut off, and left out"),
}
INPUTS = {
    **{f"table: {name}": ("log.csv", "\n".join(lines), note) for name, (lines, note) in TABLES.items()},
    **{f"yaml: {name}": ("echo.yaml", (kind, messages), note) for name, (kind, messages, note) in MESSAGES.items()},
    **{f"bag: {name}": ("bag", (kind, messages), note) for name, (kind, messages, note) in MESSAGES.items()},
    "archive with names as bytes": ("motion.npz", None, ""),
}


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    if path.suffix == ".csv":
        path.write_text(content)
    elif path.suffix == ".yaml":
        path.write_text(printed(*content[1]))
    elif path.suffix == ".npz":
        np.savez(path, time=TIME, position=POSITION, velocity=VELOCITY, joint_names=np.array([b"a", b"b"]))
    else:
        write_bag(path, [("/topic", content[0], list(enumerate(content[1], 1)))])
    return path


@pytest.mark.parametrize(
    ("reader", "name", "content", "note"),
    readers_of(
        INPUTS, "table: last row cut off", "yaml: JointTrajectory", "bag: of two publishers", "bag: TrajectoryBatch"
    ),
)
def test_every_tool_reads_every_form_and_tells_what_it_left_out(
    read: Callable[..., Result], tmp_path: Path, reader: str, name: str, content: object, note: str
) -> None:
    result = read(reader, written(tmp_path, name, content))
    assert result.returncode == 0, result.stderr
    told = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert any(note in line for line in told) if note else (not told or reader == DEMO), told
    if reader in READERS:
        assert READERS[reader].says in result.stdout
    if (tmp_path / "out.csv").exists():
        out = read_plain(tmp_path / "out.csv")
        at = np.searchsorted(out.time, TIME - 1e-6)
        np.testing.assert_allclose(out.position[at], POSITION, atol=FLOAT32)


SLOW = ["time,position_a", *(f"{0.1 * k},{k}" for k in range(COUNT))]
REFUSED = {
    "bag: velocities only": ("bag", (JOINT_STATE, [wheels(k) for k in range(COUNT)]), "40 with velocities only (left"),
    "yaml: velocities only": ("a.yaml", (JOINT_STATE, [wheels(k) for k in range(COUNT)]), "40 with velocities only"),
    "bag: something else": ("bag", ("geometry_msgs/msg/Point", [{}]), "got /topic (geometry_msgs/msg/Point)"),
    "yaml: something else": ("a.yaml", ("", [{"pose": {"x": 1}, "frame": "base"}]), "with the keys pose, frame"),
    "table: columns of something else": ("a.csv", "time,x,y\n0,1,2\n1,2,3\n", "got time, x, y"),
    "table: one recording after the other": ("a.csv", "\n".join([*SLOW, *SLOW[1:]]), "as of another recording"),
}


@pytest.mark.parametrize(
    ("reader", "name", "content", "told"),
    readers_of(REFUSED, "bag: velocities only", "table: columns of something else"),
)
def test_every_tool_refuses_what_is_no_motion_in_one_line_that_says_what_it_is(
    read: Callable[..., Result], tmp_path: Path, reader: str, name: str, content: object, told: str
) -> None:
    result = read(reader, written(tmp_path, name, content))
    assert result.returncode == 2 and result.stdout == "" and told in result.stderr
    assert result.stderr.count("\n") == 1


JOINT = '<joint name="{}" type="{}"><limit {} velocity="{}" acceleration="999" jerk="1e6"/></joint>'
ENDS = 'lower="-3" upper="3"'
URDF = f'<robot name="r">{JOINT.format("a", "revolute", ENDS, 0.3)}{JOINT.format("b", "revolute", ENDS, 9)}</robot>'
LOCKED = JOINT.format("wheel", "revolute", 'lower="0" upper="0"', 1) + "</robot>"
URDFS = {
    "plain": URDF,
    "default namespace": URDF.replace("<robot", '<robot xmlns="http://ros.org"'),
    "undeclared prefix": URDF.replace("</robot>", '<sensor:camera name="c"/></robot>'),
    "blank line first": f'\n<?xml version="1.0"?>\n{URDF}',
    "leftover macro": URDF.replace("</robot>", '<xacro:gripper name="g"/></robot>'),
    "NUL at the end": f"{URDF}\0",
    "declared Latin-1": f'<?xml version="1.0" encoding="ISO-8859-1"?><!-- \xe9 -->{URDF}',
    "another joint locked": URDF.replace("</robot>", LOCKED),
    "another joint's limits swapped": URDF.replace("</robot>", LOCKED.replace('upper="0"', 'upper="-1"')),
    "another joint's limits unreadable": URDF.replace("</robot>", LOCKED.replace('"0"', '"0,5"')),
}
NOT_URDFS = {
    "xacro": URDF.replace('velocity="0.3"', 'velocity="${fast}"'),
    "truncated": URDF[:-20],
    "own joint's limits swapped": URDF.replace(ENDS, 'lower="3" upper="-3"'),
}
EXCEEDED = {
    "integrate": "limit exceeded: velocity of a",
    "fit": "limit exceeded: velocity of a",
    "check_trajectory": "limits: velocity of a",
    "retime": f"(was {TIME[-1]:.3f} s)",
    "plot_trajectory": "limit exceeded at the points: velocity of a",
}
"""By tool, what tells that the limit of the URDF counts."""


def tools_with(urdfs: dict[str, str]) -> list:
    """Every URDF with one tool, and the first with all."""
    first = next(iter(urdfs))
    pairs = [(name, reader) for name in urdfs for reader in EXCEEDED if reader == ONE or name == first]
    return [pytest.param(reader, urdfs[name], id=f"{name}-{reader}") for name, reader in pairs]


@pytest.mark.parametrize(("reader", "urdf"), tools_with(URDFS))
def test_every_tool_takes_the_limits_of_a_urdf_that_ros_reads(
    read: Callable[..., Result], tmp_path: Path, reader: str, urdf: str
) -> None:
    (tmp_path / "robot.urdf").write_bytes(urdf.encode("latin-1"))
    result = read(reader, written(tmp_path, "log.csv", "\n".join(PLAIN)), "--urdf", tmp_path / "robot.urdf")
    assert (result.returncode, result.stderr) == (reader == "check_trajectory", "")
    assert EXCEEDED[reader] in result.stdout


@pytest.mark.parametrize(("reader", "urdf"), tools_with(NOT_URDFS))
def test_every_tool_refuses_another_urdf_in_one_line(
    read: Callable[..., Result], tmp_path: Path, reader: str, urdf: str
) -> None:
    (tmp_path / "robot.urdf").write_text(urdf)
    result = read(reader, written(tmp_path, "log.csv", "\n".join(PLAIN)), "--urdf", tmp_path / "robot.urdf")
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert f"{tmp_path / 'robot.urdf'}: " in result.stderr


WAY = 2.5 + 2 * TIME
TURNING = ["time,position_a", *(f"{t},{(x + np.pi) % (2 * np.pi) - np.pi}" for t, x in zip(TIME, WAY, strict=True))]
PASSED = "a: turned on where angles pass pi"


@pytest.mark.parametrize("reader", [*EXCEEDED, DEMO])
@pytest.mark.parametrize("kind", ["continuous", "revolute"])
def test_every_tool_turns_a_joint_on_where_its_angle_passes_pi_and_revolute_ones_never(
    tool: Tool, tmp_path: Path, reader: str, kind: str
) -> None:
    path = written(tmp_path, "log.csv", "\n".join(TURNING))
    if reader == DEMO:  # which knows no robot
        motion = load_recording(path)
        assert PASSED in motion.notes
        np.testing.assert_allclose(motion.position[:, 0], WAY, atol=1e-12)
        return
    (tmp_path / "robot.urdf").write_text(f'<robot name="r">{JOINT.format("a", kind, ENDS, 3)}</robot>')
    asked = READERS[reader]
    result = tool(asked.name, path, *asked.arguments, "--urdf", tmp_path / "robot.urdf")
    assert (PASSED in result.stderr) == (kind == "continuous")
    assert result.returncode == (reader == "check_trajectory" and kind == "revolute"), result
    if reader in (told := {"check_trajectory": "velocity between the points of a", "retime": EXCEEDED["retime"]}):
        assert (told[reader] in result.stdout) == (kind == "revolute")
