"""Routes of tenants, one module per resource."""
