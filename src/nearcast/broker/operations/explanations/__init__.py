"""Why a node got an event or not: asked, answered in a process beside the broker."""
