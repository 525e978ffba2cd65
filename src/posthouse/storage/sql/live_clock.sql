-- The time used for records, and the time used for ids.
select posthouse.now(), clock_timestamp()
