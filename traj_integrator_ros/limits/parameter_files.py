"""Parameter files as ROS reads them: sections of nodes, with namespaces, wildcards and dotted names. Knows no ROS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

SECTION = "ros__parameters"
_EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")
"""Numbers such as 1e3, which are strings in YAML 1.1 and numbers for rcl."""
_ANY = re.compile(r"\*\*?$")
"""The end of a pattern that matches a node's own name."""
_TOKENS = {"**": r"(/\w+)*", "*": r"/\w+"}
"""Wildcards of a pattern, as regular expressions."""


def nodes_with(content: object, name: str, has: Callable[[str], bool]) -> dict[str, dict[str, object]]:
    """Return the parameters, by dotted names, of nodes in a file that have a wanted one, by the nodes' full names.

    Sections for the same node are merged; later ones override earlier ones. Nodes of the given name go before a node of
    that name to which only patterns such as /** apply, and this one before nodes of other names: only the first of
    these groups that exists is returned.

    Args:
        content: of the file.
        name: of the node, without its namespace.
        has: returns whether a parameter of a dotted name is wanted.

    Raises:
        ValueError: a parameter is given twice in one section.

    """
    found = [*_sections(content)]
    full = [one for one, _ in found if "*" not in one]
    own = [one for one in full if one.endswith(f"/{name}")]
    fitting = [_ANY.sub(name, one).replace("/**", "").replace("/*", "/any") for one, _ in found if "*" in one]
    for group in (own, fitting, full):
        merged = {node: _merged(found, node) for node in group}
        if wanted := {node: given for node, given in merged.items() if any(map(has, given))}:
            return wanted
    return {}


def dotted(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return the parameters of a section by dotted names. Raises ValueError if one is given twice."""
    flat: dict[str, object] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        for inner, one in (dotted(value, f"{name}.") if isinstance(value, Mapping) else {name: value}).items():
            if flat.setdefault(inner, one) != one:
                raise ValueError(f"{inner} twice, {flat[inner]} and {one}")
    return flat


def load_once(text: str, constructors: Mapping[str, Callable[[str], object]] | None = None) -> object:
    """Return the content of a YAML file. No value may be given twice; maps that are given twice are merged as in ROS.

    Args:
        text: of the file.
        constructors: functions by tag that convert a text to a value.

    Raises:
        yaml.YAMLError: the text is no YAML.
        ValueError: a value is given twice.

    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
            once: dict[str, tuple[yaml.Node, yaml.Node]] = {}
            for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
                _, before = once.setdefault(str(key.value), (key, value))
                if before is value or before.value == value.value:
                    continue
                if not (isinstance(before, yaml.MappingNode) and isinstance(value, yaml.MappingNode)):
                    raise ValueError(f"{key.value} twice, again in line {key.start_mark.line + 1}")
                before.value = before.value + value.value
            node.value = [*once.values()]
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, [*"-+.0123456789"])
    for tag, made in (constructors or {}).items():
        Loader.add_constructor(tag, lambda loader, node, made=made: made(loader.construct_scalar(node)))
    return yaml.load(text, Loader)


def _sections(content: object, name: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the full name of each section's node, or a pattern for it, and the section's parameters."""
    if not isinstance(content, Mapping):
        return
    for key, inner in content.items():
        if key != SECTION:
            yield from _sections(inner, f"{name}/{str(key).strip('/')}")
        elif isinstance(inner, Mapping):
            yield name, dotted(inner)


def _merged(found: list[tuple[str, dict[str, object]]], node: str) -> dict[str, object]:
    merged: dict[str, object] = {}
    for pattern, parameters in found:
        tokens = (_TOKENS.get(token, f"/{re.escape(token)}") for token in pattern.split("/")[1:])
        if re.fullmatch("".join(tokens), node):
            merged |= parameters
    return merged
