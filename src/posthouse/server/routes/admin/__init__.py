"""Routes of operators, one module per resource."""
