// Retry or cancel many jobs: preview, undo, and the progress of started changes.
import { api, useApi } from "../api.js"
import { duration, formatDateTime, formatInteger, humanize, percent, plural } from "../format.js"
import { html, useEffect, useState } from "../preact.js"
import { link } from "../router.js"
import { Dialog } from "./dialog.js"
import { Button, Card, ErrorBanner, JobLink, Progress, Status, Tag, Time } from "./display.js"
import { NumberField, SelectField } from "./forms.js"
import { showError, toast } from "./toast.js"

/** The change starts after this delay; until then it can be undone without effect. */
const UNDO_SECONDS = 10
const STOP_AFTER_JOBS = 20
const WORDS = {
  retry: { title: "Retry jobs", act: "Retry", rate: 10, will: "will be retried", until: "until all are queued", none: "None of these jobs can be retried. Only failed, dead-letter and canceled jobs can." },
  cancel: { title: "Cancel jobs", act: "Cancel", rate: 100, will: "will be canceled", until: "until all are canceled", none: "None of these jobs can be canceled. They have already finished." },
}
const AGES = [["", "any time"], ["1h", "the last hour"], ["1d", "the last day"]]
const STOP_OPTIONS = [["0", "after the first failure"], ["0.1", "when more than 10 % fail again"], ["0.5", "when more than half fail again"], ["1", "never"]]

/** Confirms a retry or cancellation of the jobs that `q` finds; `about` describes them, `aged` filters by finish time.
 *  `onStarted()` is called when the change is accepted, and when it is undone. */
export function BulkDialog({ action, q, about, tenant, title, withAgeFilter, onClose, onStarted }) {
  const labels = WORDS[action]
  const [rate, setRate] = useState(labels.rate)
  const [most, setMost] = useState(null)
  const [age, setAge] = useState("")
  const [tolerated, setTolerated] = useState("0.5")
  const line = age ? `${q} finished:<${age}` : q
  const preview = useBulkPreview(action, line, tenant)
  const jobs = Math.min(preview.matched ?? 0, most ?? Infinity)
  const act = async () => {
    const rules = action === "retry" && { stop_share: Number(tolerated), stop_after: tolerated === "0" ? 1 : STOP_AFTER_JOBS }
    const { bulk_id: id } = await api.post("/jobs/bulk", { action, q: line, limit: most, rate, start_in_seconds: UNDO_SECONDS, ...rules }, { query: { tenant } })
    toast(`${plural(jobs, "job")} will be ${DONE[action]}`, { undo: () => stopBulk(id, onStarted), seconds: UNDO_SECONDS })
    onStarted()
  }
  return html`
    <${Dialog} title=${title ?? labels.title} onClose=${onClose} onSubmit=${act} danger=${action === "cancel"} closeText="Go back" disabled=${!jobs || !(rate > 0)}
      submitText=${jobs ? `${labels.act} ${plural(jobs, "job")}` : labels.act}>
      ${preview.error ? html`<${ErrorBanner} error=${preview.error} />` : html`
        <p aria-live="polite">${preview.matched === null ? "Counting jobs …" : jobs ? sentence(labels, preview, jobs, rate) : labels.none}
          ${jobs > 0 && action === "retry" && html` ${stopRuleText(tolerated)}`}</p>
        ${jobs > 0 && html`<p class="faint">${about ? `First of the ${about}:` : html`Jobs matching <code class="query-text">${line}</code>`}</p><${Sample} found=${preview} jobs=${jobs} />`}`}
      <div class="columns">
        <${NumberField} label="Jobs per second" min="0.1" max="10000" value=${rate} onChange=${setRate} hint=${action === "retry" ? "A lower rate protects a service that is still recovering." : ""} />
        <${NumberField} label="Maximum jobs" min="1" step="1" value=${most} onChange=${setMost} hint="Leave empty for all matching jobs." />
        ${withAgeFilter && html`<${SelectField} label="Finished within" value=${age} onChange=${setAge} options=${AGES} />`}
        ${action === "retry" && html`<${SelectField} label="Stop automatically" value=${tolerated} onChange=${setTolerated} options=${STOP_OPTIONS} />`}
      </div>
    <//>`
}

