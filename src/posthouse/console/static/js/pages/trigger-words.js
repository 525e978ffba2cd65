// The choices that a trigger has, in plain words.
export const MISSED = [["once", "Make one job, for the latest of them"], ["skip", "Make none"], ["catch_up", "Make a job for each"]]
export const OVERLAP = [["allow", "Make the next one all the same"], ["skip", "Leave the next one out"], ["queue", "Make it, and run it after that one"]]
export const GAP = [["next", "At the first minute that there is"], ["skip", "Not on that day"]]
export const FOLD = [["once", "The first time only"], ["twice", "Both times"]]
export const PRESETS = [["0 9 * * MON-FRI", "Working days at 9"], ["0 3 * * *", "Every night at 3"], ["*/15 * * * *", "Every 15 minutes"], ["@hourly", "Every hour"], ["0 8 1 * *", "First of the month"], ["every 30s", "Every 30 seconds"]]

export const inWords = (choices, value) => choices.find(([each]) => each === value)?.[1] ?? value

/** What a template may name, and what it stands for. */
export const OF_EVENTS = [["event_id", "id of the event"], ["event_name", "its name"], ["event_at", "when it happened"], ["tenant_id", "whose it is"], ["trigger_id", "this trigger"]]
export const OF_SCHEDULES = [
  ["schedule.date", "day of the run, in its zone"], ["schedule.time", "time of day of the run"], ["schedule.local", "both, with the offset"], ["schedule.nominal_at", "the same in UTC"],
  ["schedule.previous_at", "the run before, or null"], ["schedule.label", "of this trigger"], ["schedule.cron_expr", "likewise"], ["schedule.timezone", "likewise"], ["tenant_id", "whose it is"], ["trigger_id", "this trigger"],
]
