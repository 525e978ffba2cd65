-- Settles edges that raced the end of their dependency; returns where to go on.
select posthouse.sweep_blocks(%s::xid8)::text
