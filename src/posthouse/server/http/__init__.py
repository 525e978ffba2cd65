"""The code that all routes share: authentication, requests, responses, problems and middleware."""
