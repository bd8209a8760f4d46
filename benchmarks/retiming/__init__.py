"""Judges retiming by hard problems, by what a controller executes, and by comparison with peers."""
