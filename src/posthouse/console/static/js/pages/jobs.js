// Job list with filter, live updates, selection and bulk actions.
import { useApi } from "../api.js"
import { BulkChanges, BulkDialog } from "../components/bulk-actions.js"
import { Button, EmptyState, ErrorBanner, Skeleton, StreamStatus, Table, Time } from "../components/display.js"
import { fieldValues } from "../filter-query.js"
import { formatInteger, plural } from "../format.js"
import { html, useEffect, useMemo, useRef, useState } from "../preact.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { pauseUpdates } from "../stream.js"
import { ColumnChoice, columnsOf, useLocalStorage, usualColumns, Views } from "./jobs-columns.js"
import { Chips, FilterBox } from "./jobs-filter.js"
import { useJobs } from "./jobs-list.js"

/** `ownColumns`: {usual, more}, the columns that are shown by default, and further ones at the end. */
export function Jobs({ query, ownColumns }) {
  const session = useSession()
  const q = query.q ?? ""
  const selection = useSelection(`${q} ${query.after ?? ""}`)
  const jobs = useJobs(session, q, query.after, selection.size > 0)
  const known = !jobs.stale && !jobs.error
  const total = useApi(q && known && selection.size > 0 ? "/jobs/count" : null, { q }).data
  const [action, setAction] = useState(null)
  const [begun, setBegun] = useState(0)
  const items = jobs.items ?? []
  const columns = useColumns(session, q, items.some((job) => job.tenant_id !== items[0].tenant_id), ownColumns)
  const may = session.can("jobs:write")
  const box = useRef(null)
  useRowKeys(box, may ? selection.toggleId : () => {}, selection.clear)
  const seen = () => {
    scrollTo(0, 0)
    jobs.show()
  }
  return html`
    <div class="bar jobs-top">
      <${FilterBox} q=${q} error=${jobs.error} apply=${(line) => setQuery({ q: line || null, after: null })} />
      <${Views} q=${q} columns=${columns.kept} choose=${columns.choose} />
      <${ColumnChoice} ...${columns} />
    </div>
    <div class="bar jobs-bar">
      ${selection.size > 0 ? html`<${SelectionBar} selection=${selection} total=${q ? total : null} onAction=${setAction} more=${Boolean(jobs.next || query.after)} />` : html`<${Chips} q=${q} isCountable=${known} />`}
      <span class="grow"></span>
      <span class="new-jobs" role="status">${jobs.fresh && html`<${Button} small icon="retry" onClick=${seen}>${formatInteger(jobs.fresh.count)}${jobs.fresh.count >= 50 ? "+" : ""} new<//>`}</span>
      <${StreamStatus} state=${selection.size > 0 ? "paused" : jobs.live} />
    </div>
    <${BulkChanges} reloadKey=${begun} canChange=${may} />
    <div ref=${box} class="jobs-box">
      ${jobs.error && jobs.error.code !== "invalid_filter" ? html`<${ErrorBanner} error=${jobs.error} onRetry=${jobs.reload} />`
        : jobs.error && !jobs.items ? html`<div class="card"><${FilterHelp} /></div>`
        : !jobs.items ? html`<div class="card"><${Skeleton} lines=${12} /></div>`
          : items.length === 0 ? html`<div class="card"><${NoJobs} q=${q} jobs=${jobs} after=${query.after} session=${session} /></div>`
            : html`<${Table} label="Jobs" columns=${columns.shown} rows=${items} rowKey=${({ id }) => id} faint=${jobs.stale}
                selection=${may ? selection.of(items) : undefined} rowClass=${noLongerMatchesClass(q)} />`}
    </div>
    ${jobs.items && !jobs.error && html`<${Pages} jobs=${jobs} after=${query.after} />`}
    ${action && html`<${BulkDialog} action=${action} q=${selection.line(q, action)} about=${selection.all ? null : plural(selection.size, "selected job")} onClose=${() => setAction(null)} onStarted=${() => { selection.clear(); setBegun((n) => n + 1) }} />`}`
}

/** A job that no longer matches the filter stays in place, dimmed. */
function noLongerMatchesClass(q) {
  const wanted = fieldValues(q, "status")
  return ({ status }) => (wanted && !wanted.includes(status) ? "no-longer-matching" : undefined)
}

function useColumns(session, q, severalTenants, own) {
  const [kept, choose] = useLocalStorage("posthouse.jobs.columns", null)
  const names = useApi(session.operator && session.can("workers:read") ? "/admin/workers" : null, {}, { every: 30_000 })
  const workers = useMemo(() => new Map((names.data ?? []).map(({ id, name }) => [id, name])), [names.data])
  const usual = useMemo(() => own?.usual ?? usualColumns(severalTenants), [severalTenants])
  const all = useMemo(() => columnsOf({ q, workers }).filter(({ name }) => name !== "tenant" || session.operator), [q, workers])
  const chosen = kept ?? usual
  const shown = useMemo(() => all.filter(({ name }) => chosen.includes(name)), [all, chosen])
  return { all, chosen, usual, kept, choose, shown: own ? [...shown, ...own.more] : shown }
}

/** Empty state of the list. */
function NoJobs({ q, jobs, after, session }) {
  if (jobs.partial) {
    return html`<${EmptyState} icon="search" title="No matches yet" action=${html`<${Button} strong onClick=${() => older(jobs, after)}>Search older jobs<//>`}>
      Searched back to <${Time} at=${jobs.lookedBackTo} />; no matches.<//>`
  }
  if (after) return html`<${EmptyState} icon="check" title="No older jobs" action=${html`<a class="button" href=${link("jobs", { q })}>Show newest jobs</a>`} />`
  if (q) {
    return html`<${EmptyState} icon="search" title="No jobs match this filter" action=${html`<a class="button" href=${link("jobs")}>Show all jobs</a>`}>
      Separate alternatives with a comma, exclude with a minus: <code>status:queued,running -queue:slow</code>. Retention deletes old jobs.<//>`
  }
  return html`<${EmptyState} icon="list" title="No jobs yet" command="posthouse enqueue hello --payload '{}'">
    ${session.can("jobs:write") ? "Jobs appear here when they are enqueued. Enqueue one from the command line, from your code, or with the button above." : "Jobs appear here when they are enqueued."}<//>`
}

