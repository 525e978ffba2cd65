-- Holds the worker's liveness lock in this session.
select posthouse.watch(%s)
