-- Takes an Idempotency-Key, or finds what its request was answered.
select fresh, digest, status, body
from posthouse.take_request_key(%(tenant)s::text, %(key)s::text, %(digest)s::bytea)