const EXAMPLES = [
  ["status:failed,dead_letter", "any of these statuses"],
  ["kind:vision.* -queue:slow", "kinds with this prefix, except in this queue"],
  ["payload.video_id:42", "jobs with this payload value"],
  ["created:<2h attempts:>1", "created less than two hours ago, more than one attempt"],
  ['subject:"my video" error:timeout', "this subject, and an error that contains this word"],
]

const FilterHelp = () => html`
  <${EmptyState} icon="search" title="Filter syntax"><//>
  <dl class="examples">${EXAMPLES.map(([line, meaning]) => html`<div key=${line}><dt><a href=${link("jobs", { q: line })}><code>${line}</code></a></dt><dd>${meaning}</dd></div>`)}</dl>`

/** Previous cursors by cursor: the API returns only the next one. */
const before = new Map()

function older(jobs, after) {
  before.set(jobs.next, after ?? null)
  setQuery({ after: jobs.next })
  scrollTo(0, 0)
}

function Pages({ jobs, after }) {
  const newest = () => {
    setQuery({ after: null })
    scrollTo(0, 0)
  }
  const newer = () => {
    setQuery({ after: before.get(after) })
    scrollTo(0, 0)
  }
  if (!after && !jobs.next) return null
  return html`
    <nav class="bar pages" aria-label="Pages of jobs">
      ${jobs.partial && jobs.items.length > 0 && html`<span class="faint">Searched back to <${Time} at=${jobs.lookedBackTo} />.</span>`}
      <span class="grow"></span>
      <${Button} disabled=${!after} onClick=${newest}>Newest<//>
      <${Button} icon="left" disabled=${!before.has(after)} onClick=${newer}>Newer<//>
      <${Button} icon="right" disabled=${!jobs.next} onClick=${() => older(jobs, after)}>${jobs.partial ? "Search older jobs" : "Older"}<//>
    </nav>`
}

