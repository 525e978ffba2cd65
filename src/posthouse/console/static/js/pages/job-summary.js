// Summary of a job: why it waits, its progress, or its error.
import { AsyncContent, Card, CopyButton, Elapsed, JobLink, Progress, Snippet, Status, Time } from "../components/display.js"
import { Icon } from "../components/icons.js"
import { duration, formatDateTime, formatInteger, humanize, plural, secondsBetween } from "../format.js"
import { html } from "../preact.js"
import { link, setQuery } from "../router.js"
import { isWaiting, WorkerName } from "./job-state.js"

export function StatusPanel({ jobData }) {
  const job = jobData.job.data
  if (isWaiting(job)) return html`<${Why} job=${job} why=${jobData.why} />`
  if (job.status === "running") return html`<${Running} job=${job} parts=${jobData.parts.data} />`
  if (job.status === "succeeded") return html`<${Succeeded} job=${job} parts=${jobData.parts.data} />`
  return html`<${FailedPanel} job=${job} attempts=${jobData.attempts.data} />`
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
        <span>in ${duration(secondsBetween(job.attempt_started_at ?? job.started_at, job.finished_at))}, ${job.attempt_count > 1 ? `on attempt ${job.attempt_count}` : "on the first attempt"}, <${Time} at=${job.finished_at} /></span></p>
      <${Parts} parts=${parts} />
    <//>`
}

function FailedPanel({ job, attempts }) {
  const last = attempts?.at(-1)
  const error = job.error ?? (last?.error_type ? { type: last.error_type, message: last.error_text, traceback: last.traceback } : null)
  const title = { canceled: "Canceled", dead_letter: `Dead letter after ${plural(job.attempt_count, "attempt")}`, failed: "Failed" }[job.status]
  return html`
    <${Card} title=${title} class=${job.status === "canceled" ? "" : "job-failed"} aside=${html`<${Time} at=${job.finished_at} />`}>
      ${error ? html`<${ErrorDetail} error=${error} kind=${job.definition_key} open />` : html`<p class="faint">${job.last_error ?? "No error was recorded."}</p>`}
    <//>`
}

function Parts({ parts }) {
  if (!parts?.length) return null
  return html`
    <ul class="job-parts" aria-label="Parts">${parts.map((part) => html`
      <li key=${part.name}>
        <span class="clip" title=${part.name}>${part.name}</span><${Status} status=${part.status} />
        <${Progress} percent=${part.percent} label=${`Progress of ${part.name}`} tone=${PART_TONES[part.status]} />
        <span class="faint clip" title=${part.error ?? part.message}>${part.error ?? part.message ?? (part.total ? `${formatInteger(part.done ?? 0)} of ${formatInteger(part.total)}` : "")}</span>
        <span class="faint job-took">${part.started_at && html`<${Elapsed} from=${part.started_at} to=${part.finished_at ?? (part.status === "in_progress" ? undefined : part.updated_at)} />`}</span>
      </li>`)}
    </ul>`
}

const PART_TONES = { completed: "good", failed: "bad", skipped: "quiet" }

// Why a job waits: the reason, jobs ahead, the expected start and advice.

