"""The tables of the pipeline."""
