-- Deletes a batch of old rows; returns how many.
select posthouse.delete_old(%(name)s, %(days)s::jsonb, %(limit)s)
