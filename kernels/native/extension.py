"""The C++ extension, if it was built for this torch from these sources; otherwise an ImportError that says why not."""

from __future__ import annotations

import importlib

import torch  # the extension is linked against torch's libraries, which must be loaded first

_NAMES = (
    "forward vjp step step_with_buffers dt_gradient step_into vjp_into quadratic_cost_into map_numbers return_as "
    "SplineForm spline_forward spline_vjp spline_step spline_dt_gradient set_general_vjp set_general_spline_vjp "
    "instruction_set kept_bytes release_kept_memory"
).split()
_REMEDY = (
    "to build it, install the package again from its sources: pip install -v --no-deps --force-reinstall "
    "--no-cache-dir SOURCES (it takes g++ and Python.h, and its output says what is missing)"
)
try:
    extension = importlib.import_module("._C", __package__)
except ModuleNotFoundError:
    raise ImportError(f"the C++ extension is not built for this Python; {_REMEDY}") from None
except ImportError as error:
    raise ImportError(f"the C++ extension was built for another torch: {error}; {_REMEDY}") from error
if extension.torch_version.split("+")[0] != torch.__version__.split("+")[0]:
    versions = f"for torch {extension.torch_version}, this is torch {torch.__version__}"
    raise ImportError(f"the C++ extension was built {versions}; {_REMEDY}")
if missing := [name for name in _NAMES if not hasattr(extension, name)]:
    raise ImportError(
        f"the C++ extension was built from other sources (it has no {missing[0]}): make setup, or pip install, builds "
        f"it again"
    )
