"""The robot that a tool works for: joints and limits from a parameter file of the node."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..handling.limits import JointLimits
from ..motions.extras import require
from .command_line import UserError

SECTION = "ros__parameters"


def limits_of(path: Path, joint_names: Sequence[str]) -> JointLimits:
    """The limits in a parameter file for a motion of these joints.

    Joints that the file does not name are reported in a line on standard error. Raises UserError if it names none of
    them, because then it is for another robot.
    """
    limits = load_limits(path)
    missing = [name for name in joint_names if name not in limits.joint_names]
    if len(missing) == len(joint_names):
        raise UserError(
            f"{path}: expected limits of {', '.join(joint_names)}, got those of {', '.join(limits.joint_names)}"
        )
    if missing:
        print(f"note: {path} has no limits of {', '.join(missing)}", file=sys.stderr)
    return limits


def load_limits(path: Path) -> JointLimits:
    """Joint names and limits of a parameter file, and of the URDF file that it names, as the node would use them.

    Raises UserError.
    """
    from ..handling.parameter_table import SPECS
    from ..handling.parameters import InvalidParameters, NodeParameters, default_values
    from ..handling.urdf_limits import RobotLimits, UrdfError

    given = _flat(_section(path))
    values = {**default_values(), **{name: value for name, value in given.items() if name in SPECS}}
    try:
        parameters = RobotLimits.configured(NodeParameters.from_values(values)).parameters
    except (InvalidParameters, UrdfError) as error:
        raise UserError(f"{path}: {error}") from None
    except (TypeError, ValueError, KeyError) as error:
        raise UserError(f"{path}: a parameter of a wrong type: {error}") from None
    return parameters.joint_limits


def _section(path: Path) -> dict[str, object]:
    require("yaml", f"reading {path}")
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a YAML file: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    sections = [node.get(SECTION) for node in content.values() if isinstance(node, dict)] if _is_map(content) else []
    found = [section for section in sections if _is_map(section) and "joint_names" in section]
    if not found:
        raise UserError(f"{path}: expected a parameter file with joint_names below {SECTION} (see config/franka.yaml)")
    return found[0]


def _flat(tree: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in tree.items():
        flat.update(_flat(value, f"{prefix}{key}.") if _is_map(value) else {f"{prefix}{key}": value})
    return flat


def _is_map(value: object) -> bool:
    return isinstance(value, dict)
