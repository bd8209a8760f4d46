"""The controller's commands at 1 kHz, compared with the intended motion, and with commands for rows sent as points.

Uses the node's pipeline with everything but the middleware, on a clock of its own; nothing here is timed.
"""
