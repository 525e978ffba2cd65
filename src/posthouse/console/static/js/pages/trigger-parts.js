// Parts that the trigger pages share: options, next runs, sample events.
import { api, useApi } from "../api.js"
import { Tag, Time } from "../components/display.js"
import { JsonField, SelectField, TextField } from "../components/forms.js"
import { runWithToast, toast } from "../components/toast.js"
import { relative } from "../format.js"
import { html } from "../preact.js"

export const nameOf = (trigger) => trigger.label || trigger.name || trigger.description

export const FromCode = () => html`<${Tag} title="Defined in code, with its handler.">code<//>`

/** Resumes or pauses a trigger, with Undo. */
export async function setEnabled(trigger, on, done) {
  const set = (enabled) => api.post(`/jobs/triggers/${trigger.id}/${enabled ? "enable" : "disable"}`).then(done)
  if (await runWithToast(() => set(on))) toast(`Trigger “${nameOf(trigger)}” ${on ? "resumed" : "paused"}`, { undo: () => runWithToast(() => set(!on)) })
}

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

// Next runs of a schedule, in its time zone and in the time zone of the browser.

const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone
const PARTS = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }

export const clockOf = (at, zone) => {
  const precise = new Date(at).getUTCSeconds() ? { second: "2-digit" } : {}
  try {
    return new Intl.DateTimeFormat("en-GB", { ...PARTS, ...precise, timeZone: zone }).format(new Date(at))
  } catch { // unknown to the browser
    return new Date(at).toISOString().replace("T", " ").slice(0, 19)
  }
}

/** Only the time of day if the day is the same. */
const hereOf = (at, zone) => {
  const [there, here] = [clockOf(at, zone), clockOf(at, HERE)]
  const day = (text) => text.replace(/,? [\d:]+$/, "")
  return day(there) === day(here) ? here.match(/[\d:]+$/)[0] : here
}

const offsetOf = (local) => local.match(/[+-]\d\d:\d\d$/)?.[0].replace("-", "−") ?? "UTC"

/** `runs` as returned by the API. */
export function Runs({ runs, zone }) {
  const elsewhere = runs.some(({ at }) => clockOf(at, zone) !== clockOf(at, HERE))
  if (!runs.length) return html`<p class="faint">No further runs.</p>`
  return html`
    <ol class="runs" aria-label="Next runs">${runs.map((run) => html`
      <li key=${run.at}>
        <span class="figure"><b>${clockOf(run.at, zone)}</b> <small>${offsetOf(run.local)}</small></span>
        ${elsewhere && html`<span class="figure faint" title=${`Your time zone (${HERE})`}>${hereOf(run.at, zone)} <small>your time</small></span>`}
        <span class="faint"><${Time} at=${run.at} /></span>
        ${run.note && html`<${Tag} tone="warn">${run.note}<//>`}
      </li>`)}
    </ol>
    <small>${zone}${elsewhere ? `; your time zone: ${HERE}` : ", same as your time"}</small>`
}

// Sample event of a trigger preview: the latest one, another stored one, or a hand-written one.

export const LATEST = { id: "" }
const OWN = "own"

/** The request fields of a sample: {event_id} or {event}. */
export function sampleBody(sample) {
  if (sample.id !== OWN) return sample.id ? { event_id: sample.id } : {}
  return sample.context === null || !sample.name ? {} : { event: { event_name: sample.name, context: sample.context, subject: sample.subject || null } }
}

/** `sample`: {id, name, context}; `pattern`: the event name of the trigger; `latest`: whether "" can be selected. */
export function SampleChoice({ sample, onChange, pattern, tenant, seen, latest = true }) {
  const events = useApi(pattern ? "/events" : null, { name: pattern, limit: 20, tenant })
  const options = [...(latest ? [["", "Latest matching event"]] : []), ...(events.data?.items ?? []).map((each) => [each.id, `${each.name}, ${relative(each.at)}${each.subject ? `, ${each.subject}` : ""}`]), [OWN, "Custom event"]]
  const choose = (id) => onChange(id === OWN ? { id, name: sample.name ?? seen?.name ?? (pattern?.includes("*") ? "" : pattern), context: seen?.context ?? sample.context ?? {} } : { ...sample, id })
  return html`
    <${SelectField} label="Sample event" value=${sample.id} onChange=${choose} options=${options} />
    ${sample.id === OWN && html`
      <${TextField} label="Event name" value=${sample.name} onChange=${(name) => onChange({ ...sample, name })} />
      <${JsonField} label="Event context" rows=${5} value=${sample.context} onChange=${(context, broken) => onChange({ ...sample, context: broken ? null : context ?? {} })} />`}`
}
