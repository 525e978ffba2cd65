"""What tests of definitions share."""

SCHEMA = {
    "type": "object",
    "properties": {"user_id": {"type": "integer"}, "password": {"type": "string"}},
    "required": ["user_id"],
}
