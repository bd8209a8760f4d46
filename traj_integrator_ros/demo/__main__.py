"""`python -m traj_integrator_ros.demo` runs the main job."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())
