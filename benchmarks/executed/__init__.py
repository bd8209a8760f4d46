"""The controller's commands at 1 kHz, compared with the intended motion, and with commands for rows sent as points.

Uses all of the node except the middleware, on a simulated clock; nothing here is timed.
"""