/** j and k move through the rows, x selects one, Escape clears the selection. Enter opens the focused link. */
function useRowKeys(box, toggle, clear) {
  useEffect(() => {
    const pressed = (event) => {
      const writing = event.target.closest("input:not([type=checkbox]), textarea, select, dialog, [contenteditable], .dropdown")
      if (writing || event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === "j") step(box.current, 1)
      else if (event.key === "k") step(box.current, -1)
      else if (event.key === "x") focused() && toggle(focused().dataset.key)
      else if (event.key === "Escape") clear()
      else return
      event.preventDefault()
    }
    addEventListener("keydown", pressed)
    return () => removeEventListener("keydown", pressed)
  })
}

/** The last focused row, restored when the user returns from a job. */
let last = null

const focused = () => document.activeElement?.closest?.("tr[data-key]")

function step(box, by) {
  const rows = [...box.querySelectorAll("tr[data-key]")]
  const index = rows.indexOf(focused() ?? rows.find((row) => row.dataset.key === last))
  const next = rows[Math.max(0, Math.min(rows.length - 1, index + by))]
  if (!next) return
  last = next.dataset.key
  next.querySelector("a.id").focus({ preventScroll: true })
  next.scrollIntoView({ block: "nearest" })
}

// Selection of jobs: single rows, or all jobs that match the query.

const NONE = { ids: new Set(), all: false }
const DEFAULT_FILTER = { retry: "status:failed,dead_letter", cancel: "status:queued,running" }

/** The selection of the page with this `key`; another page starts empty. Updates pause while rows are selected. */
function useSelection(key) {
  const [chosen, setChosen] = useState(NONE)
  const last = useRef({ id: null, shift: false })
  useEffect(() => setChosen(NONE), [key])
  const size = chosen.ids.size
  useEffect(() => (size ? pauseUpdates() : undefined), [size > 0])
  useShift(last)
  const toggleId = (id) => setChosen(({ ids }) => ({ ids: changed(ids, [id], !ids.has(id)), all: false }))
  const of = (rows) => ({
    has: ({ id }) => chosen.ids.has(id),
    all: size > 0 && rows.every(({ id }) => chosen.ids.has(id)),
    toggle: ({ id }) => {
      const span = last.current.shift ? between(rows, last.current.id, id) : [id]
      last.current.id = id
      setChosen(({ ids }) => ({ ids: changed(ids, span, !ids.has(id)), all: false }))
    },
    toggleAll: () => setChosen(rows.every(({ id }) => chosen.ids.has(id)) ? NONE : { ids: new Set(rows.map(({ id }) => id)), all: false }),
  })
  return {
    size, all: chosen.all, toggleId, of,
    clear: () => setChosen(NONE),
    chooseAll: () => setChosen({ ...chosen, all: true }),
    line: (q, action) => (chosen.all ? q || DEFAULT_FILTER[action] : `id:${[...chosen.ids].join(",")}`),
  }
}

function changed(ids, some, there) {
  const next = new Set(ids)
  for (const id of some) there ? next.add(id) : next.delete(id)
  return next
}

/** The ids between two rows, in either direction. */
function between(rows, one, other) {
  const indexes = [one, other].map((id) => rows.findIndex((row) => row.id === id)).toSorted((a, b) => a - b)
  return indexes[0] < 0 ? [other] : rows.slice(indexes[0], indexes[1] + 1).map(({ id }) => id)
}

/** Whether Shift was down at the last click: a change event does not tell. */
function useShift(last) {
  useEffect(() => {
    const clicked = (event) => { last.current.shift = event.shiftKey }
    addEventListener("click", clicked, true)
    return () => removeEventListener("click", clicked, true)
  }, [])
}

function SelectionBar({ selection, total, more, onAction }) {
  const matching = total ? `${total.exact ? "" : "at least "}${formatInteger(total.count)} matching` : "jobs"
  return html`
    <div class="selection" role="group" aria-label="Selected jobs">
      <b>${selection.all ? `All ${matching}` : plural(selection.size, "job")} selected</b>
      ${more && !selection.all && html`<${Button} small plain onClick=${selection.chooseAll}>Select all ${matching}<//>`}
      <${Button} small icon="retry" onClick=${() => onAction("retry")}>Retry…<//>
      <${Button} small icon="stop" onClick=${() => onAction("cancel")}>Cancel…<//>
      <${Button} small plain icon="close" label="Clear selection" onClick=${selection.clear} />
    </div>`
}
