// Priorities are numbers, lower runs first; four of them have names.
const NAMED = [[10, "urgent"], [50, "high"], [100, "normal"], [200, "low"]]

export const priorityName = (number) => NAMED.find(([each]) => each === number)?.[1] ?? String(number)

/** Options of a SelectField, including the current value `now`. */
export const priorities = (now) => (typeof now !== "number" || NAMED.some(([each]) => each === now) ? NAMED : [...NAMED, [now, String(now)]])
