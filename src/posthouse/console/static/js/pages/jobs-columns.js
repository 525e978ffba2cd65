// Columns of the job table, and which of them are shown.
import { withTerm, onlyValue } from "../filter.js"
import { shortId, words } from "../format.js"
import { html } from "../lib.js"
import { link } from "../router.js"
import { JobLink, Progress, Since, Status, Tag, Time } from "../ui/basics.js"
import { Dropdown } from "../ui/dropdown.js"

const USUAL = [
  [1400, ["id", "kind", "status", "subject", "source", "attempts", "queued", "started", "finished", "worker", "progress"]],
  [1150, ["id", "kind", "status", "subject", "attempts", "queued", "started", "finished", "progress"]],
  [0, ["id", "kind", "status", "subject", "queued", "progress"]],
]

/** As many columns as fit. The tenant is shown if the page has jobs of several tenants. */
export const usualColumns = (severalTenants) => {
  const [, usual] = USUAL.find(([width]) => innerWidth >= width)
  return severalTenants ? ["id", "tenant", ...usual.slice(1).filter((name) => name !== "source" || innerWidth >= 1600)] : usual
}

/** `q` is the current query; `workers`: names by id. */
export function columnsOf({ q, workers }) {
  const narrow = (field, value, text = value) => value === null || value === undefined ? html`<span class="faint">–</span>`
    : onlyValue(q, field) === value ? text
      : html`<a class="narrow" href=${link("jobs", { q: withTerm(q, field, value) })} title=${`Filter by ${field}: ${value}`}>${text}</a>`
  return [
    { name: "id", text: "Job", cell: (job) => html`<${JobLink} id=${job.id} />` },
    { name: "tenant", text: "Tenant", cell: (job) => narrow("tenant", job.tenant_id) },
    { name: "kind", text: "Kind", cell: (job) => narrow("kind", job.definition_key) },
    { name: "status", text: "Status", cell: (job) => html`<${Status} status=${job.status} /> <${Waits} job=${job} />` },
    { name: "subject", text: "Subject", wide: true, cell: (job) => html`<${Subject} job=${job} narrow=${narrow} />` },
    { name: "queue", text: "Queue", cell: (job) => narrow("queue", job.queue) },
    { name: "source", text: "Source", cell: (job) => narrow("source", job.source) },
    { name: "attempts", text: "Attempts", align: "right", cell: (job) => html`<span class=${job.attempt_count > 1 ? "" : "faint"}>${job.attempt_count} / ${job.max_attempts}</span>` },
    { name: "queued", text: "Queued", align: "right", cell: (job) => html`<${Time} at=${job.queued_at} />` },
    { name: "started", text: "Started", align: "right", cell: (job) => html`<${Time} at=${job.attempt_started_at ?? job.started_at} />` },
    { name: "finished", text: "Finished", align: "right", cell: (job) => html`<${Time} at=${job.finished_at} />` },
    { name: "took", text: "Duration", align: "right", cell: (job) => html`<${Since} from=${job.attempt_started_at ?? job.started_at} to=${job.finished_at} />` },
    { name: "worker", text: "Worker", cell: (job) => narrow("worker", workers.get(job.worker_id) ?? job.worker_id, workers.get(job.worker_id) ?? shortId(job.worker_id)) },
    { name: "progress", text: "Progress", cell: (job) => html`<${Done} job=${job} />` },
    { name: "step", text: "Step", cell: (job) => job.current_step ?? html`<span class="faint">–</span>` },
    { name: "priority", text: "Priority", align: "right", cell: (job) => job.priority },
    { name: "correlation", text: "Correlation id", cell: (job) => narrow("correlation", job.correlation_id) },
    { name: "error", text: "Last error", wide: true, cell: (job) => job.last_error ? html`<span title=${job.last_error}>${job.last_error}</span>` : html`<span class="faint">–</span>` },
  ]
}

/** Tag of a queued job that cannot start yet. */
function Waits({ job }) {
  if (job.status !== "queued") return null
  if (job.blockers) return html`<${Tag} title="Waiting for other jobs to finish.">blocked by ${job.blockers}<//>`
  if (new Date(job.scheduled_for) - Date.now() > 1500) return html`<${Tag} title="Scheduled for this time."><${Time} at=${job.scheduled_for} /><//>`
  return null
}

const FAILING = new Set(["failed", "dead_letter", "queued"])

/** Subject and last error. */
function Subject({ job, narrow }) {
  const error = FAILING.has(job.status) ? job.last_error : null
  return html`${(job.subject || !error) && narrow("subject", job.subject || null)}${error && html` <span class="wrong-text" title=${error}>${error}</span>`}`
}

const TONES = { succeeded: "good", failed: "bad", dead_letter: "bad", canceled: "quiet" }

const Done = ({ job }) => html`<${Progress} percent=${job.status === "succeeded" ? 100 : job.status === "queued" ? null : job.progress_percent} tone=${TONES[job.status]} label=${`Progress of ${words(job.definition_key)}`} />`

export function ColumnChoice({ all, chosen, choose, usual }) {
  const toggle = (name) => choose(all.filter((each) => (each.name === name) !== chosen.includes(each.name)).map((each) => each.name))
  return html`
    <${Dropdown} text="Columns" icon="sliders" label="Table columns" class="two">${(close) => html`
      ${all.map(({ name, text }) => html`
        <label key=${name} class="choice"><input type="checkbox" checked=${chosen.includes(name)} disabled=${name === "id"} onChange=${() => toggle(name)} />${text}</label>`)}
      <button type="button" class="choice foot" onClick=${() => { choose(null); close() }} disabled=${chosen.join() === usual.join()}>Reset to default</button>`}<//>`
}
