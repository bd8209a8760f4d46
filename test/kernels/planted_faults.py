"""Faults planted into the Triton kernels, or into a made-up one, to see that executing their PTX finds them."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from traj_integrator_ros import kernels
from traj_integrator_ros.kernels import backends


class Planted(NamedTuple):
    """A fault: words of a module that are replaced, and the maps whose checks should notice."""

    module: str
    right: str
    wrong: str
    maps: tuple[str, ...]
    kind: str = "any"
    """"smooth": it shows where neighbouring values cancel; "large": in tensors of more than 2^31 elements."""


CHAIN, POINTS = ("velocity",), ("clique_central",)
PLANTED = (
    # Masks and bounds
    Planted("device", "tl.store(p_target + b_at, b_value, mask=b_mask)", "tl.store(p_target + b_at, b_value)", CHAIN),
    Planted("device", "b_trajectory < n_batch", "b_trajectory <= n_batch", POINTS),
    Planted("chain", "b_later = b_in & (b_h > 0)", "b_later = b_in", ("clique",)),
    Planted("differences", "b_in & (b_h + k < Ha)", "b_in", ("clique",)),
    # Offsets and strides
    Planted("device", "b_row * D + b_column", "b_row * (D + 1) + b_column", CHAIN),
    Planted("chain", "p_dt += i_trajectory * n_dt_batch", "p_dt += i_trajectory", ("acceleration_zoh",)),
    Planted("control_points", "(row - m * STEPS) * D", "(row - (m + 1) * STEPS) * D", POINTS),
    Planted("ends", "p_weights + i * 16", "p_weights + i * 15", POINTS),
    # Arithmetic
    Planted("chain", "b_v = b_mean - b_pdt", "b_v = b_mean", ("jerk",)),
    # Rounding: products that are fused, errors that get lost
    Planted("pairs", "two_sum(b_rate, b_rate * b_missing)", "two_sum(b_rate, b_rate * 0.0)", ("clique",), "smooth"),
    Planted("launch", '"enable_fp_fusion": False', '"enable_fp_fusion": True', ("clique",), "smooth"),
    # Numbers of 32 bits
    Planted("chain", "tl.program_id(0).to(tl.int64)", "tl.program_id(0)", CHAIN, "large"),
    Planted("device", "tl.program_id(0).to(tl.int64) * TRAJECTORIES", "tl.program_id(0) * TRAJECTORIES", POINTS,
            "large"),
)  # fmt: skip

REVERSED = """
.visible .entry reversed(.param .u64 reversed_param_0, .param .u64 reversed_param_1
)
{
	mov.u32 %r1, %tid.x;
	ld.param.b64 %rd1, [reversed_param_0];
	ld.param.b64 %rd2, [reversed_param_1];
	mad.wide.u32 %rd3, %r1, 4, %rd1;
	ld.global.b32 { %r2 }, [ %rd3 + 0 ];
	shl.b32 %r3, %r1, 2;
	mov.b32 %r4, global_smem;
	add.s32 %r5, %r4, %r3;
	st.shared.b32 [ %r5 + 0 ], { %r2 };
	bar.sync 0;
	sub.s32 %r6, %r4, %r3;
	ld.shared.b32 %r7, [%r6+252];
	shfl.sync.bfly.b32 %r8, %r7, 1, 31, -1;
	bar.sync 0;
	st.shared.b32 [ %r5 + 0 ], { %r8 };
	mad.wide.u32 %rd4, %r1, 4, %rd2;
	st.global.b32 [ %rd4 + 0 ], { %r8 };
	ret;
}
"""
"""Numbers of 64 threads in reverse order through shared memory, neighbours exchanged."""
IN_REVERSED = {
    "no barrier before reading": ("bar.sync 0;\n\tsub", "sub", "reads without a barrier what another warp wrote"),
    "no barrier before writing again": ("bar.sync 0;\n\tst", "st", "writes without a barrier what another warp reads"),
    "a shuffle that a lane skips": (
        "shfl", "setp.eq.s32 %p1, %r1, 5;\n\tmov.b32 %r8, 0;\n\t@!%p1 shfl", "not reached by all threads of a warp",
    ),
    "a barrier that a warp skips": (
        "bar.sync 0;\n\tst", "setp.lt.s32 %p1, %r1, 32;\n\t@%p1 bar.sync 0;\n\tst", "by all threads of a program",
    ),
    "memory of another program's": ("%r6+252", "%r6+256", "outside of the program's shared memory"),
    "two values in one place": (", %r1, 4, %rd2", ", 3, 4, %rd2", "writes different values to one place"),
    "an address between numbers": ("%rd4 + 0", "%rd4 + 2", "is no multiple of 4"),
    "an address after the end": ("%rd4 + 0", "%rd4 + 4", "outside of every tensor"),
    "a register of some threads": (
        "ret;", "setp.lt.s32 %p1, %r1, 9;\n\t@%p1 mov.b32 %r9, 0;\n\tadd.s32 %r8, %r9, 1;\n\tret;",
        "reads %r9 before it is written",
    ),
    "memory that nothing wrote": (
        "st.shared.b32 [ %r5 + 0 ], { %r2 };\n", "", "reads shared memory that nothing has written",
    ),
    "an unknown opcode": ("shl.b32", "lop3.b32", "lop3.b32 is an opcode that this interpreter does not know"),
}  # fmt: skip
"""Words of it, words in their place, and words of the fault."""


@contextmanager
def planted(fault: Planted, folder: Path) -> Iterator[None]:
    """Import the kernels anew from a changed copy, and the right ones after it."""
    shutil.copytree(Path(kernels.__path__[0]) / "triton", folder / "triton")
    changed = folder / "triton" / f"{fault.module}.py"
    text = changed.read_text(encoding="utf-8")
    assert fault.right in text, fault
    changed.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
    before = _forgotten()
    kernels.__path__.insert(0, str(folder))
    try:
        importlib.import_module(f"{kernels.__name__}.triton")
        yield
    finally:
        kernels.__path__.remove(str(folder))
        _forgotten()
        sys.modules.update(before)
        if before:
            kernels.triton = before[f"{kernels.__name__}.triton"]


def _forgotten() -> dict[str, object]:
    """Forget the imported kernels; return them."""
    backends.launcher.cache_clear()
    room = f"{kernels.__name__}.triton"
    return {name: sys.modules.pop(name) for name in [*sys.modules] if name == room or name.startswith(f"{room}.")}
