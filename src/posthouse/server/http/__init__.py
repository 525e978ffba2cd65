"""What all routes share: authentication, bodies, responses, problems and middleware."""
