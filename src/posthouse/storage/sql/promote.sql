-- Settles edges that raced the end of their dependency (first: see sweep_blocks), and promotes due jobs.
select posthouse.sweep_blocks(%s::xid8[])::text, posthouse.promote(%s), posthouse.next_due()
