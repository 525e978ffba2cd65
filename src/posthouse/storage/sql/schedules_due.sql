-- Schedules to look at now, the database's time, and seconds to the next one.
select at as now, triggers, next_in from posthouse.due_schedules(%(limit)s, %(all)s)
