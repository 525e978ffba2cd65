-- Seconds until a rate lets another job start in these queues.
select posthouse.next_token(%s, %s)
