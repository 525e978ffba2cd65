-- Whether a keeper is connected, and how many due jobs it should have promoted by now.
select
  (select count(*) from pg_stat_activity
   where datname = current_database() and application_name = 'posthouse keeper')::integer as sessions,
  (select count(*) from (
     select from posthouse.waiting
     where blockers = 0 and due_at < posthouse.now() - make_interval(secs => %(grace)s)
     limit %(limit)s) as late)::integer as overdue
