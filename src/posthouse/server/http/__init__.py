"""The code that all routes share: authentication, bodies, responses, problems and middleware."""
