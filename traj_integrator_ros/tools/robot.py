"""The robot of a tool: joints, limits and units from a parameter file of the node, or from a URDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..limits.found import LimitsError
from ..limits.joint_limits import JointLimits
from ..limits.parameter_files import SECTION, load_once, nodes_with
from ..limits.urdf import load_joint_types, load_urdf, read_joint_types
from ..motions.extras import read_text, require
from ..motions.samples import Samples
from ..motions.units import JointUnits
from .command_line import ToolParser, UserError, file, note

if TYPE_CHECKING:  # imports torch
    from ..parameters.parameters import NodeParameters

NODE = "traj_integrator"
"""Name of the node whose parameters are taken from a file for several nodes."""
_OTHERS = ("constraints.", "qos_overrides.", "use_sim_time", "start_type_description_service")
"""Beginnings of parameter names that belong to single joints, to topics or to ROS."""


@dataclass(frozen=True)
class Robot:
    """A robot's joints, units and limits, as far as they are known."""

    limits: JointLimits | None = None
    """Limits of the joints; None if no file gives any, or if the joints of a URDF are not chosen yet."""
    units: JointUnits = field(default_factory=JointUnits)
    source: str = ""
    """File that names the joints."""
    continuous: tuple[str, ...] = ()
    """Continuous joints, which turn without end."""
    parameters: NodeParameters | None = None
    """The node's parameters, if a parameter file was given."""
    urdf: str = ""
    """Text of a URDF, from which the limits of a motion's joints are taken; empty with a parameter file."""

    def described(self, urdf: str, topic: str) -> Robot:
        """Return the robot with units and continuous joints from a URDF on a topic, unless a file gives them.

        A URDF that cannot be read is reported in a line on standard error.
        """
        if not urdf or self.units.slides:
            return self
        try:
            types = read_joint_types(urdf, topic)
        except LimitsError as error:
            note(error)
            return self
        ends = [] if self.limits is None else [bound for bound in self.limits.range_of("position") if bound is not None]
        bounded = {name for bound in ends for name, value in zip(self.limits.joint_names, bound, strict=True)
                   if np.isfinite(value)}  # fmt: skip
        turning = [name for name in _turning(types) if name not in bounded]
        return replace(self, units=_units_of(types), continuous=(*self.continuous, *turning))

    def unwrapped(self, samples: Samples) -> Samples:
        """Unwrap the continuous joints of a motion, so that angles go on at pi, and report that."""
        turning = np.isin(samples.joint_names, self.continuous)
        position = np.array(samples.position)
        position[:, turning] = np.unwrap(position[:, turning], axis=0)
        passed = np.flatnonzero((position != samples.position).any(axis=0))
        if not passed.size:
            return samples
        note(f"{', '.join(samples.joint_names[i] for i in passed)}: turned on where angles pass pi ({self.source})")
        return replace(samples, position=position)

    def for_motion(self, joint_names: Sequence[str]) -> Robot:
        """Return the robot with the limits of a motion's joints.

        Joints that the robot lacks are reported in a line on standard error. Raises UserError if it lacks all of them,
        since it is another robot then, or if one of their limits is wrong.
        """
        robot = self
        if self.urdf:
            try:
                found = load_urdf(self.urdf, tuple(joint_names))
            except LimitsError as error:
                raise UserError(str(error)) from None
            limited = [name for name in joint_names if name not in found.without]
            robot = replace(self, limits=found.limits.of_joints(limited))
        if robot.limits is None:
            return robot
        missing = [name for name in joint_names if name not in robot.limits.joint_names]
        if len(missing) == len(joint_names):
            raise UserError(
                f"{self.source}: expected limits of {', '.join(joint_names)}, got those of "
                f"{', '.join(robot.limits.joint_names)}"
            )
        if missing:
            note(f"{self.source} has no limits of {', '.join(missing)}")
        return robot


def add_robot_options(parser: ToolParser, params_help: str) -> None:
    """Add the options --params and --urdf."""
    parser.option("--params", params_help, "FILE", file)
    parser.option("--urdf", "the robot's URDF: limits that --params does not give, and units", "FILE", file)


def load_robot(params: Path | None, urdf: Path | None) -> Robot:
    """Return the robot of a parameter file, with the URDF that it or an option names. Raises UserError."""
    if params is not None:
        return _of_parameters(params, urdf)
    if urdf is None:
        return Robot()
    try:
        types = load_joint_types(str(urdf))
    except LimitsError as error:
        raise UserError(str(error).replace("limits.urdf: expected topic, none or", "--urdf: expected")) from None
    return Robot(None, _units_of(types), str(urdf), _turning(types), urdf=str(urdf))


def _of_parameters(path: Path, urdf: Path | None) -> Robot:
    from ..parameters.in_force import FROM_NOWHERE, FROM_TOPIC, RobotLimits
    from ..parameters.parameters import InvalidParameters, NodeParameters, default_values, unknown_names
    from ..parameters.table import SPECS  # imports torch

    there = _parameters(path)
    given = {name: value for name, value in there.items() if name in SPECS}
    if unknown := [name for name in there if name not in SPECS and not name.startswith(_OTHERS)]:
        note(f"{path}: left out, since the node has no such parameters: {unknown_names(unknown)}")
    if urdf is not None:
        given["limits.urdf"] = str(urdf)
    try:
        parameters = RobotLimits.configured(NodeParameters.from_values({**default_values(), **given})).parameters
        named = parameters.limits_urdf
        units = JointUnits() if named in (FROM_TOPIC, FROM_NOWHERE) else _units_of(load_joint_types(named))
    except (InvalidParameters, LimitsError) as error:
        raise UserError(f"{path}: {error}") from None
    return Robot(parameters.joint_limits, units, str(path), parameters.limits_continuous, parameters)


def _units_of(types: Mapping[str, str]) -> JointUnits:
    return JointUnits({name: kind == "prismatic" for name, kind in types.items()})


def _turning(types: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name, kind in types.items() if kind == "continuous")


def _parameters(path: Path) -> dict[str, object]:
    """Return the node's parameters in a file by their dotted names."""
    require("yaml", f"reading {path}")
    import yaml

    try:
        nodes = nodes_with(load_once(read_text(path)), NODE, lambda name: name == "joint_names")
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{path}: expected a parameter file, got {' '.join(str(error).split())}") from None
    if not nodes:
        raise UserError(f"{path}: expected a parameter file with joint_names below {SECTION} (see config/franka.yaml)")
    chosen, *others = nodes
    if others:
        note(f"{path}: parameters of {chosen} taken, left out: {', '.join(others)}")
    return nodes[chosen]
