"""Command-line tools: check, integrate, plot and replay trajectories, watch nodes.

May import everything but the node's room: a tool talks to a node over topics, as users do. Modules that take long to
import are imported here first, so that Ctrl-C ends a tool quietly even then; later, `run_tool` handles Ctrl-C.
"""

import signal

# A KeyboardInterrupt inside an import would print a traceback, or become another error: in numpy an ImportError.
_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
try:
    from ..motions import files, sequences, writing  # noqa: F401
    from . import checker, drawing, robot, ros_session  # noqa: F401
finally:
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, _mask)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
