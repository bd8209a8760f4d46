"""Retiming judged from outside: hard problems, motions played by a controller, and peers."""
