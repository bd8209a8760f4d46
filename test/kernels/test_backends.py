"""Which backend runs where: chosen by device, overridable, never replaced silently."""

from __future__ import annotations

import types

import pytest
import torch

from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import (
    Backend,
    BackendUnavailable,
    backend_info,
    backends,
    clique_step,
    default_backend,
)


@pytest.fixture
def fresh_choice():
    """Backend choices are made once in a process; forget them before and after."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    backends.launcher.cache_clear()
    backends._describe.cache_clear()


def test_info_names_the_backend_of_every_device_and_why_others_cannot_run():
    infos = {info.device: info for info in backend_info()}
    assert set(infos) == ({"cpu", "cuda"} if torch.cuda.is_available() else {"cpu"})
    for info in infos.values():
        assert info.reason
        assert info.backend not in info.unavailable
        assert all(info.unavailable.values())
        assert default_backend(torch.device(info.device)) is info.backend
    engine = TrajectoryIntegrator("cpu")
    assert engine.backend == default_backend(engine.device).value
    assert (engine.backend_obstacle == "") == (Backend.NATIVE not in infos["cpu"].unavailable)


def test_a_backend_that_cannot_run_says_so_and_why():
    unavailable = backend_info()[0].unavailable
    assert unavailable, "neither a C++ extension missing nor Triton without a device: nothing to see here"
    for backend, why in unavailable.items():
        with pytest.raises(BackendUnavailable) as error:
            clique_step(torch.zeros(1, 3, 2), torch.zeros(1, 2), dt=0.1, backend=backend)
        assert str(error.value) == f"backend {backend.value!r} cannot run on 'cpu': {why}"


def test_without_triton_cuda_falls_to_the_reference_with_a_warning(fresh_choice, monkeypatch):
    find_spec = backends.importlib.util.find_spec
    monkeypatch.setattr(
        backends.importlib.util, "find_spec", lambda name, *rest: None if name == "triton" else find_spec(name, *rest)
    )
    info = backends._describe("cuda")
    assert info.backend is Backend.REFERENCE
    assert info.reason == "triton: the package triton is not installed"
    with pytest.warns(RuntimeWarning, match="the package triton is not installed"):
        launch = backends.launcher("clique", "forward", None, "cuda")
    assert launch.__module__.endswith("reference_backend")


def test_a_backend_whose_import_fails_reports_the_reason(fresh_choice, monkeypatch):
    def broken(backend, module):
        raise OSError("undefined symbol: _ZN3c10")

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(backends, "_import", broken)
    pytest.importorskip("triton")
    assert "undefined symbol: _ZN3c10" in backends._describe("cpu").unavailable[Backend.TRITON]


@pytest.mark.parametrize("fault", ["", "triton 3.7.1 cannot run a kernel on Quadro K620 (sm_50): no C compiler"])
def test_a_device_without_kernels_is_known_when_one_is_chosen(fault, fresh_choice, monkeypatch):
    for name, value in (("is_available", True), ("is_current_stream_capturing", False), ("current_device", 0)):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    original = backends._import
    stand_in = types.SimpleNamespace(probe=lambda device: fault or None)
    monkeypatch.setattr(backends, "_import", lambda b, module: stand_in if module == "probe" else original(b, module))
    pytest.importorskip("triton")
    info = backend_info()[1]
    assert info.backend is (Backend.REFERENCE if fault else Backend.TRITON)
    assert info.unavailable.get(Backend.TRITON, "") == fault
    assert fault in info.reason
