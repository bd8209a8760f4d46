"""What the controller commands at 1 kHz of what the node publishes, against what was meant, and against rows as points.

Uses the node's pipeline with everything but the middleware, on a clock of its own; nothing here is timed.
"""
