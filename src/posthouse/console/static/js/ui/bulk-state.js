// Started bulk changes: their progress, and stopping them.
import { api, useApi } from "../api.js"
import { html, useEffect, useState } from "../lib.js"
import { count, exactly, plural, words } from "../format.js"
import { link } from "../router.js"
import { Button, Card, Progress, Tag, Time } from "./basics.js"
import { complain, toast } from "./toast.js"

export const DONE = { retry: "retried", cancel: "canceled" }
const DOING = { retry: "Retrying", cancel: "Canceling" }
const TONES = { gathering: "accent", running: "accent", done: "good", stopped: "warn", halted: "bad" }
const SHOWN_FOR = 60_000

export const isOpen = ({ state }) => state === "gathering" || state === "running"
export const toneOf = (bulk) => (bulk.state === "done" && bulk.failed > bulk.succeeded ? "warn" : TONES[bulk.state])
export const rateText = (bulk) => `${bulk.rate >= 1 ? count(bulk.rate) : bulk.rate} per second`
export const changedBy = (bulk) => bulk.retried + bulk.canceled
export const share = (bulk) => (bulk.total ? ((changedBy(bulk) + bulk.skipped) / bulk.total) * 100 : bulk.total === 0 ? 100 : 0)

/** Finished less than a minute ago. */
const isFresh = (bulk) => bulk.ended_at && Date.now() - new Date(bulk.ended_at) < SHOWN_FOR
/** Still running, or the outcome of its last jobs is not known yet. */
const unsettled = (bulk) => isOpen(bulk) || (isFresh(bulk) && bulk.succeeded + bulk.failed < bulk.retried)

/** Bulk changes, newest first; polled every second while one of them runs. */
export function useBulkChanges(limit, action) {
  const [busy, setBusy] = useState(false)
  const changes = useApi("/jobs/bulk", { limit, action }, { every: busy ? 1000 : 10_000 })
  const running = (changes.data?.items ?? []).some(unsettled)
  useEffect(() => setBusy(running), [running])
  return changes
}

/** Bulk changes that run or have just finished. A new value of `begun` reloads them. */
export function BulkChanges({ begun, may }) {
  const [gone, setGone] = useState(() => new Set())
  const changes = useBulkChanges(5)
  useEffect(() => { if (begun) changes.reload() }, [begun])
  const items = (changes.data?.items ?? []).filter((bulk) => !gone.has(bulk.id) && (isOpen(bulk) || isFresh(bulk)))
  return items.map((bulk) => html`<${BulkCard} key=${bulk.id} bulk=${bulk} may=${may} changed=${changes.reload} dismiss=${() => setGone(new Set([...gone, bulk.id]))} />`)
}

export async function stopBulk(id, changed) {
  try {
    await api.post(`/jobs/bulk/${id}/stop`)
    const done = changedBy(await api.get(`/jobs/bulk/${id}`))
    toast(done ? `Stopped after ${plural(done, "job")}` : "Undone: no jobs were changed")
  } catch (error) {
    complain(error)
  }
  changed()
}

export function BulkCard({ bulk, may, changed, dismiss }) {
  const waits = new Date(bulk.starts_at) > Date.now()
  return html`
    <${Card} class="bulk" aria-label=${`Bulk ${bulk.action}`}>
      <div class="bar"><h2>${headline(bulk)}</h2><${StateTag} bulk=${bulk} /><span class="grow"></span>
        ${isOpen(bulk) ? may && html`<${Button} small icon=${waits ? undefined : "stop"} onClick=${() => stopBulk(bulk.id, changed)}>${waits ? "Undo" : "Stop"}<//>`
          : dismiss && html`<${Button} plain small icon="close" label="Dismiss" onClick=${dismiss} />`}</div>
      <${Progress} percent=${share(bulk)} label="Jobs changed" tone=${toneOf(bulk)} />
      <p class="told"><b class="figure">${count(changedBy(bulk))}</b> ${DONE[bulk.action]}
        ${bulk.action === "retry" && html` · <span data-tone="good"><b class="figure">${count(bulk.succeeded)}</b> succeeded</span> · <span data-tone=${bulk.failed ? "bad" : undefined}><b class="figure">${count(bulk.failed)}</b> failed again</span>`}
        ${bulk.skipped > 0 && html` · <b class="figure">${count(bulk.skipped)}</b> skipped`} · ${rateText(bulk)} · <${Time} at=${bulk.created_at} /> by ${bulk.created_by} · <${Chosen} chosen=${bulk.chosen} /></p>
    <//>`
}

function headline(bulk) {
  const begins = new Date(bulk.starts_at) - Date.now()
  if (isOpen(bulk) && begins > 0) return `Starts in ${Math.ceil(begins / 1000)} s`
  if (bulk.state === "gathering") return `Collecting jobs: ${count(bulk.total ?? 0)} so far`
  if (isOpen(bulk)) return `${DOING[bulk.action]} ${plural(bulk.total, "job")}`
  if (bulk.total === null) return "Undone"
  const done = DONE[bulk.action]
  return `${done[0].toUpperCase()}${done.slice(1)} ${count(changedBy(bulk))} of ${plural(bulk.total ?? 0, "job")}`
}

export const StateTag = ({ bulk }) => html`<${Tag} tone=${toneOf(bulk)} title=${bulk.reason}>${bulk.state === "halted" ? `halted: ${bulk.reason}` : words(bulk.state)}<//>`

/** The jobs of a bulk change: selected ids, a failure group, a filter query or a few fields. */
export function Chosen({ chosen }) {
  const { fingerprint, definition_key: kind, queue, tenant, q } = chosen
  const ids = q?.match(/^id:(\S+)$/)?.[1].split(",").length
  const rest = [kind && `kind ${kind}`, queue && `queue ${queue}`, tenant && `tenant ${tenant}`, chosen.since && `since ${exactly(chosen.since)}`, chosen.limit && `at most ${count(chosen.limit)}`].filter(Boolean).join(", ")
  return html`
    ${fingerprint && html`<a class="id" href=${link(`failures/${fingerprint}`, { kind, tenant })}>${fingerprint}</a> `}
    ${ids ? `${plural(ids, "selected job")} ` : q && html`<code class="line-of">${q}</code> `}
    <span class="faint">${rest || (fingerprint || q ? "" : "all failed jobs")}</span>`
}
