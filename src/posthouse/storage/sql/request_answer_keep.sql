-- Keeps what a request with an Idempotency-Key is answered.
select posthouse.keep_answer(%(tenant)s::text, %(key)s::text, %(status)s::integer, %(body)s::text)
