"""The one read side: what the command line, and later the API and the console, know of jobs."""
