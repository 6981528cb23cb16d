"""The tables that the pipeline keeps."""
