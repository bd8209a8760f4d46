"""Messages as bytes, in and out: the readers and writers of everything that crosses the middleware.

May import `handling` and what is below; nothing here knows the node, and the engine knows nothing of this.
"""
