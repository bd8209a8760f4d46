"""The main job as a program: a moving robot, a planner and an optimizer around a real node, with plots and verdicts.

May import tools and the rooms below; nothing imports from here.
"""
