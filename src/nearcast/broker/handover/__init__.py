"""The handover from the pipeline: rows are staged, then released exactly once."""
