-- Moves what failed into its groups: how many rows.
select posthouse.group_failures(%s)
