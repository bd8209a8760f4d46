"""Serialized messages: the readers and writers of everything that crosses the middleware.

May import `governor` and the rooms below it; nothing here knows the node, and the engine knows nothing about this room.
"""
