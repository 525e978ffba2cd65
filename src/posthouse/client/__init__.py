"""The way in: enqueue jobs, and wait for them."""
