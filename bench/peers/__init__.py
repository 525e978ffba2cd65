"""Other Postgres job queues, measured beside Posthouse. See README.md in this folder."""