function Why({ job, why }) {
  return html`
    <${Card} title="Why this job is waiting" aside=${html`<span class="faint">waiting for <${Elapsed} from=${job.queued_at} /></span>`}>
      <${AsyncContent} request=${why} lines=${3}>${(data) => html`<${WaitReason} why=${data} job=${job} />`}<//>
    <//>`
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`

/** Advice that ends in a command gets a copy button. */
function Advice({ text }) {
  const [, explanation, command] = text.match(/^(.*?)(?::\s*)(posthouse\s.+)$/s) ?? [null, text, null]
  return html`<p class="job-advice">${sentence(explanation)}${command ? html`: <${Snippet} text=${command} />` : ""}</p>`
}

function WaitReason({ why, job }) {
  const tone = { no_worker: "bad", paused: "warn", limit: "warn", rate: "warn" }[why.reason] ?? "accent"
  return html`
    <p class="job-note" data-tone=${tone}><${Icon} name=${tone === "accent" ? "clock" : "alert"} /><b>${sentence(why.summary)}</b></p>
    ${why.advice && html`<${Advice} text=${why.advice} />`}
    <dl class="facts">
      ${fact("Until", why.until && html`<${Time} at=${why.until} />`)}
      ${fact("Jobs ahead", why.ahead !== null && why.ahead !== undefined && plural(why.ahead, "job"))}
      ${fact("Starts in about", why.starts_in_seconds !== null && why.starts_in_seconds !== undefined && duration(why.starts_in_seconds))}
      ${fact("Matching workers", why.workers.length > 0 && why.workers.map((worker) => html`<div key=${worker.id}><a href=${link("workers", { worker: worker.id })}>${worker.name}</a> <span class="faint">${formatInteger(worker.running)} of ${plural(worker.concurrency, "slot")}</span></div>`))}
      ${fact("Missing capabilities", why.missing.length > 0 && why.missing.join(", "))}
      ${fact("Last attempt", job.last_error && html`<span class="job-error">${job.last_error}</span>`)}
    </dl>
    ${why.blocked_by.length > 0 && html`<${Blockers} blockers=${why.blocked_by} />`}
    ${why.limits.map((limit) => html`<${Limit} key=${limit.name} limit=${limit} />`)}
    ${why.also.length > 0 && html`<ul class="job-also">${why.also.map((text) => html`<li key=${text}>Also: ${text}</li>`)}</ul>`}`
}

const fact = (name, value) => (value ? html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>` : null)

const Blockers = ({ blockers }) => html`
  <div class="job-block"><h3>Blocked by</h3><ul class="limit-holders">${blockers.map((each) => html`
    <li key=${each.id}><${JobLink} id=${each.id} /><span class="clip">${each.definition_key ?? "deleted by retention"}</span>${each.status && html`<${Status} status=${each.status} />`}</li>`)}</ul></div>`

function Limit({ limit }) {
  return html`
    <div class="job-block">
      <h3><a href=${link("queues", { limit: limit.name })}>Limit ${limit.name}</a>${limit.per !== "all" && ` per ${limit.per}`}</h3>
      ${limit.max_running !== null && html`<div class="bar"><${Progress} percent=${limit.max_running ? (100 * limit.in_use) / limit.max_running : 100} label=${`Usage of limit ${limit.name}`} tone="warn" /><span>${formatInteger(limit.in_use)} of ${formatInteger(limit.max_running)} running</span></div>`}
      ${limit.rate !== null && html`<p>${limit.rate >= 1 ? `${formatInteger(limit.rate)} starts per second` : `one start every ${duration(1 / limit.rate)}`}${limit.seconds ? `; next start in ${duration(limit.seconds)}` : ""}</p>`}
      ${limit.holders.length > 0 && html`<ul class="limit-holders" aria-label=${`Jobs using limit ${limit.name}`}>${limit.holders.map((each) => html`
        <li key=${each.id}><${JobLink} id=${each.id} /><span class="clip">${each.definition_key}</span><span class="faint">${each.worker ?? ""} for <${Elapsed} from=${each.since} /></span></li>`)}</ul>`}
    </div>`
}

// The error of a job, and its attempts side by side.

/** An error with its collapsed traceback. */
function ErrorDetail({ error, kind, open = false }) {
  const where = error.traceback?.trimEnd()
  return html`
    <div class="error-detail">
      <p class="job-error"><b>${error.type}</b>${error.message && html`<span>${error.message}</span>`}</p>
      ${error.fingerprint && html`<p><a href=${link(`failures/${error.fingerprint}`, { kind })}>View failure group</a></p>`}
      ${where && html`<details class="more" open=${open && where.split("\n").length <= 14}><summary>Traceback <span class="faint">${lastPlace(where)}</span></summary>
        <div class="job-output"><${CopyButton} text=${where} label="Copy traceback" /><pre tabindex="0" aria-label="Traceback">${where}</pre></div></details>`}
    </div>`
}

/** File and line of the innermost frame. */
function lastPlace(traceback) {
  const [, file, line, name] = [...traceback.matchAll(/File "(?:.*\/)?([^"/]+)", line (\d+), in (.+)/g)].at(-1) ?? []
  return file ? `${file}:${line} in ${name}` : ""
}

