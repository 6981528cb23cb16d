"""Sessions of Spark, and what runs in them."""
