-- A step of the bulk retry that was looked at longest ago.
select id, retried, skipped, heard from posthouse.advance_bulk_retry(%s)
