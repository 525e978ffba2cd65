// Summary of a job: why it waits, its progress, or its error.
import { between, count, duration, plural } from "../format.js"
import { html } from "../lib.js"
import { link } from "../router.js"
import { Card, JobLink, Loaded, Progress, Since, Snippet, Status, Time } from "../ui/basics.js"
import { Icon } from "../ui/icons.js"
import { Trouble } from "./job-attempts.js"
import { isWaiting } from "./job-live.js"

export function Now({ known }) {
  const job = known.job.data
  if (isWaiting(job)) return html`<${Why} job=${job} why=${known.why} />`
  if (job.status === "running") return html`<${Running} job=${job} parts=${known.parts.data} />`
  if (job.status === "succeeded") return html`<${Succeeded} job=${job} parts=${known.parts.data} />`
  return html`<${Unsuccessful} job=${job} attempts=${known.attempts.data} />`
}

function Running({ job, parts }) {
  return html`
    <${Card} title="Running" aside=${html`<span class="faint">lease expires <${Time} at=${job.lease_expires_at} /></span>`}>
      <div class="job-progress"><${Progress} percent=${job.progress_percent ?? 0} /></div>
      <p class="job-step clip">${job.current_step ? html`<b>${job.current_step}</b> ` : ""}<span class="faint">${job.progress_message ?? (job.current_step ? "" : job.progress_percent === null ? "No progress reported." : "No step reported.")}</span></p>
      ${job.cancel_requested_at && html`<p class="job-note" data-tone="warn"><${Icon} name="stop" /> Cancellation requested <${Time} at=${job.cancel_requested_at} />; the worker is stopping the job.</p>`}
      <${Parts} parts=${parts} />
    <//>`
}

function Succeeded({ job, parts }) {
  return html`
    <${Card}>
      <p class="job-note" data-tone="good"><${Icon} name="check" /><b>Succeeded</b>
        <span>in ${duration(between(job.attempt_started_at ?? job.started_at, job.finished_at))}, ${job.attempt_count > 1 ? `on attempt ${job.attempt_count}` : "on the first attempt"}, <${Time} at=${job.finished_at} /></span></p>
      <${Parts} parts=${parts} />
    <//>`
}

function Unsuccessful({ job, attempts }) {
  const last = attempts?.at(-1)
  const fault = job.error ?? (last?.error_type ? { type: last.error_type, message: last.error_text, traceback: last.traceback } : null)
  const title = { canceled: "Canceled", dead_letter: `Dead letter after ${plural(job.attempt_count, "attempt")}`, failed: "Failed" }[job.status]
  return html`
    <${Card} title=${title} class=${job.status === "canceled" ? "" : "job-failed"} aside=${html`<${Time} at=${job.finished_at} />`}>
      ${fault ? html`<${Trouble} fault=${fault} kind=${job.definition_key} open />` : html`<p class="faint">${job.last_error ?? "No error was recorded."}</p>`}
    <//>`
}

function Parts({ parts }) {
  if (!parts?.length) return null
  return html`
    <ul class="job-parts" aria-label="Parts">${parts.map((part) => html`
      <li key=${part.name}>
        <span class="clip" title=${part.name}>${part.name}</span><${Status} status=${part.status} />
        <${Progress} percent=${part.percent} label=${`Progress of ${part.name}`} tone=${PART_TONES[part.status]} />
        <span class="faint clip" title=${part.error ?? part.message}>${part.error ?? part.message ?? (part.total ? `${count(part.done ?? 0)} of ${count(part.total)}` : "")}</span>
        <span class="faint job-took">${part.started_at && html`<${Since} from=${part.started_at} to=${part.finished_at ?? (part.status === "in_progress" ? undefined : part.updated_at)} />`}</span>
      </li>`)}
    </ul>`
}

const PART_TONES = { completed: "good", failed: "bad", skipped: "quiet" }

// Why a job waits: the reason, jobs ahead, the expected start and advice.

