// Payload, result, artifacts and details of a job; copies as curl and Python.
import { address } from "../api.js"
import { html } from "../lib.js"
import { bytes, duration, exactly } from "../format.js"
import { useSession } from "../session.js"
import { Card, Copy, Facts, JobLink, Time } from "../ui/basics.js"
import { Icon } from "../ui/icons.js"
import { Json } from "../ui/json.js"
import { hasSecrets, Id } from "./job-head.js"
import { isOver } from "./job-live.js"

export function Data({ job }) {
  const session = useSession()
  return html`
    <div class="grid-2 job-data">
      <${Card} title="Payload" aside=${html`<${Copies} job=${job} session=${session} />`}>
        <${Json} value=${job.payload} label="payload" />
        ${hasSecrets(job.payload) && html`<p><small>Secrets are masked, here and in copies.</small></p>`}
      <//>
      <${Card} title="Result">
        ${job.status === "succeeded" ? html`<${Json} value=${job.result} label="result" />`
          : html`<div class="json"><pre class="faint">${isOver(job) ? "No result." : "No result yet."}</pre></div>`}
      <//>
    </div>`
}

const Copies = ({ job, session }) => html`
  <span class="job-copies"><span>curl<${Copy} text=${() => asCurl(job, session)} label="Copy as curl" /></span><span>Python<${Copy} text=${() => asPython(job)} label="Copy as Python" /></span></span>`

const given = (job) => ({ queue: job.queue, priority: job.priority, subject: job.subject, order_key: job.order_key })
const known = (options) => Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null && value !== undefined))
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`

/** A curl command that enqueues the same job; the API key comes from the environment. */
export function asCurl(job, session) {
  const url = new URL(address("/jobs"))
  url.search = session.operator ? new URLSearchParams({ tenant: job.tenant_id }) : ""
  const body = { definition_key: job.definition_key, payload: job.payload ?? {}, ...known(given(job)) }
  return [`curl -s ${shell(url.href)}`, '-H "Authorization: Bearer $POSTHOUSE_API_KEY"', "-H 'Content-Type: application/json'", `-d ${shell(JSON.stringify(body))}`].join(" \\\n  ") + "\n"
}

/** A program that enqueues the same job in the configured database. */
export function asPython(job) {
  const options = Object.entries(known({ tenant: job.tenant_id, ...given(job) })).map(([name, value]) => `        ${name}=${literal(value)},\n`).join("")
  return `import posthouse\n\nwith posthouse.SyncClient() as client:\n    handle = client.enqueue(\n        ${literal(job.definition_key)},\n        ${literal(job.payload ?? {}, 2)},\n${options}    )\n    print(handle.id)\n`
}

/** JSON as a Python literal. */
function literal(value, depth = 0) {
  if (value === null) return "None"
  if (typeof value === "boolean") return value ? "True" : "False"
  if (typeof value === "string") return JSON.stringify(value) // JSON escapes are valid in Python
  if (typeof value !== "object") return String(value)
  const list = Array.isArray(value)
  const items = list ? value.map((item) => literal(item, depth + 1)) : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${literal(item, depth + 1)}`)
  const [first, last] = list ? "[]" : "{}"
  if (!items.length) return first + last
  const inner = "    ".repeat(depth + 1)
  return `${first}\n${inner}${items.join(`,\n${inner}`)},\n${"    ".repeat(depth)}${last}`
}

export function Artifacts({ job, artifacts }) {
  if (!artifacts?.length) return null
  return html`
    <${Card} title="Artifacts">
      <ul class="job-files">${artifacts.map((file) => html`
        <li key=${file.name}><${Icon} name="download" /><a class="clip" href=${address(`/jobs/${job.id}/artifacts/${file.name.split("/").map(encodeURIComponent).join("/")}`)} download=${file.name.split("/").at(-1)}>${file.name}</a>
          <span class="figure">${bytes(file.size)}</span><span class="faint wide-only">${file.content_type}</span><span class="faint"><${Time} at=${file.created_at} /></span><${Copy} text=${file.sha256} label=${`Copy SHA-256 of ${file.name}`} /></li>`)}
      </ul>
    <//>`
}

export function Details({ job }) {
  const moment = (at) => at && html`<time datetime=${at}>${exactly(at)}</time>`
  return html`
    <${Card} title="Details">
      <${Facts} facts=${[
        ["Enqueued", moment(job.queued_at)], ["Scheduled for", moment(job.scheduled_for)], ["First started", moment(job.started_at)], ["Last started", moment(job.attempt_started_at)], ["Finished", moment(job.finished_at)],
        ["Cancellation requested", moment(job.cancel_requested_at)], ["Lease expires", moment(job.lease_expires_at)],
        ["Priority", job.priority], ["Timeout", job.timeout_seconds && duration(job.timeout_seconds)], ["Table", job.place], ["Source", [job.source, job.source_ref].filter(Boolean).join(" ")], ["Created by", job.created_by],
        ["Crashes", job.crashes || null], ["Snoozes", job.snoozes || null], ["Dedupe key", job.dedupe_key], ["Order key", job.order_key],
        ["Parent job", job.parent_id && html`<${JobLink} id=${job.parent_id} />`],
        ["Depends on", job.depends_on?.length ? job.depends_on.slice(0, 20).map((id) => html`<div key=${id}><${JobLink} id=${id} /></div>`) : null],
        ["Worker id", job.worker_id && html`<${Id} id=${job.worker_id} label="Copy worker id" />`],
      ]} />
    <//>`
}
