"""Topics on which the broker answers one session alone.

They are subscribed to by their own names, and the engine knows nothing of it.
"""

ERRORS = "$me/errors"
NODES = "$me/nodes"
PRIVATE = (ERRORS, NODES)
