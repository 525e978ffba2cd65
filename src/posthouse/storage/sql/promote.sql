-- Moves due jobs into the line, and settles edges that raced the end of their dependency.
select posthouse.promote(%s), posthouse.next_due(), posthouse.sweep_blocks(%s::xid8)::text
