-- The age of the last minute in the totals; null without one.
select extract(epoch from posthouse.now() - minute)::double precision from posthouse.totals_until
where isfinite(minute)
