// Options of a trigger and their labels.
export const MISSED = [["once", "Run once, for the latest"], ["skip", "Skip them"], ["catch_up", "Run each of them"]]
export const OVERLAP = [["allow", "Start anyway"], ["skip", "Skip the run"], ["queue", "Queue it behind the active job"]]
export const GAP = [["next", "At the first valid time after the gap"], ["skip", "Skip the run"]]
export const FOLD = [["once", "Run once, the first time"], ["twice", "Run both times"]]
export const PRESETS = [["0 9 * * MON-FRI", "Working days at 9"], ["0 3 * * *", "Every night at 3"], ["*/15 * * * *", "Every 15 minutes"], ["@hourly", "Every hour"], ["0 8 1 * *", "First of the month"], ["every 30s", "Every 30 seconds"]]

export const inWords = (choices, value) => choices.find(([each]) => each === value)?.[1] ?? value

/** Template variables and their descriptions. */
export const OF_EVENTS = [["event_id", "event id"], ["event_name", "event name"], ["event_at", "time of the event"], ["tenant_id", "tenant of the trigger"], ["trigger_id", "trigger id"]]
export const OF_SCHEDULES = [
  ["schedule.date", "date of the run, local"], ["schedule.time", "time of the run, local"], ["schedule.local", "date and time with UTC offset"], ["schedule.nominal_at", "date and time in UTC"],
  ["schedule.previous_at", "previous run, or null"], ["schedule.label", "label of the trigger"], ["schedule.cron_expr", "cron expression"], ["schedule.timezone", "time zone"], ["tenant_id", "tenant of the trigger"], ["trigger_id", "trigger id"],
]
