"""What remote workers do through this server: register, claim jobs and report about them."""
