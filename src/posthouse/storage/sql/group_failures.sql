-- Moves failures into their groups; returns the number of rows.
select posthouse.group_failures(%s)
