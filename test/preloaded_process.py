"""Processes of the traffic kit that start in a moment: see `preloaded_python`."""

from __future__ import annotations

from preloaded_python import preloaded_python

from traj_integrator_ros.traffic.node_process import PythonProcess


class PreloadedProcess(PythonProcess):
    """A Python program behind `preloaded_python`; its process id is that of the command."""

    def start(self) -> None:
        """Start it again; the output of the run before is overwritten."""
        self.command[0] = preloaded_python()
        super().start()
