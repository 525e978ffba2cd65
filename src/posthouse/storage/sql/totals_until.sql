-- How long ago the last minute ended that is in the totals; null if none is.
select extract(epoch from posthouse.now() - minute)::double precision from posthouse.totals_until
where isfinite(minute)
