"""API routes by audience: tenants, administrators, remote workers, and everybody (health, live updates)."""
