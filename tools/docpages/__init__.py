"""Pages made from the code, one module each: ``page()`` returns the text."""
