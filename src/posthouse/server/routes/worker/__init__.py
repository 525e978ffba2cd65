"""Routes of remote workers."""
