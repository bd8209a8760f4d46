"""The main job as a program: a moving robot, a planner and an optimizer around a real node, with plots.

It talks to the node as a user's program does, by `client/`. May import tools and the rooms below; nothing imports it.
"""

from .. import tools  # noqa: F401  first, because Ctrl-C during its imports ends a program quietly
