-- Takes an Idempotency-Key, or returns the stored response of its first request.
select fresh, digest, status, body
from posthouse.take_request_key(%(tenant)s::text, %(key)s::text, %(digest)s::bytea)
