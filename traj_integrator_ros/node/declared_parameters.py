"""The parameter table on a ROS node: declared with descriptors, read, and changed atomically at run time."""

from __future__ import annotations

from collections.abc import Callable

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import Parameter

from ..parameters.parameters import InvalidParameters, NodeParameters, check_joint_names, check_value
from ..parameters.table import (
    CONSTRAINTS,
    PARAMETERS,
    SPECS,
    Changeable,
    ParameterKind,
    ParameterSpec,
    ParameterValue,
    of_joints,
)

_ARRAYS = (ParameterKind.STRING_ARRAY, ParameterKind.DOUBLE_ARRAY)
QOS_OVERRIDES = "qos_overrides."
"""Prefix of parameters that override qualities of service; rclpy declares them with each topic."""
_LATER = (QOS_OVERRIDES, CONSTRAINTS)
"""Prefixes of parameters that are declared in configure."""


class DeclaredParameters:
    """Declares the parameters of the table on a node, and checks every change of them.

    Parameters of joints are declared once the joints are known.

    Args:
        node: the node to declare them on.
        prepare: called with a checked change while the node is configured, before it takes effect; it may raise
            ValueError or RuntimeError to refuse it.
        commit: called once the change has taken effect.
        is_configured: returns whether the node is configured, so that some parameters cannot be changed.

    Raises:
        rclpy.exceptions.InvalidParameterTypeException, InvalidParameterValueException, InvalidParameters: a parameter
            file or command line gives a parameter a value of a wrong type, out of its range, or none of its choices.

    """

    def __init__(
        self,
        node: Node,
        prepare: Callable[[NodeParameters], None],
        commit: Callable[[], None],
        is_configured: Callable[[], bool],
    ) -> None:
        self._node = node
        self._prepare = prepare
        self._commit = commit
        self._is_configured = is_configured
        self._takes_effect = False
        """True if the change in progress differs from the present values."""
        self._specs = dict(SPECS)
        for spec in PARAMETERS:
            self._declare(spec)
            check_value(spec, self.value(spec.name))
        node.add_pre_set_parameters_callback(self._with_declared_types)
        node.add_on_set_parameters_callback(self._on_set)
        node.add_post_set_parameters_callback(self._on_changed)

    def value(self, name: str) -> ParameterValue:
        """Return the value of one parameter."""
        return self._plain(self._node.get_parameter(name))

    def read(self) -> NodeParameters:
        """Declare the parameters of joints; return all parameters, checked together.

        Raises:
            InvalidParameters: with the parameter, what was expected and what was given.

        """
        joints = self.value("joint_names")
        check_joint_names(joints)
        wanted = {spec.name: spec for kind in ("trajectory", "goal") for spec in of_joints(kind, joints)}
        for name in self._specs.keys() - SPECS.keys() - wanted.keys():
            del self._specs[name]
            self._node.undeclare_parameter(name)
        for name in wanted.keys() - self._specs.keys():
            self._specs[name] = wanted[name]
            try:
                self._declare(wanted[name])
            except ParameterException as error:
                del self._specs[name]
                raise InvalidParameters(str(error)) from error
        return NodeParameters.from_values(self._values())

    def unknown_overrides(self, *, configured: bool = False) -> list[str]:
        """Return names in a parameter file or on the command line that are no parameters of this node.

        Args:
            configured: whether to look among names that are declared in configure, or among the others.

        """
        given = self._node._parameter_overrides  # rclpy has no public access to undeclared parameters
        of_kind = [name for name in given if name.startswith(_LATER) == configured]
        return sorted(name for name in of_kind if not self._node.has_parameter(name))

    def _on_set(self, changes: list[Parameter]) -> SetParametersResult:
        given = {change.name: self._plain(change) for change in changes if change.name in self._specs}
        # Files and dumps that are loaded again contain mostly what holds already; `repr` tells 1 from true.
        held = {name: repr(self.value(name)) for name in given if self._node.has_parameter(name)}
        changed = {name: value for name, value in given.items() if repr(value) != held.get(name)}
        self._takes_effect = bool(changed)
        configured = self._is_configured()
        try:
            for name, value in changed.items():
                if configured and self._specs[name].changeable is Changeable.UNCONFIGURED:
                    raise ValueError(f"{name}: takes effect in configure; deactivate and clean up the node to set it")
                check_value(self._specs[name], value)
            # Before configure, missing values, such as joint_names, may follow with the next change.
            if configured and changed:
                self._prepare(NodeParameters.from_values({**self._values(), **changed}))
        except (ValueError, RuntimeError) as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _on_changed(self, changes: list[Parameter]) -> None:
        if self._is_configured() and self._takes_effect:
            self._commit()

    def _values(self) -> dict[str, ParameterValue]:
        return {name: self.value(name) for name in self._specs}

    def _declare(self, spec: ParameterSpec) -> None:
        # rclpy converts nothing before it declares: `dt: 1` in a file would be an error, unlike `param set dt 1`.
        overrides = self._node._parameter_overrides
        if spec.name in overrides:
            [overrides[spec.name]] = self._with_declared_types([overrides[spec.name]])
        descriptor = ParameterDescriptor(
            description=spec.description,
            additional_constraints=spec.constraints,
            read_only=spec.changeable is Changeable.START_UP,
        )
        if spec.range is not None and spec.kind is ParameterKind.INTEGER:
            descriptor.integer_range = [IntegerRange(from_value=spec.range[0], to_value=spec.range[1])]
        elif spec.range is not None:
            descriptor.floating_point_range = [FloatingPointRange(from_value=spec.range[0], to_value=spec.range[1])]
        if spec.kind not in _ARRAYS or spec.default:
            self._node.declare_parameter(spec.name, spec.default, descriptor)
            return
        # rclpy treats an empty list, also in a file, as a value without a type: so declare the type first, then set it.
        kind = Parameter.Type[spec.kind.name]
        if self._node.declare_parameter(spec.name, kind, descriptor).type_ is Parameter.Type.NOT_SET:
            self._node.set_parameters([Parameter(spec.name, kind, [])])

    def _with_declared_types(self, changes: list[Parameter]) -> list[Parameter]:
        """Convert numbers and empty lists to their declared types: ROS takes 1 for an integer."""
        return [
            _with_declared_type(change, self._specs[change.name]) if change.name in self._specs else change
            for change in changes
        ]

    def _plain(self, parameter: Parameter) -> ParameterValue:
        return list(parameter.value or []) if self._specs[parameter.name].kind in _ARRAYS else parameter.value


def _with_declared_type(change: Parameter, spec: ParameterSpec) -> Parameter:
    given, value, kind = change.type_.name, change.value, spec.kind
    if (given, kind) == ("INTEGER", ParameterKind.DOUBLE):
        value = float(value)
    elif (given, kind) == ("INTEGER_ARRAY", ParameterKind.DOUBLE_ARRAY):
        value = [float(number) for number in value]
    elif spec.is_for_all and given in ("INTEGER", "DOUBLE"):
        value = [float(value)]
    elif not (kind in _ARRAYS and given.endswith("_ARRAY") and len(value) == 0):
        return change
    return Parameter(change.name, Parameter.Type[kind.name], value)
