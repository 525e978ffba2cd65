-- Advances the bulk change that was processed least recently.
select id, retried, canceled, skipped, heard from posthouse.advance_bulk_change(%s)
