"""Runs the node under steady load for minutes or hours: nothing may be lost, and memory and latency may not grow."""
