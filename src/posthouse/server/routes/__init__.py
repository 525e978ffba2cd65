"""The routes, one module for each resource."""
