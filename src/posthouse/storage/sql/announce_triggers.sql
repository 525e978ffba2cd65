-- Announces the triggers that are in the code of some kinds; those that it does not name any more go.
select posthouse.announce_triggers(%s, %s::jsonb)
