-- Wakes hungry workers of these queues.
select posthouse.wake(%s)
