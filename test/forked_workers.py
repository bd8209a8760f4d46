"""Several workers for one run: the process that has collected the tests forks them, with all that it has imported.

A worker takes one file after the other, in the order of the collection, from two queues: every other one begins with
the second. When they have ended, one worker runs the third queue alone. A file with tests of two queues is in both,
each time with its own. The reports go to the first process, for which they are as if it had run the tests itself. Where
a worker dies, the test that it ran has failed, and another goes on.
"""

from __future__ import annotations

import atexit
import itertools
import mmap
import os
import pickle
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import NoReturn

import pytest

_INDEX_BYTES = 4
_QUEUES = 3
_NODE = SimpleNamespace(gateway=SimpleNamespace(id="worker"))
"""A report with a node, as under pytest-xdist, makes the terminal print no names of files between results."""


@dataclass
class _Worker:
    pid: int
    queues: tuple[int, ...]
    """The queues of files that it takes, one after the other."""
    file: int = -1
    item: int = 0
    """Index, in its file, of the test that the worker runs."""


class ForkedWorkers:
    """A plugin of pytest: the loop over the tests.

    Args:
        count: number of workers.
        queue_of: which of the three queues a test is in.
        prepare: called in each worker before its first test.

    """

    def __init__(self, count: int, queue_of: Callable[[pytest.Item], int], prepare: Callable[[], None]) -> None:
        self.count, self.queue_of, self.prepare = count, queue_of, prepare
        self._files: list[list[pytest.Item]] = []
        self._queues: list[int] = []
        """Reading ends of pipes with the indices of the files that no worker has taken yet."""
        self._is_over = mmap.mmap(-1, 1)
        self._numbers = itertools.count()
        self._workers: dict[Connection, _Worker] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests that are collected."""
        if session.config.option.collectonly or session.testsfailed:
            return None
        parts = itertools.groupby(session.items, key=lambda item: (item.path, self.queue_of(item)))
        self._files = [list(items) for _, items in parts]
        queue_of = [self.queue_of(items[0]) for items in self._files]
        for queue in range(_QUEUES):
            waiting, filled = os.pipe()
            indices = [index for index, its in enumerate(queue_of) if its == queue]
            os.write(filled, b"".join(index.to_bytes(_INDEX_BYTES, "little") for index in indices))
            os.close(filled)
            self._queues.append(waiting)
        try:
            for number in range(min(self.count, len(self._files))):
                self._fork(session, (number % 2, 1 - number % 2))
            self._receive_all(session)
            if not self._is_over[0]:
                self._fork(session, (2,))
                self._receive_all(session)
        finally:
            self._is_over[0] = 1  # after an interrupt
            for worker in self._workers.values():
                os.waitpid(worker.pid, 0)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        return True

    def _receive_all(self, session: pytest.Session) -> None:
        while self._workers:
            for reports in wait(list(self._workers)):
                self._receive(session, reports)

    def _fork(self, session: pytest.Session, queues: tuple[int, ...], file: int = -1, item: int = 0) -> None:
        reports, sent = Pipe(duplex=False)
        number = next(self._numbers)
        sys.stdout.flush(), sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._work(session, sent, number, queues, file, item)
        sent.close()
        self._workers[reports] = _Worker(pid, queues)

    def _receive(self, session: pytest.Session, reports: Connection) -> None:
        hook, worker = session.config.hook, self._workers[reports]
        try:
            kind, content = reports.recv()
        except EOFError:
            kind, content = "dead", None
        if kind == "begin":
            worker.file, worker.item = content
        elif kind == "report":
            self._tell(session, hook.pytest_report_from_serializable(config=session.config, data=content))
        elif kind == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=pickle.loads(content))
        else:
            del self._workers[reports]
            _, status = os.waitpid(worker.pid, 0)
            if kind == "dead" and worker.file >= 0 and not self._is_over[0]:
                item = self._files[worker.file][worker.item]
                text = f"the process that ran it ended with exit code {os.waitstatus_to_exitcode(status)}"
                self._tell(session, pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call"))
                self._fork(session, worker.queues, worker.file, worker.item + 1)
            elif status and not self._is_over[0]:
                raise RuntimeError(f"a worker ended with exit code {os.waitstatus_to_exitcode(status)}")

    def _tell(self, session: pytest.Session, report: pytest.TestReport) -> None:
        report.node = _NODE
        session.config.hook.pytest_runtest_logreport(report=report)
        del report.node
        if session.shouldfail:
            self._is_over[0] = 1

    def _work(
        self, session: pytest.Session, sent: Connection, number: int, queues: tuple[int, ...], file: int, first: int
    ) -> NoReturn:
        """Be a worker."""
        code = 1
        try:
            self._become_a_worker(session, sent, number)
            self.prepare()
            for index in itertools.chain([file] * (file >= 0), self._untaken(queues)):
                items = self._files[index]
                for item in range(first, len(items)):
                    if self._is_over[0]:
                        break
                    sent.send(("begin", (index, item)))
                    following = items[item + 1] if item + 1 < len(items) else session
                    session.config.hook.pytest_runtest_protocol(item=items[item], nextitem=following)
                first = 0
            session._setupstate.teardown_exact(None)
            sent.send(("end", None))
            code = 0
        except (KeyboardInterrupt, BrokenPipeError):  # the first process has ended
            pass
        except BaseException:
            traceback.print_exc()
        finally:
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)

    def _untaken(self, queues: tuple[int, ...]) -> Iterator[int]:
        for queue in queues:
            while index := os.read(self._queues[queue], _INDEX_BYTES):
                yield int.from_bytes(index, "little")

    def _become_a_worker(self, session: pytest.Session, sent: Connection, number: int) -> None:
        for reports in self._workers:
            reports.close()
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        reporter = _Reporter(session.config)
        plugins.register(reporter)  # register() passes it the warnings of the first process
        reporter.sent = sent
        capture = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()  # all workers share its files
        capture.start_global_capturing()
        factory = session.config._tmp_path_factory
        factory._basetemp = factory.getbasetemp() / f"worker{number}"
        factory._basetemp.mkdir(mode=0o700)


class _Reporter:
    """A plugin of a worker: sends reports to the first process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.sent: Connection | None = None
        """Where the reports go; None before there is a receiver."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.sent.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: tuple | None
    ) -> None:
        if self.sent is None:
            return
        where = {"when": when, "nodeid": nodeid, "location": location}
        try:
            content = pickle.dumps({"warning_message": warning_message, **where})
        except Exception:  # the class of the warning exists in the test only
            given = warning_message
            plain = warnings.WarningMessage(str(given.message), UserWarning, given.filename, given.lineno)
            content = pickle.dumps({"warning_message": plain, **where})
        self.sent.send(("warning", content))
