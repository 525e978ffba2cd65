-- Delete a call; cancel and erase its jobs. No row: the organisation has no such call.
select posthouse.erase(%(call)s::text, p_actor => %(actor)s) where calls.delete_call(%(call)s)