function Why({ job, why }) {
  return html`
    <${Card} title="Why this job is waiting" aside=${html`<span class="faint">waiting for <${Since} from=${job.queued_at} /></span>`}>
      <${Loaded} from=${why} lines=${3}>${(told) => html`<${Reason} told=${told} job=${job} />`}<//>
    <//>`
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`

/** Advice that ends in a command gets a copy button. */
function Advice({ text }) {
  const [, words, command] = text.match(/^(.*?)(?::\s*)(posthouse\s.+)$/s) ?? [null, text, null]
  return html`<p class="job-advice">${sentence(words)}${command ? html`: <${Snippet} text=${command} />` : ""}</p>`
}

function Reason({ told, job }) {
  const tone = { no_worker: "bad", paused: "warn", limit: "warn", rate: "warn" }[told.reason] ?? "accent"
  return html`
    <p class="job-note" data-tone=${tone}><${Icon} name=${tone === "accent" ? "clock" : "alert"} /><b>${sentence(told.summary)}</b></p>
    ${told.advice && html`<${Advice} text=${told.advice} />`}
    <dl class="facts">
      ${fact("Until", told.until && html`<${Time} at=${told.until} />`)}
      ${fact("Jobs ahead", told.ahead !== null && told.ahead !== undefined && plural(told.ahead, "job"))}
      ${fact("Starts in about", told.starts_in_seconds !== null && told.starts_in_seconds !== undefined && duration(told.starts_in_seconds))}
      ${fact("Matching workers", told.workers.length > 0 && told.workers.map((worker) => html`<div key=${worker.id}><a href=${link("workers", { worker: worker.id })}>${worker.name}</a> <span class="faint">${count(worker.running)} of ${plural(worker.concurrency, "slot")}</span></div>`))}
      ${fact("Missing capabilities", told.missing.length > 0 && told.missing.join(", "))}
      ${fact("Last attempt", job.last_error && html`<span class="job-error">${job.last_error}</span>`)}
    </dl>
    ${told.blocked_by.length > 0 && html`<${Blockers} blockers=${told.blocked_by} />`}
    ${told.limits.map((limit) => html`<${Limit} key=${limit.name} limit=${limit} />`)}
    ${told.also.length > 0 && html`<ul class="job-also">${told.also.map((text) => html`<li key=${text}>Also: ${text}</li>`)}</ul>`}`
}

const fact = (name, value) => (value ? html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>` : null)

const Blockers = ({ blockers }) => html`
  <div class="job-block"><h3>Blocked by</h3><ul class="job-holders">${blockers.map((each) => html`
    <li key=${each.id}><${JobLink} id=${each.id} /><span class="clip">${each.definition_key ?? "deleted by retention"}</span>${each.status && html`<${Status} status=${each.status} />`}</li>`)}</ul></div>`

function Limit({ limit }) {
  return html`
    <div class="job-block">
      <h3><a href=${link("queues", { limit: limit.name })}>Limit ${limit.name}</a>${limit.per !== "all" && ` per ${limit.per}`}</h3>
      ${limit.max_running !== null && html`<div class="bar"><${Progress} percent=${limit.max_running ? (100 * limit.in_use) / limit.max_running : 100} label=${`Usage of limit ${limit.name}`} tone="warn" /><span>${count(limit.in_use)} of ${count(limit.max_running)} running</span></div>`}
      ${limit.rate !== null && html`<p>${limit.rate >= 1 ? `${count(limit.rate)} starts per second` : `one start every ${duration(1 / limit.rate)}`}${limit.seconds ? `; next start in ${duration(limit.seconds)}` : ""}</p>`}
      ${limit.holders.length > 0 && html`<ul class="job-holders" aria-label=${`Jobs using limit ${limit.name}`}>${limit.holders.map((each) => html`
        <li key=${each.id}><${JobLink} id=${each.id} /><span class="clip">${each.definition_key}</span><span class="faint">${each.worker ?? ""} for <${Since} from=${each.since} /></span></li>`)}</ul>`}
    </div>`
}