const Sample = ({ found: { sample, exact }, jobs }) => html`
  <ul class="sample" aria-label="First jobs">${sample.slice(0, jobs).map((job) => html`
    <li key=${job.id}><${JobLink} id=${job.id} /><span class="grow clip">${job.definition_key} <span class="faint">${job.subject}</span></span><${Status} status=${job.status} /></li>`)}
    ${jobs > sample.length && html`<li class="faint">and ${exact ? "" : "at least "}${formatInteger(jobs - sample.length)} more</li>`}</ul>`

const NOTHING_YET = { matched: null, error: null }

/** The number of jobs that the change would affect and the first of them; a new `round` counts again. */
export function useBulkPreview(action, q, tenant, round) {
  const [found, setFound] = useState(NOTHING_YET)
  useEffect(() => {
    let gone = false
    api.post("/jobs/bulk", { action, q, dry_run: true }, { query: { tenant } })
      .then((preview) => gone || setFound(preview), (error) => gone || setFound({ ...NOTHING_YET, error }))
    return () => { gone = true }
  }, [q, round])
  return found
}

function sentence(labels, { exact }, jobs, rate) {
  const some = `${exact ? "" : "At least "}${plural(jobs, "job")} ${labels.will}`
  return rate > 0 ? `${some}, ${rate >= 1 ? formatInteger(rate) : rate} per second: about ${duration(jobs / rate)} ${labels.until}.` : `${some}. Enter the number of jobs per second.`
}

function stopRuleText(tolerated) {
  if (tolerated === "1") return "Continues even if every job fails again."
  if (tolerated === "0") return "Stops after the first job that fails again."
  return `Stops when more than ${percent(Number(tolerated))} of at least ${STOP_AFTER_JOBS} finished jobs fail again.`
}

// Started bulk changes: their progress, and stopping them.

const DONE = { retry: "retried", cancel: "canceled" }
const DOING = { retry: "Retrying", cancel: "Canceling" }
const TONES = { gathering: "accent", running: "accent", done: "good", stopped: "warn", halted: "bad" }
const SHOWN_FOR = 60_000

export const isOpen = ({ state }) => state === "gathering" || state === "running"
export const toneOf = (bulk) => (bulk.state === "done" && bulk.failed > bulk.succeeded ? "warn" : TONES[bulk.state])
export const rateText = (bulk) => `${bulk.rate >= 1 ? formatInteger(bulk.rate) : bulk.rate} per second`
export const changedCount = (bulk) => bulk.retried + bulk.canceled
export const share = (bulk) => (bulk.total ? ((changedCount(bulk) + bulk.skipped) / bulk.total) * 100 : bulk.total === 0 ? 100 : 0)

/** Finished less than a minute ago. */
const isRecentlyEnded = (bulk) => bulk.ended_at && Date.now() - new Date(bulk.ended_at) < SHOWN_FOR
/** Still running, or the outcome of its last jobs is not known yet. */
const isUnfinished = (bulk) => isOpen(bulk) || (isRecentlyEnded(bulk) && bulk.succeeded + bulk.failed < bulk.retried)

/** Bulk changes, newest first; polled every second while one of them runs. */
export function useBulkChanges(limit, action) {
  const [busy, setBusy] = useState(false)
  const changes = useApi("/jobs/bulk", { limit, action }, { every: busy ? 1000 : 10_000 })
  const running = (changes.data?.items ?? []).some(isUnfinished)
  useEffect(() => setBusy(running), [running])
  return changes
}

/** Bulk changes that run or have just finished. A new value of `reloadKey` reloads them. */
export function BulkChanges({ reloadKey, canChange }) {
  const [gone, setGone] = useState(() => new Set())
  const changes = useBulkChanges(5)
  useEffect(() => { if (reloadKey) changes.reload() }, [reloadKey])
  const items = (changes.data?.items ?? []).filter((bulk) => !gone.has(bulk.id) && (isOpen(bulk) || isRecentlyEnded(bulk)))
  return items.map((bulk) => html`<${BulkCard} key=${bulk.id} bulk=${bulk} canChange=${canChange} onChanged=${changes.reload} dismiss=${() => setGone(new Set([...gone, bulk.id]))} />`)
}

