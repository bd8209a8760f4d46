"""Transports fit the size of the messages, never override what the user chose, and say why."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from traj_integrator_ros.wire import transport
from traj_integrator_ros.wire.fast_dds import PROFILE_VARIABLES
from traj_integrator_ros.wire.transport import (
    DEFAULT_LIMIT_MIB,
    LIMIT_VARIABLE,
    MIB,
    choose_transport,
    prepare_transport,
    profile,
    stays_local,
)

LARGE = 4 * 5 * 1000 * 32 * 7
MUCH = 1024 * MIB


def test_a_segment_holds_two_of_the_largest_messages() -> None:
    chosen = choose_transport(LARGE, {}, MUCH)
    assert 2 * LARGE < chosen.segment_bytes <= 2 * LARGE + 2 * MIB and not chosen.is_short
    assert chosen.reason == "shared memory of 10 MiB for messages of up to 4.48 MB"


def test_small_messages_leave_transports_as_they_are() -> None:
    chosen = choose_transport(4 * 5 * 32 * 32 * 7, {}, MUCH)
    assert chosen.segment_bytes == 0 and not chosen.is_short and "fit" in chosen.reason


@pytest.mark.parametrize(("limit", "expected"), [("", DEFAULT_LIMIT_MIB), ("3", 3), ("64", 64), ("0", 0)])
def test_memory_is_bounded(limit: str, expected: int) -> None:
    chosen = choose_transport(20 * LARGE, {LIMIT_VARIABLE: limit}, MUCH)
    assert chosen.segment_bytes == expected * MIB and not chosen.is_short, "a limit is the user's choice"


@pytest.mark.parametrize("limit", ["-1", "16M", "1e3", " "])
def test_a_limit_that_is_not_a_number_is_reported(limit: str) -> None:
    with pytest.raises(ValueError, match=f"{LIMIT_VARIABLE}: expected a whole number of MiB"):
        choose_transport(LARGE, {LIMIT_VARIABLE: limit}, MUCH)


@pytest.mark.parametrize("name", [*PROFILE_VARIABLES, "FASTDDS_BUILTIN_TRANSPORTS", "RMW_FASTRTPS_USE_QOS_FROM_XML"])
def test_what_the_user_has_set_is_never_overridden(name: str) -> None:
    chosen = choose_transport(LARGE, {name: "something"}, MUCH)
    assert chosen.segment_bytes == 0 and name in chosen.reason and not chosen.is_short


def test_a_file_that_fast_dds_reads_by_itself_counts_as_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert choose_transport(LARGE, {}, MUCH).segment_bytes > 0
    (tmp_path / "DEFAULT_FASTDDS_PROFILES.xml").touch()
    chosen = choose_transport(LARGE, {}, MUCH)
    assert chosen.segment_bytes == 0 and "DEFAULT_FASTDDS_PROFILES.xml" in chosen.reason


@pytest.mark.parametrize("middleware", ["rmw_cyclonedds_cpp", "rmw_zenoh_cpp", "rmw_connextdds"])
def test_another_middleware_is_left_alone(middleware: str) -> None:
    chosen = choose_transport(LARGE, {"RMW_IMPLEMENTATION": middleware}, MUCH)
    assert chosen.segment_bytes == 0 and middleware in chosen.reason and not chosen.is_short
    assert choose_transport(LARGE, {}, MUCH, has_fast_dds=False).segment_bytes == 0
    assert choose_transport(LARGE, {"RMW_IMPLEMENTATION": "rmw_fastrtps_dynamic_cpp"}, MUCH).segment_bytes > 0


@pytest.mark.parametrize(
    ("free_mib", "segment_mib", "is_short"),
    [(64, 10, False), (48, 10, False), (24, 6, False), (16, 4, True), (4, 1, True)],
)
def test_a_process_takes_a_quarter_of_what_is_free(free_mib: int, segment_mib: int, is_short: bool) -> None:
    chosen = choose_transport(LARGE, {}, free_mib * MIB)
    assert (chosen.segment_bytes, chosen.is_short) == (segment_mib * MIB, is_short)
    assert ("--shm-size" in chosen.reason) is is_short


@pytest.mark.parametrize("free_bytes", [0, 3 * MIB, None])
def test_without_shared_memory_messages_go_by_udp_and_it_says_so(free_bytes: int | None) -> None:
    chosen = choose_transport(LARGE, {}, free_bytes)
    assert chosen.segment_bytes == 0 and chosen.is_short
    assert "/dev/shm" in chosen.reason and "UDP" in chosen.reason


def test_a_profile_of_the_user_that_finds_no_memory_is_told() -> None:
    chosen = choose_transport(LARGE, {PROFILE_VARIABLES[0]: "/my.xml"}, 8 * MIB)
    assert chosen.is_short and "/dev/shm has 8 MiB left" in chosen.reason


@pytest.mark.parametrize(("local", "name"), [(True, "fastdds_localhost"), (False, "fastdds_shared_memory")])
def test_a_profile_is_that_of_config_but_for_its_size(project_root: Path, local: bool, name: str) -> None:
    assert values(profile(3 * MIB, local).encode())["segment_size"] == [str(3 * MIB)]
    kept = values((project_root / "config" / f"{name}.xml").read_bytes())
    assert values(profile(DEFAULT_LIMIT_MIB * MIB, local).encode()) == kept


def values(xml: bytes) -> dict[str, list[str]]:
    """What a profile says; the names in it are its own."""
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
    """An environment without chosen transports; the folder of ROS."""
    for name in (*PROFILE_VARIABLES, "FASTDDS_BUILTIN_TRANSPORTS", LIMIT_VARIABLE):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    monkeypatch.setattr(transport, "installed_profile_variable", lambda: PROFILE_VARIABLES[0])
    monkeypatch.setattr(transport, "_free_bytes", lambda: MUCH)
    monkeypatch.setattr(transport, "_has_started", lambda: False)
    return tmp_path


def test_the_profile_is_written_once_and_named_to_the_middleware(nothing_chosen: Path) -> None:
    chosen = prepare_transport(1000, 32, 7)
    file = Path(os.environ[PROFILE_VARIABLES[0]])
    assert file.is_relative_to(nothing_chosen)
    assert file.read_text() == profile(chosen.segment_bytes, local=True), "tests stay on this machine"
    assert "transports are those of" in prepare_transport(1000, 32, 7).reason
    os.environ[PROFILE_VARIABLES[0]] = ""
    assert prepare_transport(1000, 32, 7) == chosen
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_home_that_cannot_be_written_costs_nothing(nothing_chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_HOME", "/proc/nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(nothing_chosen))
    chosen = prepare_transport(1000, 32, 7)
    file = Path(os.environ[PROFILE_VARIABLES[0]])
    assert file.parent == nothing_chosen and file.read_text() == profile(chosen.segment_bytes, local=True)


def test_nowhere_to_write_leaves_transports_as_they_are(nothing_chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_HOME", "/proc/nowhere")
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    chosen = prepare_transport(1000, 32, 7)
    assert chosen.segment_bytes == 0 and chosen.is_short and "no profile can be written" in chosen.reason
    assert not os.environ[PROFILE_VARIABLES[0]]


def test_a_choice_after_the_middleware_has_started_is_an_error(
    nothing_chosen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_has_started", lambda: True)
    with pytest.raises(RuntimeError, match="expected a choice before the first node"):
        prepare_transport(1000, 32, 7)
    assert "fit" in prepare_transport(1, 32, 7).reason
