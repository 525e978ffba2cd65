-- Drops functions that were retired a while ago.
select posthouse.drop_retired_functions()
