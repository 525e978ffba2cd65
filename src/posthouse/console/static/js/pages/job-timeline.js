// Timeline of a job: waits by reason, attempts, steps, parts and follow-up jobs.
import { AsyncContent, Button, Card } from "../components/display.js"
import { duration, formatDateTime, humanize, plural } from "../format.js"
import { cls, html, useEffect, useRef, useState } from "../preact.js"
import { link } from "../router.js"

const TICK = 500
const COLLAPSED_ROWS = 14
const REASONS = {
  queued: ["quiet", "queued"], due: ["quiet", "due"], preferred: ["quiet", "waiting for a preferred worker"],
  scheduled: ["accent", "scheduled"], snoozed: ["accent", "snoozed"], retry: ["warn", "retry delay"],
  blocked: ["dead", "blocked"], ordered: ["dead", "ordered"],
  limit: ["warn", "limit"], rate: ["warn", "rate limit"], paused: ["warn", "queue paused"], no_worker: ["bad", "no worker"],
}
const OUTCOMES = {
  running: "accent", in_progress: "accent", succeeded: "good", completed: "good", failed: "bad", timeout: "bad", lost: "bad", crashed: "bad", dead_letter: "bad",
  canceled: "quiet", skipped: "quiet", snoozed: "quiet", released: "quiet",
}

export function Waterfall({ timeline }) {
  const [zoomed, setZoomed] = useState(null)
  return html`
    <${Card} title="Timeline" class="job-timeline" aside=${html`${zoomed && html`<${Button} small onClick=${() => setZoomed(null)}>Reset zoom<//>`}<${Legend} spans=${timeline.data?.spans ?? []} />`}>
      <${AsyncContent} request=${timeline} height=${140}>${(data) => html`<${Chart} data=${data} zoomed=${zoomed} zoom=${setZoomed} />`}<//>
    <//>`
}

function Legend({ spans }) {
  const reasons = [...new Set(spans.filter(({ type }) => type === "wait").map(({ reason }) => reason))]
  return html`<span class="job-legend">${reasons.map((reason) => html`<span key=${reason} data-tone=${REASONS[reason]?.[0]}><i></i>${REASONS[reason]?.[1] ?? humanize(reason)}</span>`)}</span>`
}

/** The current time of the database, extrapolated from the last response. */
function useNow(serverTime, on) {
  const began = useRef({ serverTime: null, at: 0 })
  if (began.current.serverTime !== serverTime) began.current = { serverTime, at: performance.now() }
  const [, tick] = useState(0)
  useEffect(() => {
    if (!on) return undefined
    const timer = setInterval(() => tick((n) => n + 1), TICK)
    return () => clearInterval(timer)
  }, [on])
  return momentOf(serverTime) + (on ? performance.now() - began.current.at : 0)
}