const keyOf = (attempt) => `${attempt.generation}.${attempt.attempt_no}.${attempt.started_at.slice(11, 23)}`
const nameOf = (attempt, several) => `Attempt ${attempt.attempt_no}${several ? ` of run ${attempt.generation}` : ""}`

/** Without the snoozes before another run of the same attempt. */
const folded = (attempts) => attempts.filter((each, index) => {
  const next = attempts[index + 1]
  return each.status !== "snoozed" || next?.attempt_no !== each.attempt_no || next.generation !== each.generation
})

/** Two attempts side by side. The URL names them. */
export function Attempts({ attempts, timeline, query }) {
  const ended = folded((attempts ?? []).filter(({ finished_at }) => finished_at))
  if (!ended.length || (ended.length === 1 && !hasOutput(ended[0]))) return null
  const several = ended.at(-1).generation > 1
  const find = (key, otherwise) => ended.find((each) => keyOf(each) === key) ?? otherwise
  const right = find(query.right, ended.at(-1))
  const left = ended.length > 1 && find(query.left, ended.filter((each) => each !== right).at(-1))
  const shown = [left, right].filter(Boolean)
  const spans = timeline?.spans ?? []
  const choose = (side) => (event) => setQuery({ [side]: event.target.value }, { replace: true })
  return html`
    <${Card} title=${ended.length > 1 ? "Attempts" : "Attempt"} aside=${html`<span class="faint">${ended.length > 1 ? `${ended.length} finished` : ""}</span>`}>
      <div class="job-compare" data-sides=${shown.length}>${shown.map((attempt, index) => {
        const side = index + 1 < shown.length ? "left" : "right"
        return html`
          <section key=${side} aria-label=${nameOf(attempt, several)}>
            ${ended.length > 2 ? html`<select aria-label=${side === "left" ? "Left attempt" : "Right attempt"} value=${keyOf(attempt)} onChange=${choose(side)}>
              ${ended.map((each) => html`<option key=${keyOf(each)} value=${keyOf(each)}>${nameOf(each, several)} · ${humanize(each.status)}</option>`)}</select>` : html`<h3>${nameOf(attempt, several)}</h3>`}
            <${Attempt} attempt=${attempt} other=${shown.find((each) => each !== attempt)} spans=${spans} />
          </section>`
      })}</div>
    <//>`
}

const hasOutput = (attempt) => Boolean(attempt.stdout_tail || attempt.stderr_tail || attempt.exit_code || attempt.signal)

function Attempt({ attempt, other, spans }) {
  const took = (each) => each && duration(secondsBetween(each.started_at, each.finished_at))
  const facts = [
    ["Outcome", html`<${Status} status=${attempt.status} />`, attempt.status !== other?.status],
    ["Started", formatDateTime(attempt.started_at), false],
    ["Duration", html`<span class="figure">${took(attempt)}</span>`, took(attempt) !== took(other)],
    ["Worker", html`<${WorkerName} id=${attempt.worker_id} spans=${spans} />`, attempt.worker_id !== other?.worker_id],
    ["Exit code", attempt.exit_code, attempt.exit_code !== other?.exit_code],
    ["Signal", attempt.signal, attempt.signal !== other?.signal],
    ["Process id", attempt.pid, false],
  ].filter(([, value]) => value !== null && value !== undefined)
  return html`
    <dl class="job-pairs">${facts.map(([name, value, differs]) => html`<div key=${name} data-differs=${(other && differs) || undefined}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${attempt.error_type && html`<div data-differs=${(other && attempt.error_text !== other.error_text) || undefined}><${ErrorDetail} error=${{ type: attempt.error_type, message: attempt.error_text, traceback: attempt.traceback }} /></div>`}
    ${["stdout", "stderr"].map((stream) => attempt[`${stream}_tail`] && html`
      <div key=${stream} class="job-output"><h3>Last lines of ${stream}</h3><${CopyButton} text=${attempt[`${stream}_tail`]} label=${`Copy ${stream}`} /><pre tabindex="0" aria-label=${`Last lines of ${stream}`}>${attempt[`${stream}_tail`]}</pre></div>`)}`
}
