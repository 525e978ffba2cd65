-- Attempts of the demo's jobs that did not succeed.
select count(*) from posthouse.attempts where kind = 'crash.effect' and outcome not in ('succeeded', 'running');
