-- Due schedules, the database's time, and the seconds until the next one.
select at as now, triggers, next_in from posthouse.due_schedules(%(limit)s, %(all)s)
