"""`python -m traj_integrator_ros` runs the node."""

import sys

from .node.main import main

if __name__ == "__main__":
    sys.exit(main())