export async function stopBulk(id, changed) {
  try {
    await api.post(`/jobs/bulk/${id}/stop`)
    const done = changedCount(await api.get(`/jobs/bulk/${id}`))
    toast(done ? `Stopped after ${plural(done, "job")}` : "Undone: no jobs were changed")
  } catch (error) {
    showError(error)
  }
  changed()
}

export function BulkCard({ bulk, canChange, onChanged, dismiss }) {
  const waits = new Date(bulk.starts_at) > Date.now()
  return html`
    <${Card} class="bulk" aria-label=${`Bulk ${bulk.action}`}>
      <div class="bar"><h2>${headline(bulk)}</h2><${StateTag} bulk=${bulk} /><span class="grow"></span>
        ${isOpen(bulk) ? canChange && html`<${Button} small icon=${waits ? undefined : "stop"} onClick=${() => stopBulk(bulk.id, onChanged)}>${waits ? "Undo" : "Stop"}<//>`
          : dismiss && html`<${Button} plain small icon="close" label="Dismiss" onClick=${dismiss} />`}</div>
      <${Progress} percent=${share(bulk)} label="Jobs changed" tone=${toneOf(bulk)} />
      <p class="bulk-progress"><b class="figure">${formatInteger(changedCount(bulk))}</b> ${DONE[bulk.action]}
        ${bulk.action === "retry" && html` · <span data-tone="good"><b class="figure">${formatInteger(bulk.succeeded)}</b> succeeded</span> · <span data-tone=${bulk.failed ? "bad" : undefined}><b class="figure">${formatInteger(bulk.failed)}</b> failed again</span>`}
        ${bulk.skipped > 0 && html` · <b class="figure">${formatInteger(bulk.skipped)}</b> skipped`} · ${rateText(bulk)} · <${Time} at=${bulk.created_at} /> by ${bulk.created_by} · <${Criteria} criteria=${bulk.criteria} /></p>
    <//>`
}

function headline(bulk) {
  const begins = new Date(bulk.starts_at) - Date.now()
  if (isOpen(bulk) && begins > 0) return `Starts in ${Math.ceil(begins / 1000)} s`
  if (bulk.state === "gathering") return `Collecting jobs: ${formatInteger(bulk.total ?? 0)} so far`
  if (isOpen(bulk)) return `${DOING[bulk.action]} ${plural(bulk.total, "job")}`
  if (bulk.total === null) return "Undone"
  const done = DONE[bulk.action]
  return `${done[0].toUpperCase()}${done.slice(1)} ${formatInteger(changedCount(bulk))} of ${plural(bulk.total ?? 0, "job")}`
}

export const StateTag = ({ bulk }) => html`<${Tag} tone=${toneOf(bulk)} title=${bulk.reason}>${bulk.state === "halted" ? `halted: ${bulk.reason}` : humanize(bulk.state)}<//>`

/** The jobs of a bulk change: selected ids, a failure group, a filter query or a few fields. */
export function Criteria({ criteria }) {
  const { fingerprint, definition_key: kind, queue, tenant, q } = criteria
  const ids = q?.match(/^id:(\S+)$/)?.[1].split(",").length
  const rest = [kind && `kind ${kind}`, queue && `queue ${queue}`, tenant && `tenant ${tenant}`, criteria.since && `since ${formatDateTime(criteria.since)}`, criteria.limit && `at most ${formatInteger(criteria.limit)}`].filter(Boolean).join(", ")
  return html`
    ${fingerprint && html`<a class="id" href=${link(`failures/${fingerprint}`, { kind, tenant })}>${fingerprint}</a> `}
    ${ids ? `${plural(ids, "selected job")} ` : q && html`<code class="query-text">${q}</code> `}
    <span class="faint">${rest || (fingerprint || q ? "" : "all failed jobs")}</span>`
}
