"""The files of a rosbag2 recording: those that belong to it, and what a killed recorder left beside them."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .door import reason
from .extras import load_documents, read_text
from .joint_states import Tell, listed
from .samples import RecordingError

STORAGES = (".db3", ".mcap")
_METADATA = "metadata.yaml"
_LOGS = ("-wal", "-journal")
"""Suffixes of what SQLite keeps beside a database: pages that are not in it yet, or that were in it before."""
_WAL_HEADER = 32
"""Size of the header of a write-ahead log of SQLite, bytes."""
_FRAME_HEADER = 24
"""Size of the header of a page in such a log, bytes."""


_JOURNAL = b"\xd9\xd5\x05\xf9 \xa1c\xd7"
"""First bytes of a journal with pages to take back; where SQLite keeps the file of a finished one, it clears them."""
_MCAP = b"\x89MCAP0\r\n"
"""First and last bytes of an MCAP file."""


@dataclass(frozen=True)
class Counts:
    """Numbers of messages that metadata.yaml gives; empty without it."""

    topics: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By topic and type."""
    files: Mapping[str, int] = field(default_factory=dict)
    """By name of the storage file."""
    whole: int | None = None


@contextmanager
def complete_files(path: Path, tell: Tell) -> Iterator[tuple[list[Path], Counts]]:
    """Yield the files to read for a recording, and the counts of messages in its metadata.

    These are the storage files; copies of them, completed by SQLite, if writing was interrupted; or the folder if the
    recorder compressed messages. Missing metadata, and files that metadata.yaml does not name, are reported. Raises
    RecordingError if there is nothing to read.
    """
    folder = path if path.is_dir() else path.parent
    metadata = _metadata(folder / _METADATA)
    if path.is_dir() and metadata is not None and str(metadata.get("compression_mode") or "none").lower() != "none":
        yield [path], _counted(metadata, tell)
        return
    files = _files_of(path, metadata, tell)
    counts = Counts() if metadata is None else _counted(metadata, tell)
    if metadata is not None and not path.is_dir() and files != _named(folder, metadata):
        counts = Counts(files=counts.files)
    for one in files:
        _expect_whole(one)
    interrupted = [one for one in files if any(map(_is_open, _logs(one)))]
    if not interrupted:
        yield files, counts
        return
    with TemporaryDirectory(prefix="recording-") as made:
        try:
            for one in interrupted:
                _recover(one, Path(made) / one.name, tell)
            yield [Path(made) / one.name if one in interrupted else one for one in files], counts
        except RecordingError:
            raise
        except Exception as error:  # it names the copy, which is gone
            problem = reason(error).replace(made, str(folder))
            raise RecordingError(f"{path}: cannot be read: {problem}") from error


def _expect_whole(file: Path) -> None:
    """Raise RecordingError for a storage file that is empty, or an MCAP file without its end."""
    if file.is_file() and not _size(file):
        raise RecordingError(f"{file}: the file is empty")
    if file.suffix == ".mcap" and file.is_file():
        with file.open("rb") as opened:
            begin = opened.read(len(_MCAP))
            opened.seek(max(_size(file) - len(_MCAP), len(_MCAP)))
            end = opened.read()
        if begin == _MCAP != end:
            raise RecordingError(
                f"{file}: expected an MCAP file with its end, got one that was not closed, as of a killed recorder; "
                "`mcap recover` of its command line (mcap.dev) completes it"
            )


def _files_of(path: Path, metadata: dict[str, Any] | None, tell: Tell) -> list[Path]:
    """Return the storage files of a recording."""
    named = None if metadata is None else _named(path if path.is_dir() else path.parent, metadata)
    if not path.is_dir():
        if named is not None and path in named and len(named) > 1:
            tell(f"{path.name} is one of {len(named)} files of a recording; its folder is read as a whole")
        return [path]
    there = sorted(one for one in path.iterdir() if one.suffix in STORAGES and one.is_file())
    if named is None:
        if not there:
            raise RecordingError(f"{path}: expected a rosbag2 folder, got one without {_METADATA}")
        tell(f"{_METADATA} is missing, as after a recorder was killed; read: {listed([one.name for one in there])}")
        return there
    if missing := [one.name for one in named if not one.is_file()]:
        raise RecordingError(
            f"{path}: expected the {len(named)} files that {_METADATA} names, {listed(missing)} missing"
        )
    if others := [one.name for one in there if one not in named]:
        tell(f"left out: {listed(others)}, which {_METADATA} does not name ({len(others)} of {len(there)} files)")
    return named


def _metadata(file: Path) -> dict[str, Any] | None:
    """Return the metadata of a recording; None if there is none. Raises RecordingError."""
    if not file.is_file():
        return None
    for document in load_documents(file, read_text(file)):
        match document:
            case {"rosbag2_bagfile_information": {"relative_file_paths": [_, *_]} as found}:
                return found
    raise RecordingError(f"{file}: expected the metadata of a rosbag2 recording with relative_file_paths, got none")


def _named(folder: Path, metadata: dict[str, Any]) -> list[Path]:
    return [folder / Path(str(name)).name for name in metadata["relative_file_paths"]]


