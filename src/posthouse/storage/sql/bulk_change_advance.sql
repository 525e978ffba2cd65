-- A step of the bulk change that was looked at longest ago.
select id, retried, canceled, skipped, heard from posthouse.advance_bulk_change(%s)
