// Job page: summary, timeline, log, data and pipeline.
import { apiUrl } from "../api.js"
import { Card, CopyButton, DescriptionList, EmptyState, ErrorBanner, JobLink, Json, Skeleton, Time } from "../components/display.js"
import { Icon } from "../components/icons.js"
import { bytes, duration, formatDateTime } from "../format.js"
import { html, useEffect, useLayoutEffect, useRef, useState } from "../preact.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { Graph } from "./job-graph.js"
import { Log } from "./job-log.js"
import { hasSecrets, Head, Id, isOver, isWaiting, useJob } from "./job-state.js"
import { Attempts, StatusPanel } from "./job-summary.js"
import { Waterfall } from "./job-timeline.js"

/** Order of the sections by state; the most relevant section comes first. */
const SECTION_ORDER = {
  waiting: ["waterfall", "data", "graph", "log", "attempts"],
  running: ["log", "waterfall", "data", "graph", "attempts"],
  failed: ["attempts", "log", "waterfall", "data", "graph"],
  ended: ["data", "waterfall", "graph", "log", "attempts"],
}
const SECTIONS = {
  waterfall: ({ jobData }) => html`<${Waterfall} timeline=${jobData.timeline} />`,
  data: ({ jobData }) => html`<${Data} job=${jobData.job.data} />`,
  graph: ({ jobData }) => html`<${Graph} pipeline=${jobData.pipeline} self=${jobData.job.data.id} />`,
  log: ({ jobData }) => html`<${Log} job=${jobData.job.data} lines=${jobData.lines} />`,
  attempts: ({ jobData, query }) => html`<${Attempts} attempts=${jobData.attempts.data} timeline=${jobData.timeline.data} query=${query} />`,
}

export const Job = ({ id, query }) => html`<${OneJob} key=${id} id=${id} query=${query} />`

function OneJob({ id, query }) {
  const jobData = useJob(id)
  const { data: job, error, reload } = jobData.job
  useTitle(job)
  if (!job && error && [404, 422].includes(error.status)) return html`<${JobNotFound} />`
  if (!job && error) return html`<${ErrorBanner} error=${error} onRetry=${reload} />`
  if (!job) return html`<div class="card"><${Skeleton} lines=${5} /></div><div class="card"><${Skeleton} height=${220} /></div><div class="card"><${Skeleton} height=${320} /></div>`
  return html`
    <${Head} jobData=${jobData} />
    <${KeepHeight} of=${job.status}><${StatusPanel} jobData=${jobData} /><//>
    <${Sections} jobData=${jobData} query=${query} />`
}

/** Sections keep the order that fits the state of the job when the page was opened. */
function Sections({ jobData, query }) {
  const job = jobData.job.data
  const [order] = useState(() => SECTION_ORDER[orderFor(job)])
  return html`
    ${order.map((name) => html`<${SECTIONS[name]} key=${name} jobData=${jobData} query=${query} />`)}
    <${Artifacts} job=${job} artifacts=${jobData.artifacts.data} />
    <${Details} job=${job} />`
}

const orderFor = (job) => (isWaiting(job) ? "waiting" : job.status === "running" ? "running" : job.error || job.status === "failed" ? "failed" : "ended")

/** Container that never shrinks, so content below does not jump. */
function KeepHeight({ of, children }) {
  const box = useRef(null)
  const seen = useRef({ of, height: 0 })
  const [least, setLeast] = useState(0)
  useLayoutEffect(() => {
    if (seen.current.of !== of) {
      setLeast(seen.current.height)
      seen.current.of = of
    }
    seen.current.height = box.current.offsetHeight
  })
  return html`<div class="job-now" ref=${box} style=${{ minHeight: `${least}px` }}>${children}</div>`
}

function useTitle(job) {
  const text = job && [job.status === "running" && job.progress_percent !== null ? `${Math.floor(job.progress_percent)} %` : job.status.replace("_", " "), job.definition_key].join(" ")
  useEffect(() => {
    if (text) document.title = `${text} · Posthouse`
  }, [text])
}

const JobNotFound = () => html`
  <${EmptyState} title="Job not found" icon="search" action=${html`<a class="button" href=${link("jobs")}>All jobs</a>`}>
    It may have been deleted by retention, or it belongs to another tenant.
  <//>`

// Payload, result, artifacts and details of a job; copies as curl and Python.

function Data({ job }) {
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
  <span class="job-copies"><span>curl<${CopyButton} text=${() => asCurl(job, session)} label="Copy as curl" /></span><span>Python<${CopyButton} text=${() => asPython(job)} label="Copy as Python" /></span></span>`

const given = (job) => ({ queue: job.queue, priority: job.priority, subject: job.subject, order_key: job.order_key })
const known = (options) => Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null && value !== undefined))
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`

/** A curl command that enqueues the same job; the API key comes from the environment. */
function asCurl(job, session) {
  const url = new URL(apiUrl("/jobs"))
  url.search = session.operator ? new URLSearchParams({ tenant: job.tenant_id }) : ""
  const body = { definition_key: job.definition_key, payload: job.payload ?? {}, ...known(given(job)) }
  return [`curl -s ${shell(url.href)}`, '-H "Authorization: Bearer $POSTHOUSE_API_KEY"', "-H 'Content-Type: application/json'", `-d ${shell(JSON.stringify(body))}`].join(" \\\n  ") + "\n"
}

/** A program that enqueues the same job in the configured database. */
function asPython(job) {
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

function Artifacts({ job, artifacts }) {
  if (!artifacts?.length) return null
  return html`
    <${Card} title="Artifacts">
      <ul class="job-files">${artifacts.map((file) => html`
        <li key=${file.name}><${Icon} name="download" /><a class="clip" href=${apiUrl(`/jobs/${job.id}/artifacts/${file.name.split("/").map(encodeURIComponent).join("/")}`)} download=${file.name.split("/").at(-1)}>${file.name}</a>
          <span class="figure">${bytes(file.size)}</span><span class="faint wide-only">${file.content_type}</span><span class="faint"><${Time} at=${file.created_at} /></span><${CopyButton} text=${file.sha256} label=${`Copy SHA-256 of ${file.name}`} /></li>`)}
      </ul>
    <//>`
}

function Details({ job }) {
  const moment = (at) => at && html`<time datetime=${at}>${formatDateTime(at)}</time>`
  return html`
    <${Card} title="Details">
      <${DescriptionList} items=${[
        ["Enqueued", moment(job.queued_at)], ["Scheduled for", moment(job.scheduled_for)], ["First started", moment(job.started_at)], ["Last started", moment(job.attempt_started_at)], ["Finished", moment(job.finished_at)],
        ["Cancellation requested", moment(job.cancel_requested_at)], ["Lease expires", moment(job.lease_expires_at)],
        ["Priority", job.priority], ["Timeout", job.timeout_seconds && duration(job.timeout_seconds)], ["Table", job.job_table], ["Source", [job.source, job.source_ref].filter(Boolean).join(" ")], ["Created by", job.created_by],
        ["Crashes", job.crashes || null], ["Snoozes", job.snoozes || null], ["Dedupe key", job.dedupe_key], ["Order key", job.order_key],
        ["Parent job", job.parent_id && html`<${JobLink} id=${job.parent_id} />`],
        ["Depends on", job.depends_on?.length ? job.depends_on.slice(0, 20).map((id) => html`<div key=${id}><${JobLink} id=${id} /></div>`) : null],
        ["Worker id", job.worker_id && html`<${Id} id=${job.worker_id} label="Copy worker id" />`],
      ]} />
    <//>`
}
