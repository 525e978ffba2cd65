-- Moves due jobs into the line; returns how many.
select posthouse.promote(%s)
