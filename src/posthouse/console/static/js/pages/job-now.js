// Summary of a job: why it waits, its progress, or its error.
import { html } from "../lib.js"
import { between, count, duration, plural } from "../format.js"
import { Card, Progress, Since, Status, Time } from "../ui/basics.js"
import { Icon } from "../ui/icons.js"
import { Trouble } from "./job-attempts.js"
import { isWaiting } from "./job-live.js"
import { Why } from "./job-why.js"

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
