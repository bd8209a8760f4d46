"""From a plan to the motion that the controller executes. Knows neither ROS nor messages.

The law of motion, in five functions; `candidates.py` calls them in this order for each plan:

| function | file | what |
|---|---|---|
| `references` | `reference.py`, `complete_plan.py` | what a plan means, as motions: the most exact first |
| `splice` | `../execution/splice.py` | from what is commanded now to a reference, each joint by itself, within limits |
| stop | `stop.py`, `../execution/stopping.py` | the fastest, at the end of each plan and on request |
| `check` | `../execution/limits.py` | exact extremes of the whole against the limits, between points as well |
| `slow` | `slow.py` | what exceeds them, slowed along its path, or refused: then the motion in execution goes on |

Around the law: `present.py` knows what is commanded now, by the controller's reports or by what was published;
`beginning.py` where nobody knows. `planner.py` is the queue of plans: each is sought (`search.py`), in a thread where
that takes long, and `trajectories.py` makes the trajectory. `commands.py` lets plans begin, brakes and stops.
`monitor.py` compares the robot with its command, `supervision.py` brakes it where it does not follow.

`executor.py` is the room's front: what the node, or a program without ROS, calls.
"""
