// Priorities are numbers, lower first; four of them have names.
const NAMED = [[10, "urgent"], [50, "high"], [100, "normal"], [200, "low"]]

export const priorityName = (number) => NAMED.find(([each]) => each === number)?.[1] ?? String(number)

/** For a SelectField; `now` is among them, whatever it is. */
export const priorities = (now) => (typeof now !== "number" || NAMED.some(([each]) => each === now) ? NAMED : [...NAMED, [now, String(now)]])
