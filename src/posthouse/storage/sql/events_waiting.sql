-- Whether any event has not been matched with triggers yet.
select exists (select from posthouse.unmatched) as waiting
