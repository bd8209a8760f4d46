"""From a plan to the motion that the controller executes. Knows neither ROS nor messages.

The way of a sequence, in ten steps; `planner.py` takes it from the third to the eighth where the sequence arrives:

| step | function | file |
|---|---|---|
| 1. check its fields | `Batches.checked` | `../requests/batches.py` |
| 2. the plan: rows, times, what is missing | `plan_of_sequence` | `../requests/plan.py` |
| 3. the command where it is taken up | `PresentCommand.at` | `present.py` |
| 4. what its rows mean: the smoothest motion near them | `references` | `reference.py` |
| 5. the fastest stop at its end | `stopped_at_end` | `stop.py` |
| 6. the way to it from the command, within limits | `follow` | `../execution/following.py` |
| 7. exact extremes of the whole against the limits | `check` | `../execution/limits.py` |
| 8. may it begin, so far from the robot? | `Beginning.allow` | `beginning.py` |
| 9. points for the controller | `points_of` | `../execution/rows.py` |
| 10. record what is commanded | `PublishedMotion.record` | `published.py` |

`candidates.py` calls 4 to 7, and has what exceeds limits slowed (`slow.py`) or refused: then the motion in execution
goes on. Slowing takes longer, so `planner.py` has a thread do it (`search.py`), as for complete plans
(`complete_plan.py`). `trajectories.py` makes the trajectory. `commands.py` lets plans begin, brakes and stops.
`monitor.py` compares the robot with its command, `supervision.py` brakes it where it does not follow.

`executor.py` is the room's front: what the node, or a program without ROS, calls.
"""
