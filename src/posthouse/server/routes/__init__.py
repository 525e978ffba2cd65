"""API routes by audience: tenants, administrators, remote workers, and all of them (health, live updates)."""
