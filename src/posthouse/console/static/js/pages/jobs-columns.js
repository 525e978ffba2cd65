// Columns of the job table, and saved views.
import { Dialog } from "../components/dialog.js"
import { Button, Elapsed, JobLink, Progress, Status, Tag, Time } from "../components/display.js"
import { TextField } from "../components/forms.js"
import { toast } from "../components/toast.js"
import { setField, singleValue } from "../filter-query.js"
import { humanize, shortId } from "../format.js"
import { cls, html, useEffect, useId, useRef, useState } from "../preact.js"
import { link, navigate } from "../router.js"

const DEFAULT_COLUMNS = [
  [1400, ["id", "kind", "status", "subject", "source", "attempts", "queued", "started", "finished", "worker", "progress"]],
  [1150, ["id", "kind", "status", "subject", "attempts", "queued", "started", "finished", "progress"]],
  [0, ["id", "kind", "status", "subject", "queued", "progress"]],
]

/** As many columns as fit. The tenant is shown if the page has jobs of several tenants. */
export const usualColumns = (severalTenants) => {
  const [, usual] = DEFAULT_COLUMNS.find(([width]) => innerWidth >= width)
  return severalTenants ? ["id", "tenant", ...usual.slice(1).filter((name) => name !== "source" || innerWidth >= 1600)] : usual
}

/** `q` is the current query; `workers`: names by id. */
export function columnsOf({ q, workers }) {
  const narrow = (field, value, text = value) => value === null || value === undefined ? html`<span class="faint">–</span>`
    : singleValue(q, field) === value ? text
      : html`<a class="narrow" href=${link("jobs", { q: setField(q, field, value) })} title=${`Filter by ${field}: ${value}`}>${text}</a>`
  return [
    { name: "id", text: "Job", cell: (job) => html`<${JobLink} id=${job.id} />` },
    { name: "tenant", text: "Tenant", cell: (job) => narrow("tenant", job.tenant_id) },
    { name: "kind", text: "Kind", cell: (job) => narrow("kind", job.definition_key) },
    { name: "status", text: "Status", cell: (job) => html`<${Status} status=${job.status} /> <${WaitTag} job=${job} />` },
    { name: "subject", text: "Subject", wide: true, cell: (job) => html`<${Subject} job=${job} narrow=${narrow} />` },
    { name: "queue", text: "Queue", cell: (job) => narrow("queue", job.queue) },
    { name: "source", text: "Source", cell: (job) => narrow("source", job.source) },
    { name: "attempts", text: "Attempts", align: "right", cell: (job) => html`<span class=${job.attempt_count > 1 ? "" : "faint"}>${job.attempt_count} / ${job.max_attempts}</span>` },
    { name: "queued", text: "Queued", align: "right", cell: (job) => html`<${Time} at=${job.queued_at} />` },
    { name: "started", text: "Started", align: "right", cell: (job) => html`<${Time} at=${job.attempt_started_at ?? job.started_at} />` },
    { name: "finished", text: "Finished", align: "right", cell: (job) => html`<${Time} at=${job.finished_at} />` },
    { name: "took", text: "Duration", align: "right", cell: (job) => html`<${Elapsed} from=${job.attempt_started_at ?? job.started_at} to=${job.finished_at} />` },
    { name: "worker", text: "Worker", cell: (job) => narrow("worker", workers.get(job.worker_id) ?? job.worker_id, workers.get(job.worker_id) ?? shortId(job.worker_id)) },
    { name: "progress", text: "Progress", cell: (job) => html`<${ProgressCell} job=${job} />` },
    { name: "step", text: "Step", cell: (job) => job.current_step ?? html`<span class="faint">–</span>` },
    { name: "priority", text: "Priority", align: "right", cell: (job) => job.priority },
    { name: "correlation", text: "Correlation id", cell: (job) => narrow("correlation", job.correlation_id) },
    { name: "error", text: "Last error", wide: true, cell: (job) => job.last_error ? html`<span title=${job.last_error}>${job.last_error}</span>` : html`<span class="faint">–</span>` },
  ]
}

