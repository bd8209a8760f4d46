"""From a plan to the motion that the controller executes. Knows neither ROS nor messages.

A sequence passes ten steps. `planner.py` takes it from the third to the eighth as soon as the sequence arrives:

| step | function | file |
|---|---|---|
| 1. check its fields | `Batches.checked` | `../requests/batches.py` |
| 2. make the plan: rows, times, and what the sequence leaves out | `plan_of_sequence` | `../requests/plan.py` |
| 3. find the command at the time when the plan begins | `Command.at` | `command.py` |
| 4. interpolate the rows: the smoothest motion near them | `reference` | `reference.py` |
| 5. add the fastest stop at the end | `stopped_at_end` | `stop.py` |
| 6. blend from the command to the plan, within limits | `follow` | `../execution/following.py` |
| 7. compare the exact extremes of the whole with the limits | `find_motion_violation` | `../execution/limits.py` |
| 8. refuse a beginning that is too far from the robot | `Beginning.mismatch` | `beginning.py` |
| 9. compute the points for the controller | `points_of` | `../execution/rows.py` |
| 10. record what is commanded | `Command.record` | `command.py` |

`Task.motion` in `planned_motion.py` is steps 4 to 7. A plan that exceeds limits is slowed (`slow.py`) or refused; then
the motion in execution goes on. Slowing takes longer, and so do complete plans (`complete_plan.py`): `planner.py` does
both in another thread. `trajectories.py` makes the trajectory for the controller, and `planner.py` lets plans begin,
brakes and stops. `monitor.py` compares the robot with its command, and `supervision.py` brakes a robot that does not
follow.

`executor.py` is the room's front, which the node, or a program without ROS, calls.
"""
