"""The client processes, their commands and reports; and the node's process, as Linux sees it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

from traj_integrator_ros.traffic.node_process import NodeProcess, source_environment

from .records import NodeSample

END_WITHIN_S = 10.0


class ClientProcess:
    """A client (`soak.roles`) as a process of its own.

    Args:
        name: of the client.
        role: what it does.
        rate_hz: of what it sends.
        params_file: the node's, which has the robot's limits.
        log: file for its standard error.

    """

    def __init__(self, name: str, role: str, rate_hz: float, params_file: Path, log: Path) -> None:
        self.name = name
        self.is_ready = self.has_begun = self.has_ended = False
        self._log = log
        self._rows: queue.SimpleQueue[dict] = queue.SimpleQueue()
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "soak.roles", role, str(rate_hz), str(params_file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **source_environment(), "OMP_NUM_THREADS": "1"},
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def tell(self, command: str) -> None:
        """Give a command: go, stop or end."""
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except OSError:  # it has died; `failure` reports that
            pass

    def rows(self) -> list[dict]:
        """The rows received since the previous call."""
        found = []
        while not self._rows.empty():
            found.append(self._rows.get())
        return found

    def failure(self) -> str:
        """Why it ended by itself; "" while it has not."""
        if self._process.poll() is None or self.has_ended:
            return ""
        errors = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"the {self.name} ended with exit code {self._process.returncode}: {' | '.join(errors[-3:])}"

    def close(self) -> None:
        """End it."""
        self.tell("end")
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(END_WITHIN_S)

    def _read(self) -> None:
        for line in self._process.stdout:
            row = json.loads(line)
            if "ready" in row:
                self.is_ready = True
            elif "begun" in row:
                self.has_begun = True
            else:
                ended = row.pop("ended", False)
                self._rows.put(row)
                self.has_ended = ended


def sample_node(node: NodeProcess, at_s: float) -> NodeSample:
    """Memory and CPU time of the node, and CPU time of all processes. Raises OSError if it has ended."""
    memory = (node.memory_bytes(kind) for kind in ("VmRSS", "RssAnon", "RssShmem"))
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    busy = user + nice + system + irq + softirq + steal
    return NodeSample(at_s, *memory, node.cpu_s(), busy / os.sysconf("SC_CLK_TCK"))
