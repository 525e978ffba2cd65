-- Seconds until a rate limit allows another start in these queues.
select posthouse.next_token(%s, %s)
