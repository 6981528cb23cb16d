"""Fuzz targets: hostile input for everything that reads bytes or text of others."""
