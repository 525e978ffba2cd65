// Why a job waits: the reason, jobs ahead, the expected start and advice.
import { html } from "../lib.js"
import { count, duration, plural } from "../format.js"
import { link } from "../router.js"
import { Card, JobLink, Loaded, Progress, Since, Snippet, Status, Time } from "../ui/basics.js"
import { Icon } from "../ui/icons.js"

export function Why({ job, why }) {
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
