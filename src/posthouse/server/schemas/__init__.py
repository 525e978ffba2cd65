"""Models of requests and responses that are not part of insights."""
