"""What the pipeline hands over: staged, then released once and whole."""
