// Formats numbers, times and priorities.

const UNITS = [["d", 86400], ["h", 3600], ["m", 60]]
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" })
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" })
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" })
const whole = new Intl.NumberFormat("en")
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 })

export const formatDateTime = (moment) => exact.format(new Date(moment))
export const timeOfDay = (moment) => clock.format(new Date(moment))
export const dayOf = (moment) => day.format(new Date(moment))
export const formatInteger = (number) => (number === null || number === undefined ? "–" : whole.format(number))
export const formatCompact = (number) => (number === null || number === undefined ? "–" : number < 10000 ? whole.format(Math.round(number)) : compact.format(number))
export const percent = (share) => (share === null || share === undefined || Number.isNaN(share) ? "–" : `${(share * 100).toFixed(share && share < 0.1 ? 1 : 0)} %`)

/** Seconds in readable units: 340 ms, 4.2 s, 12 m 5 s, 3 h 2 m, 5 d. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–"
  if (seconds < 0) return `-${duration(-seconds)}`
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`
  if (seconds < 59.5) return `${Math.round(seconds)} s`
  const rounded = Math.round(seconds)
  const [unit, size] = UNITS.find(([, each]) => rounded >= each)
  const next = UNITS[UNITS.findIndex(([name]) => name === unit) + 1] ?? ["s", 1]
  const rest = Math.floor((rounded % size) / next[1])
  return `${Math.floor(rounded / size)} ${unit}${rest ? ` ${rest} ${next[0]}` : ""}`
}

export const secondsBetween = (from, to) => (from ? (new Date(to ?? Date.now()) - new Date(from)) / 1000 : null)

/** "4 m ago", "in 2 h", "now". */
export function relative(moment, now = Date.now()) {
  const seconds = (now - new Date(moment)) / 1000
  if (Math.abs(seconds) < 1.5) return "now"
  const size = Math.abs(seconds)
  const [unit, each] = UNITS.find(([, least]) => size >= least) ?? ["s", 1]
  const text = `${Math.round(size / each)} ${unit}`
  return seconds > 0 ? `${text} ago` : `in ${text}`
}

export function bytes(size) {
  if (size === null || size === undefined) return "–"
  const units = ["B", "kB", "MB", "GB", "TB"]
  const step = Math.min(units.length - 1, size < 1 ? 0 : Math.floor(Math.log10(size) / 3))
  return `${(size / 1000 ** step).toFixed(step && size / 1000 ** step < 10 ? 1 : 0)} ${units[step]}`
}

export const shortId = (id) => (id ? `${id.slice(0, 8)}…${id.slice(-4)}` : "–")
export const humanize = (name) => name.replaceAll("_", " ")
export const plural = (number, one, many = `${one}s`) => `${formatInteger(number)} ${number === 1 ? one : many}`

// Priorities are numbers, lower runs first; four of them have names.

const NAMED = [[10, "urgent"], [50, "high"], [100, "normal"], [200, "low"]]

export const priorityName = (number) => NAMED.find(([each]) => each === number)?.[1] ?? String(number)

/** Options of a SelectField, including the current value `now`. */
export const priorities = (now) => (typeof now !== "number" || NAMED.some(([each]) => each === now) ? NAMED : [...NAMED, [now, String(now)]])
