"""Transports fit the size of the messages, never override what the user chose, and say why."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from traj_integrator_ros.wire import transport
from traj_integrator_ros.wire.transport import (
    DEFAULT_LIMIT_MIB,
    LIMIT_VARIABLE,
    MIB,
    PROFILE_VARIABLES,
    choose_transport,
    prepare_transport,
    profile,
    profile_variable,
    stays_local,
)

FAST_DDS_3, FAST_DDS_2 = PROFILE_VARIABLES
LARGE = 4 * 5 * 1000 * 32 * 7
MUCH = 1024 * MIB


CHOICES = {
    "two of the largest messages": (LARGE, {}, 1024, 10, "shared memory of 10 MiB for messages of up to 4.48 MB"),
    "small messages": (4 * 5 * 32 * 32 * 7, {}, 1024, 0, "fit"),
    "no more than by default": (20 * LARGE, {}, 1024, DEFAULT_LIMIT_MIB, ""),
    "no more than the user says": (20 * LARGE, {LIMIT_VARIABLE: "3"}, 1024, 3, ""),
    "more if the user says so": (20 * LARGE, {LIMIT_VARIABLE: "64"}, 1024, 64, ""),
    "nothing if the user says so": (20 * LARGE, {LIMIT_VARIABLE: "0"}, 1024, 0, "is 0"),
    **{
        name: (LARGE, {name: "something"}, 1024, 0, name)
        for name in (*PROFILE_VARIABLES, "FASTDDS_BUILTIN_TRANSPORTS", "RMW_FASTRTPS_USE_QOS_FROM_XML")
    },
    **{
        name: (LARGE, {"RMW_IMPLEMENTATION": name}, 1024, 0, name)
        for name in ("rmw_cyclonedds_cpp", "rmw_zenoh_cpp", "rmw_connextdds")
    },
    "another name of Fast DDS": (LARGE, {"RMW_IMPLEMENTATION": "rmw_fastrtps_dynamic_cpp"}, 1024, 10, ""),
    "all that is wanted is a quarter of what is free": (LARGE, {}, 48, 10, ""),
    "a quarter of what is free": (LARGE, {}, 24, 6, ""),
    "a quarter that is too little": (LARGE, {}, 16, 4, "SHORT"),
    "very little": (LARGE, {}, 4, 1, "SHORT"),
    "too little for anything": (LARGE, {}, 3, 0, "SHORT"),
    "none at all": (LARGE, {}, None, 0, "go by UDP, which is slower: there is no /dev/shm"),
    "a profile of the user that finds none": (LARGE, {PROFILE_VARIABLES[0]: "/my.xml"}, 8, 0, "SHORT"),
}
"""Largest message, environment, free MiB; the segment in MiB, and what the reason says."""


@pytest.mark.parametrize("name", CHOICES)
def test_transports_fit_messages_choice_and_free_memory(name: str) -> None:
    message_bytes, environment, free_mib, segment_mib, said = CHOICES[name]
    chosen = choose_transport(message_bytes, environment, None if free_mib is None else free_mib * MIB)
    assert (chosen.segment_bytes, chosen.is_short) == (segment_mib * MIB, said == "SHORT" or free_mib is None)
    is_in = f"/dev/shm has {free_mib} MiB left" if said == "SHORT" else said
    assert is_in in chosen.reason and ("--shm-size" in chosen.reason) is (said == "SHORT")


def test_without_fast_dds_nothing_is_chosen() -> None:
    assert choose_transport(LARGE, {}, MUCH, has_fast_dds=False).segment_bytes == 0


def test_a_file_that_fast_dds_reads_by_itself_counts_as_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert choose_transport(LARGE, {}, MUCH).segment_bytes > 0
    (tmp_path / "DEFAULT_FASTDDS_PROFILES.xml").touch()
    chosen = choose_transport(LARGE, {}, MUCH)
    assert chosen.segment_bytes == 0 and "DEFAULT_FASTDDS_PROFILES.xml" in chosen.reason


@pytest.mark.parametrize(("local", "name"), [(True, "fastdds_localhost"), (False, "fastdds_shared_memory")])
def test_a_profile_is_that_of_config_but_for_its_size(project_root: Path, local: bool, name: str) -> None:
    assert values(profile(3 * MIB, local).encode())["segment_size"] == [str(3 * MIB)]
    kept = values((project_root / "config" / f"{name}.xml").read_bytes())
    assert values(profile(DEFAULT_LIMIT_MIB * MIB, local).encode()) == kept
    assert int(kept["port_queue_capacity"][0]) > 512, "calls are lost under load with Fast DDS's default"


def values(xml: bytes) -> dict[str, list[str]]:
    """Contents of a profile; its names are its own."""
    found: dict[str, list[str]] = {}
    for element in ElementTree.fromstring(xml).iter():
        if element.text and element.text.strip() and not element.tag.endswith("transport_id"):
            found.setdefault(element.tag.rpartition("}")[2], []).append(element.text.strip())
    return found


def test_it_stays_on_this_machine_where_ros_does() -> None:
    assert stays_local({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}) and stays_local({"ROS_LOCALHOST_ONLY": "1"})
    assert not stays_local({"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}) and not stays_local({})


@pytest.fixture
def nothing_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without chosen transports, and its user's home."""
    for name in (*PROFILE_VARIABLES, "FASTDDS_BUILTIN_TRANSPORTS", LIMIT_VARIABLE, "ROS_HOME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(transport, "installed_profile_variable", lambda: PROFILE_VARIABLES[0])
    monkeypatch.setattr(transport, "_free_bytes", lambda: MUCH)
    monkeypatch.setattr(transport, "_has_started", lambda: False)
    return tmp_path


def test_the_profile_is_written_once_and_named_to_the_middleware(nothing_chosen: Path) -> None:
    chosen = prepare_transport(1000, 32, 7)
    file = Path(os.environ[PROFILE_VARIABLES[0]])
    assert file == nothing_chosen / ".ros" / "traj_integrator_ros" / "fastdds_10_mib_localhost.xml"
    assert file.read_text() == profile(chosen.segment_bytes, local=True), "tests stay on this machine"
    assert "transports are those of" in prepare_transport(1000, 32, 7).reason
    os.environ[PROFILE_VARIABLES[0]] = ""
    assert prepare_transport(1000, 32, 7) == chosen
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_choice_after_the_middleware_has_started_is_an_error(
    nothing_chosen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_has_started", lambda: True)
    with pytest.raises(RuntimeError, match="expected a choice before the first node"):
        prepare_transport(1000, 32, 7)
    assert "fit" in prepare_transport(1, 32, 7).reason


# The installed Fast DDS


@pytest.mark.parametrize(
    ("libraries", "expected"),
    [
        (["ros/lib/libfastdds.so.3.2.2"], FAST_DDS_3),
        (["ros/lib/x86_64-linux-gnu/libfastrtps.so.2.14.5"], FAST_DDS_2),
        (["ros/lib/libfastrtps.so", "below/lib/libfastdds.so"], FAST_DDS_2),
        (["python/lib/libfastrtps.so.2.14"], FAST_DDS_2),
        ([], FAST_DDS_3),
    ],
)
def test_the_first_library_decides_and_then_the_newer_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, libraries: list[str], expected: str
) -> None:
    for library in libraries:
        (tmp_path / library).parent.mkdir(parents=True)
        (tmp_path / library).touch()
    monkeypatch.setenv("AMENT_PREFIX_PATH", ":".join(f"{tmp_path}/{prefix}" for prefix in ("overlay", "ros", "below")))
    monkeypatch.setenv("ROS_DISTRO", "a_name_says_nothing")
    monkeypatch.setattr("sys.prefix", f"{tmp_path}/python")
    assert profile_variable() == expected
