"""SROS 2 policies: what they grant, and the DDS permissions that `ros2 security` generates from them.

The rules are those of the sros2 package (names in a policy are resolved as names of a node; topics become rt/…,
services rq/…Request and rr/…Reply), written down once more for machines on which it is not installed.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

Grant = tuple[str, str]
"""What is allowed (publish, subscribe, reply, request), and the full name of the topic or service."""
# A reply is published, a request subscribed to by the server; the other way around by a client.
_DDS_TOPICS = {
    "publish": (("publish", "rt{}"),),
    "subscribe": (("subscribe", "rt{}"),),
    "reply": (("publish", "rr{}Reply"), ("subscribe", "rq{}Request")),
    "request": (("publish", "rq{}Request"), ("subscribe", "rr{}Reply")),
}
_GRAPH = "ros_discovery_info"
"""DDS topic by which Fast DDS and Cyclone DDS tell which node has which topics; every enclave may use it."""


def enclaves(policy: Path) -> dict[str, set[Grant]]:
    """What a policy grants, by enclave. Raises ValueError where it denies or repeats anything, or has actions."""
    found: dict[str, set[Grant]] = {}
    for enclave in ElementTree.parse(policy).getroot().iterfind("enclaves/enclave"):
        grants = [grant for profile in enclave.iterfind("profiles/profile") for grant in _grants(profile)]
        if len(grants) != len(set(grants)):
            raise ValueError(f"{policy}: expected every grant of {enclave.get('path')} once")
        found[enclave.get("path")] = set(grants)
    return found


def permissions_xml(enclave: str, grants: set[Grant], domain_id: int, valid: tuple[str, str]) -> str:
    """The permissions of DDS security for an enclave: these, ros_discovery_info, and nothing else.

    Args:
        enclave: path, which is the common name of its certificate.
        grants: of the enclave.
        domain_id: in which they hold.
        valid: from and until when, as 2026-01-31T12:00:00.

    """
    topics: dict[str, set[str]] = {"publish": {_GRAPH}, "subscribe": {_GRAPH}}
    for kind, name in grants:
        for direction, pattern in _DDS_TOPICS[kind]:
            topics[direction].add(pattern.format(name))
    rules = "".join(
        f"<{direction}><topics>{''.join(f'<topic>{name}</topic>' for name in sorted(names))}</topics></{direction}>"
        for direction, names in topics.items()
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<dds>
<permissions><grant name="{enclave}">
<subject_name>CN={enclave}</subject_name>
<validity><not_before>{valid[0]}</not_before><not_after>{valid[1]}</not_after></validity>
<allow_rule><domains><id>{domain_id}</id></domains>{rules}</allow_rule>
<default>DENY</default>
</grant></permissions>
</dds>
"""


def governance_xml(domain_id: int) -> str:
    """What `ros2 security create_keystore` writes: no unknown participants, everything encrypted, access controlled."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<dds><domain_access_rules><domain_rule>
<domains><id>{domain_id}</id></domains>
<allow_unauthenticated_participants>false</allow_unauthenticated_participants>
<enable_join_access_control>true</enable_join_access_control>
<discovery_protection_kind>ENCRYPT</discovery_protection_kind>
<liveliness_protection_kind>ENCRYPT</liveliness_protection_kind>
<rtps_protection_kind>SIGN</rtps_protection_kind>
<topic_access_rules><topic_rule>
<topic_expression>*</topic_expression>
<enable_discovery_protection>true</enable_discovery_protection>
<enable_liveliness_protection>true</enable_liveliness_protection>
<enable_read_access_control>true</enable_read_access_control>
<enable_write_access_control>true</enable_write_access_control>
<metadata_protection_kind>ENCRYPT</metadata_protection_kind>
<data_protection_kind>ENCRYPT</data_protection_kind>
</topic_rule></topic_access_rules>
</domain_rule></domain_access_rules></dds>
"""


def _grants(profile: ElementTree.Element) -> Iterator[Grant]:
    namespace, node = profile.get("ns").rstrip("/"), profile.get("node")
    for rules in profile:
        if rules.tag not in ("topics", "services") or set(rules.attrib.values()) != {"ALLOW"}:
            raise ValueError(f"expected topics and services that are allowed, got {rules.tag} {rules.attrib}")
        for kind in rules.attrib:
            for expression in rules:
                yield kind, _full_name(expression.text, namespace, node)


def _full_name(name: str, namespace: str, node: str) -> str:
    if name.startswith("/"):
        return name
    return f"{namespace}/{node}{name[1:]}" if name.startswith("~") else f"{namespace}/{name}"
