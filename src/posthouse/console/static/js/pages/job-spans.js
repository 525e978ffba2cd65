// Rows and time axis of the job timeline, independent of rendering.
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30].flatMap((n) => [n * SECOND, n * MINUTE]), ...[1, 2, 3, 6, 12].map((n) => n * HOUR), ...[1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY)].sort((a, b) => a - b)
const TICKS = 6

export const momentOf = (text) => new Date(text).getTime()
export const isOpen = (segment) => segment.ended_at === null

const attemptKey = ({ generation, attempt_no: attempt }) => `${generation}.${attempt}`

/**
 * [{key, label, level, href, segments}]: each attempt with the waits before it, then its steps and parts; a wait
 * without a following attempt; then follow-up jobs. A snooze does not count as an attempt: all runs until the next
 * attempt are one row, so that a job that polls for hours has no more rows than another.
 */
export function rowsOf({ spans, follow_ups: made, job }) {
  const rows = []
  const latest = new Map()
  let waits = []
  for (const span of spans) {
    if (span.type === "wait") waits.push(span)
    else if (span.type === "attempt") {
      const row = latest.get(attemptKey(span)) ?? attemptRow(span, job)
      if (!latest.has(attemptKey(span))) rows.push(row)
      latest.set(attemptKey(span), row)
      row.segments.push(...waits, span)
      waits = []
    } else {
      const inner = { key: `${span.type} ${span.name} ${span.started_at}`, label: span.name, level: 1, segments: [span] }
      ;(latest.get(attemptKey(span))?.inner ?? rows).push(inner)
    }
  }
  if (waits.length) rows.push({ key: "waits", label: job.finished_at ? "Waited" : "Waiting", level: 0, segments: waits })
  const heading = made.length ? [{ key: "follow-ups", label: "Follow-up jobs", level: 0, heading: true, segments: [] }] : []
  for (const row of rows) row.label += snoozesOf(row)
  return [...rows.flatMap((row) => [row, ...(row.inner ?? [])]), ...heading, ...made.map(followUp)]
}

const attemptRow = (span, job) => ({ key: `attempt ${attemptKey(span)}`, label: `Attempt ${span.attempt_no}${job.generation > 1 ? `, run ${span.generation}` : ""}`, level: 0, segments: [], inner: [] })

function snoozesOf({ segments }) {
  const count = segments.filter(({ type, status }) => type === "attempt" && status === "snoozed").length
  return count > 1 ? `, ${count} snoozes` : ""
}

function followUp(job) {
  const started = job.started_at ?? job.finished_at
  const wait = { type: "wait", name: "queued", reason: "queued", status: "over", started_at: job.created_at, ended_at: started }
  const run = { type: "attempt", name: job.definition_key, status: job.status, started_at: job.started_at, ended_at: job.finished_at }
  return { key: job.id, label: job.definition_key, level: 1, href: `jobs/${job.id}`, segments: job.started_at ? [wait, run] : [wait] }
}

/** Start and end of these rows, plus a margin on both sides. */
export function extent(rows, now, margin) {
  const segments = rows.flatMap((row) => row.segments)
  const from = Math.min(...segments.map((each) => momentOf(each.started_at)), now)
  const to = Math.max(...segments.map((each) => (isOpen(each) ? now : momentOf(each.ended_at))), from + 1)
  const more = (to - from) * margin
  return [from - more, to + more]
}

/** [[moment, text]]: axis ticks at round offsets; the last one leaves room for its text on a phone. */
export function ticksOf(from, to) {
  const step = STEPS.find((each) => (to - from) / each <= TICKS) ?? STEPS.at(-1)
  return Array.from({ length: Math.floor((0.85 * (to - from)) / step) + 1 }, (_, place) => [from + place * step, tickText(place * step)])
}

function tickText(offset) {
  if (offset === 0) return "0"
  const [name, size] = offset < SECOND ? ["ms", 1] : offset < MINUTE ? ["s", SECOND] : offset < HOUR ? ["m", MINUTE] : offset < DAY ? ["h", HOUR] : ["d", DAY]
  return `${Number((offset / size).toFixed(2))} ${name}`
}
