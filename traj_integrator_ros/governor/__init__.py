"""From a plan to the motion that the controller executes. Knows neither ROS nor messages.

A plan passes five questions, in this order:

1. What is commanded now? `present.py`: the controller's report, or else the motion that was published last;
   `beginning.py` where nobody knows.
2. What does the plan mean? `planned_motions.py`: its readings as motions; `complete_plan.py` where it ends at its goal.
3. How is it joined? `candidates.py`: from the present command on; `beside.py` where that takes long.
4. Does it fit? `candidates.py` checks it whole; `retiming.py` slows it along its path where it exceeds limits.
5. How does it stop? `trajectories.py`: at the end of each plan, on request, and where `supervision.py` sees a robot
   that does not follow.

`executor.py` is the room's front: what the node, or a program without ROS, calls. `commands.py` decides when a plan
begins.
"""
