"""Permissions that SROS 2 policies grant. Names are resolved as for a node."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

Grant = tuple[str, str]
"""Permissions (publish, subscribe, reply, request), and the full name of the topic or service."""


def enclaves(policy: Path) -> dict[str, set[Grant]]:
    """Permissions of a policy, by enclave. Raises ValueError if it denies or repeats anything."""
    found: dict[str, set[Grant]] = {}
    for enclave in ElementTree.parse(policy).getroot().iterfind("enclaves/enclave"):
        grants = [grant for profile in enclave.iterfind("profiles/profile") for grant in _grants(profile)]
        if len(grants) != len(set(grants)):
            raise ValueError(f"{policy}: expected every grant of {enclave.get('path')} once")
        found[enclave.get("path")] = set(grants)
    return found


def _grants(profile: ElementTree.Element) -> Iterator[Grant]:
    namespace, node = profile.get("ns").rstrip("/"), profile.get("node")
    for rules in profile:
        if rules.tag not in ("topics", "services", "actions") or set(rules.attrib.values()) != {"ALLOW"}:
            raise ValueError(f"expected topics, services and actions that are allowed, got {rules.tag} {rules.attrib}")
        for kind in rules.attrib:
            for expression in rules:
                name = _full_name(expression.text, namespace, node)
                yield from action(name) if kind == "execute" else [(kind, name)]


def action(name: str) -> set[Grant]:
    """Permissions that the server of an action needs."""
    parts = {"reply": ("send_goal", "cancel_goal", "get_result"), "publish": ("feedback", "status")}
    return {(kind, f"{name}/_action/{part}") for kind, names in parts.items() for part in names}


def _full_name(name: str, namespace: str, node: str) -> str:
    if name.startswith("/"):
        return name
    return f"{namespace}/{node}{name[1:]}" if name.startswith("~") else f"{namespace}/{name}"