def _counted(metadata: dict[str, Any], tell: Tell) -> Counts:
    """Return the counts of metadata; those that cannot be read are reported. A recorder that was killed wrote none."""
    topics, files = (metadata.get(name) or [] for name in ("topics_with_message_count", "files"))
    counts: Counter[tuple[str, str]] = Counter()
    unread = 0
    for one in topics if isinstance(topics, list) else [None]:
        match one:
            case {"message_count": int(count), "topic_metadata": {"name": str(topic), "type": str(kind)}}:
                counts[topic, kind] += count
            case _:
                unread += 1
    if unread:
        tell(f"{_METADATA}: {unread} of its counts of messages cannot be read, and nothing is compared with them")
    if not counts:
        return Counts()
    of_files: dict[str, int] = {}
    for one in files if isinstance(files, list) else ():
        match one:
            case {"path": str(name), "message_count": int(count)}:
                of_files[Path(name).name.removesuffix(".zstd")] = count
    whole = metadata.get("message_count")
    return Counts(counts, of_files, whole if isinstance(whole, int) else None)


def _is_open(log: Path) -> bool:
    """Return whether there is something in a log: a journal that SQLite keeps has an empty header."""
    if log.name.endswith(_LOGS[0]) or not _size(log):
        return _size(log) > 0
    with log.open("rb") as opened:
        return opened.read(len(_JOURNAL)) == _JOURNAL


def _logs(file: Path) -> list[Path]:
    return [file.with_name(file.name + end) for end in _LOGS] if file.suffix == ".db3" else []


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _recover(file: Path, copy: Path, tell: Tell) -> None:
    """Copy a database with what SQLite keeps beside it, and let SQLite complete it; the recording stays as it is."""
    for one in [file, *_logs(file)]:
        if one.is_file():
            shutil.copyfile(one, copy.with_name(one.name))
    wal = copy.with_name(copy.name + _LOGS[0])
    written = _frames(wal)
    with closing(sqlite3.connect(copy)) as database:
        _, used, _ = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        database.execute("PRAGMA journal_mode=DELETE").fetchone()
        (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if written:
        lost = written - max(used, 0)
        losses = f"; {lost} of {written} pages in it were not complete and are lost" if lost > 0 else ""
        tell(f"{file.name} was not closed: read with its write-ahead log ({max(used, 0)} of {written} pages){losses}")
    elif _is_open(file.with_name(file.name + _LOGS[1])):
        tell(f"{file.name} was not closed: read as before the transaction that its journal takes back")
    if found != "ok":
        tell(f"{file.name} is damaged, and messages may be lost: {' '.join(found.split())[:200]}")


def _frames(wal: Path) -> int:
    """Count the pages in a write-ahead log that belong to its last beginning: they have the salt of its header."""
    if _size(wal) < _WAL_HEADER:
        return 0
    with wal.open("rb") as file:
        header = file.read(_WAL_HEADER)
        (page,), salt = struct.unpack(">I", header[8:12]), header[16:24]
        if not 512 <= page <= 65536:
            return 0
        count = 0
        while len(frame := file.read(_FRAME_HEADER)) == _FRAME_HEADER and frame[8:16] == salt:
            file.seek(page, 1)
            count += 1
    return count


def messages_of(
    path: Path, reader: Any, connections: list[Any], counts: Counts, tell: Tell
) -> Iterator[tuple[Any, int, Any]]:
    """Yield the messages of some connections of an open reader, with their connections and times of recording, ns.

    Their numbers are compared with the counts. Raises RecordingError for one that cannot be read.
    """
    indexed: Counter[tuple[str, str]] = Counter()
    for one in connections:
        indexed[one.topic, one.msgtype] += one.msgcount
    found = dict.fromkeys(indexed, 0)
    for one, stamp, raw in reader.messages(connections=connections):
        number = found[one.topic, one.msgtype]
        try:
            message = reader.deserialize(raw, one.msgtype)
        except Exception as error:  # rosbags raises those of struct, numpy and texts, too
            problem = f"message {number} of {one.topic} cannot be read: {reason(error)}"
            raise RecordingError(f"{path}: {problem}") from error
        found[one.topic, one.msgtype] += 1
        yield one, stamp, message
    differs = False
    for kind, number in found.items():
        if number != indexed[kind]:
            tell(f"{number} of {indexed[kind]} messages of {kind[0]} are read: the others are not where the file says")
        elif number != counts.topics.get(kind, number):
            tell(f"{number} messages of {kind[0]} are there and read, where {_METADATA} counts {counts.topics[kind]}")
        else:
            continue
        differs = True
    parts = [part for one in reader.readers for part in getattr(one.storage, "storages", [one.storage])]
    for part in parts:
        of_topics, whole = sum(one.msgcount for one in part.connections), part.metadata.message_count
        if of_topics != whole:
            tell(f"left out: {whole - of_topics} of {whole} messages of {part.path.name}, which belong to no topic")
        elif whole != counts.files.get(part.path.name, whole) and not differs:
            expected = counts.files[part.path.name]
            tell(f"{whole} messages of all topics are in {part.path.name}, where {_METADATA} counts {expected}")
        else:
            continue
        differs = True
    there = sum(part.metadata.message_count for part in parts)
    if there != (counts.whole if counts.whole is not None else there) and not differs:
        tell(f"{there} messages of all topics are there, where {_METADATA} counts {counts.whole}")
