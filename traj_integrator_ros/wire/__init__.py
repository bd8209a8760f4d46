"""Serialized messages: the readers and writers of everything that crosses the middleware.

May import `governor` and the rooms below it. Nothing here knows the node, and the engine does not know this room.
"""