function Chart({ data, zoomed, zoom }) {
  const [all, setAll] = useState(false)
  const rows = rowsOf(data)
  const now = useNow(data.now, rows.some((row) => row.segments.some(isOpen)))
  const chosen = rows.find((row) => row.key === zoomed)
  const [from, to] = extent(chosen ? [chosen] : rows, now, chosen ? 0.04 : 0)
  const percentAt = (moment) => (100 * (moment - from)) / (to - from)
  const seen = all || rows.length <= COLLAPSED_ROWS + 2 ? rows : few(rows)
  return html`
    <div class="timeline" role="group" aria-label="Job timeline">
      <div class="timeline-row timeline-axis" aria-hidden="true"><span></span><div class="timeline-track">${ticksOf(from, to).map(([at, text]) => html`<span key=${text} style=${{ left: `${percentAt(at)}%` }}>${text}</span>`)}</div></div>
      ${seen.map((row) => html`<${Row} key=${row.key} row=${row} percentAt=${percentAt} now=${now} on=${row.key === zoomed} zoom=${() => zoom(row.key === zoomed ? null : row.key)} />`)}
    </div>
    ${seen.length < rows.length && html`<${Button} small onClick=${() => setAll(true)}>Show ${plural(rows.length - seen.length, "more row")}<//>`}
    ${data.truncated && html`<p><small>Only the most recent spans are shown.</small></p>`}`
}

/** Prefers attempts to their steps and parts, and the last to the first. */
function few(rows) {
  const kept = new Set([...rows.filter(({ level }) => level === 0).slice(-COLLAPSED_ROWS), ...rows.filter(({ level }) => level > 0)].slice(0, COLLAPSED_ROWS))
  return rows.filter((row) => kept.has(row))
}

function Row({ row, percentAt, now, on, zoom }) {
  return html`
    <div class=${cls("timeline-row", row.level && "inner", row.heading && "heading")} role="group" aria-label=${row.label}>
      ${row.href ? html`<a class="clip" href=${link(row.href)} title=${row.label}>${row.label}</a>`
        : row.level || row.heading ? html`<span class="clip" title=${row.label}>${row.label}</span>`
          : html`<button type="button" class="timeline-name clip" aria-pressed=${on} title=${on ? "Reset zoom" : "Zoom to this attempt"} onClick=${zoom}>${row.label}</button>`}
      ${!row.heading && html`<div class="timeline-track">${row.segments.map((segment) => html`<${Bar} key=${segment.started_at + segment.name} segment=${segment} percentAt=${percentAt} now=${now} />`)}</div>`}
    </div>`
}

function Bar({ segment, percentAt, now }) {
  const [start, end] = [momentOf(segment.started_at), isOpen(segment) ? now : momentOf(segment.ended_at)]
  const [left, right] = [Math.max(0, percentAt(start)), Math.min(100, percentAt(end))]
  if (right < 0 || left > 100) return null
  const wait = segment.type === "wait"
  const [tone, name] = wait ? REASONS[segment.reason] ?? ["quiet", humanize(segment.reason)] : [OUTCOMES[segment.status] ?? "quiet", `${segment.name} ${humanize(segment.status)}`]
  const took = duration((end - start) / 1000)
  const lines = [`${exactTime(start)} – ${isOpen(segment) ? "now" : exactTime(end)}`, segment.worker && `on ${segment.worker}`, segment.error ?? segment.detail].filter(Boolean)
  return html`
    <span class="timeline-bar" tabindex="0" role="img" aria-label=${[name, took, ...lines].join(", ")} data-tone=${tone} data-type=${segment.type} data-open=${isOpen(segment) || undefined}
      style=${{ left: `${left}%`, width: `${Math.max(0, right - left)}%` }}>
      ${right - left > 7 && html`<span class="timeline-took" aria-hidden="true">${took}</span>`}
      <span class="timeline-tip" data-from=${left <= 38 ? "left" : right >= 62 ? "right" : "middle"} aria-hidden="true"><b>${name}</b> <span class="figure">${took}</span>${lines.map((line) => html`<br key=${line} /><span>${line}</span>`)}</span>
    </span>`
}

const fine = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" })
const exactTime = (moment) => (new Date(moment).toDateString() === new Date().toDateString() ? fine.format(moment) : formatDateTime(moment))

// Rows and time axis of the job timeline, independent of rendering.

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30].flatMap((n) => [n * SECOND, n * MINUTE]), ...[1, 2, 3, 6, 12].map((n) => n * HOUR), ...[1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY)].sort((a, b) => a - b)
const TICKS = 6

const momentOf = (text) => new Date(text).getTime()
const isOpen = (segment) => segment.ended_at === null

const attemptKey = ({ generation, attempt_no: attempt }) => `${generation}.${attempt}`

/**
 * [{key, label, level, href, segments}]: each attempt with the waits before it, then its steps and parts; a wait
 * without a following attempt; then follow-up jobs. A snooze does not count as an attempt: all runs until the next
 * attempt are one row, so that a job that polls for hours has no more rows than another.
 */
function rowsOf({ spans, follow_ups: made, job }) {
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
function extent(rows, now, margin) {
  const segments = rows.flatMap((row) => row.segments)
  const from = Math.min(...segments.map((each) => momentOf(each.started_at)), now)
  const to = Math.max(...segments.map((each) => (isOpen(each) ? now : momentOf(each.ended_at))), from + 1)
  const more = (to - from) * margin
  return [from - more, to + more]
}

/** [[moment, text]]: axis ticks at round offsets; the last one leaves room for its text on a phone. */
function ticksOf(from, to) {
  const step = STEPS.find((each) => (to - from) / each <= TICKS) ?? STEPS.at(-1)
  return Array.from({ length: Math.floor((0.85 * (to - from)) / step) + 1 }, (_, index) => [from + index * step, tickText(index * step)])
}

function tickText(offset) {
  if (offset === 0) return "0"
  const [name, size] = offset < SECOND ? ["ms", 1] : offset < MINUTE ? ["s", SECOND] : offset < HOUR ? ["m", MINUTE] : offset < DAY ? ["h", HOUR] : ["d", DAY]
  return `${Number((offset / size).toFixed(2))} ${name}`
}
