-- Stores the response to a request with an Idempotency-Key.
select posthouse.keep_answer(%(tenant)s::text, %(key)s::text, %(status)s::integer, %(body)s::text)