/** Tag of a queued job that cannot start yet. */
function WaitTag({ job }) {
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

const ProgressCell = ({ job }) => html`<${Progress} percent=${job.status === "succeeded" ? 100 : job.status === "queued" ? null : job.progress_percent} tone=${TONES[job.status]} label=${`Progress of ${humanize(job.definition_key)}`} />`

export function ColumnChoice({ all, chosen, choose, usual }) {
  const toggle = (name) => choose(all.filter((each) => (each.name === name) !== chosen.includes(each.name)).map((each) => each.name))
  return html`
    <${Dropdown} text="Columns" icon="sliders" label="Table columns" class="two">${(close) => html`
      ${all.map(({ name, text }) => html`
        <label key=${name} class="choice"><input type="checkbox" checked=${chosen.includes(name)} disabled=${name === "id"} onChange=${() => toggle(name)} />${text}</label>`)}
      <button type="button" class="choice foot" onClick=${() => { choose(null); close() }} disabled=${chosen.join() === usual.join()}>Reset to default</button>`}<//>`
}

// Saved filters with their columns, kept in the browser.

const DEFAULT_VIEWS = [
  { name: "Failed and dead letter", q: "status:failed,dead_letter" },
  { name: "Waiting to retry", q: "status:queued attempts:>0" },
  { name: "Queued for more than an hour", q: "status:queued created:>1h" },
  { name: "Finished in the last hour", q: "finished:<1h" },
]

/** A value in local storage: [value, change]. Without storage it lasts while the page is open. */
export function useLocalStorage(name, first) {
  const [value, setValue] = useState(() => {
    try {
      return JSON.parse(localStorage.getItem(name)) ?? first
    } catch {
      return first
    }
  })
  const change = (next) => {
    setValue(next)
    try {
      if (next === null) localStorage.removeItem(name)
      else localStorage.setItem(name, JSON.stringify(next))
    } catch { /* no storage */ }
  }
  return [value ?? first, change]
}

/** `columns` and `choose` are those of the table; a view stores customized columns. */
export function Views({ q, columns, choose }) {
  const [views, keep] = useLocalStorage("posthouse.jobs.views", [])
  const [naming, setNaming] = useState(null)
  const open = (view, close) => {
    if (view.columns) choose(view.columns)
    navigate(link("jobs", { q: view.q }))
    close()
  }
  const remove = (view) => {
    keep(views.filter((each) => each !== view))
    toast(`View “${view.name}” deleted`, { undo: () => keep(views) })
  }
  const save = () => {
    const name = naming.trim()
    keep([...views.filter((each) => each.name !== name), { name, q, columns }].toSorted((a, b) => a.name.localeCompare(b.name)))
    toast(`View “${name}” saved`)
  }
  const now = [...views, ...DEFAULT_VIEWS].find((view) => view.q === q)
  return html`
    <${Dropdown} text=${now && q ? now.name : "Views"} icon="star" label="Saved views" class="views">${(close) => html`
      ${views.map((view) => html`
        <div key=${view.name} class="with-action">
          <button type="button" class="choice" aria-current=${view === now ? "true" : undefined} onClick=${() => open(view, close)}><b>${view.name}</b><small class="code clip">${view.q || "all jobs"}</small></button>
          <${Button} plain small icon="trash" label=${`Delete view ${view.name}`} onClick=${() => remove(view)} />
        </div>`)}
      ${views.length > 0 && html`<hr />`}
      ${DEFAULT_VIEWS.map((view) => html`
        <button key=${view.name} type="button" class="choice" aria-current=${view === now ? "true" : undefined} onClick=${() => open(view, close)}><b>${view.name}</b><small class="code clip">${view.q}</small></button>`)}
      <button type="button" class="choice foot" onClick=${() => { close(); setNaming("") }}>Save view…</button>`}<//>
    ${naming !== null && html`
      <${Dialog} title="Save view" onClose=${() => setNaming(null)} onSubmit=${save} disabled=${!naming.trim()}>
        <${TextField} label="Name" value=${naming} onChange=${setNaming} maxlength="60" autofocus hint="Replaces an existing view of the same name. Views are stored in this browser." />
        <p><code>${q || "all jobs"}</code>${columns && html` <span class="faint">with ${columns.length} columns</span>`}</p>
      <//>`}`
}

// A button that opens a panel. Escape, a click outside and Tab out of it close the panel.

/** `children(close)` is what the panel shows. */
function Dropdown({ text, icon, label, small, children, class: more }) {
  const [open, setOpen] = useState(false)
  const box = useRef(null)
  const id = useId()
  const close = () => {
    setOpen(false)
    box.current?.querySelector("button")?.focus()
  }
  useEffect(() => {
    if (!open) return undefined
    const closeOnOutsideClick = (event) => box.current?.contains(event.target) || setOpen(false)
    addEventListener("pointerdown", closeOnOutsideClick)
    return () => removeEventListener("pointerdown", closeOnOutsideClick)
  }, [open])
  const keys = (event) => {
    if (event.key === "Escape" && open) {
      event.stopPropagation()
      close()
    } else if (open && (event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.type !== "text") {
      event.preventDefault()
      step(box.current, event.key === "ArrowDown" ? 1 : -1)
    }
  }
  const left = (event) => event.relatedTarget && !box.current.contains(event.relatedTarget) && setOpen(false)
  return html`
    <div class=${cls("dropdown", more)} ref=${box} onKeyDown=${keys} onFocusOut=${left}>
      <${Button} icon=${icon} small=${small} aria-expanded=${open} aria-controls=${open ? id : undefined} title=${label} onClick=${() => setOpen(!open)}>${text}<//>
      ${open && html`<div class="panel" id=${id} role="group" aria-label=${label}>${children(close)}</div>`}
    </div>`
}

function step(box, by) {
  const stops = [...box.querySelectorAll("button, a[href], input")]
  stops[(stops.indexOf(document.activeElement) + by + stops.length) % stops.length].focus()
}
