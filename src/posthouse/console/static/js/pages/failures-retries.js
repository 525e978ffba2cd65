// Many failed jobs run again: asking for it, watching it, stopping it.
import { api, useApi } from "../api.js"
import { html, useEffect, useState } from "../lib.js"
import { count, duration, percent, plural, words } from "../format.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { Button, Card, Empty, Failure, Loaded, Progress, Tag, Time } from "../ui/basics.js"
import { Confirm, Dialog } from "../ui/dialog.js"
import { NumberField, SelectField } from "../ui/fields.js"
import { attempt, complain, toast } from "../ui/toast.js"
import { Table } from "../ui/table.js"

export const isOpen = ({ state }) => state === "gathering" || state === "running"

const JUDGED_AFTER = 20
/** Nothing happens before: who takes it back until then has changed nothing. */
const UNDO_SECONDS = 5
const TONES = { gathering: "accent", running: "accent", done: "good", stopped: "warn", halted: "bad" }
const toneOf = (bulk) => (bulk.state === "done" && bulk.failed > bulk.succeeded ? "warn" : TONES[bulk.state])

/** Bulk retries, newest first; asked for often while one of them runs. */
export function useRetries() {
  const [busy, setBusy] = useState(false)
  const retries = useApi("/failures/retries", { limit: 50 }, { every: busy ? 1000 : 10_000 })
  const running = (retries.data?.items ?? []).some(unsettled)
  useEffect(() => setBusy(running), [running])
  return retries
}

/** Goes on, or its last jobs have not been heard of yet. */
const unsettled = (bulk) => isOpen(bulk) || (bulk.ended_at && heard(bulk) < bulk.retried && Date.now() - new Date(bulk.ended_at) < 60_000)
const heard = (bulk) => bulk.succeeded + bulk.failed
const tried = (bulk) => bulk.retried + bulk.skipped

export async function stopRetry(bulk, changed) {
  await attempt(() => api.post(`/failures/retries/${bulk.id}/stop`), "Stopped. What was retried goes on.")
  changed()
}

export function RetryCard({ bulk, changed }) {
  const session = useSession()
  return html`
    <${Card} class="retry" aria-label="Bulk retry">
      <div class="bar"><h2>${headline(bulk)}</h2><${StateTag} bulk=${bulk} /><span class="grow"></span>
        ${isOpen(bulk) && session.can("jobs:write") && html`<${Button} small icon="stop" onClick=${() => stopRetry(bulk, changed)}>Stop<//>`}</div>
      <${Progress} percent=${share(bulk)} label="Jobs retried" tone=${toneOf(bulk)} />
      <p class="told"><b class="figure">${count(bulk.retried)}</b> retried · <span data-tone="good"><b class="figure">${count(bulk.succeeded)}</b> succeeded</span> · <span data-tone=${bulk.failed ? "bad" : undefined}><b class="figure">${count(bulk.failed)}</b> failed again</span>
        ${bulk.skipped > 0 && html` · <b class="figure">${count(bulk.skipped)}</b> skipped`} · ${rateText(bulk)} · <${Time} at=${bulk.created_at} /> by ${bulk.created_by}</p>
    <//>`
}

const headline = (bulk) => (isOpen(bulk) ? bulk.total === null ? (new Date(bulk.starts_at) > Date.now() ? "About to start" : "Gathering the jobs") : `Retrying ${plural(bulk.total, "job")}` : `Retried ${count(bulk.retried)} of ${plural(bulk.total ?? 0, "job")}`)
const share = (bulk) => (bulk.total ? (tried(bulk) / bulk.total) * 100 : bulk.total === 0 ? 100 : 0)
const rateText = (bulk) => `${bulk.rate >= 1 ? count(bulk.rate) : bulk.rate} a second`
const StateTag = ({ bulk }) => html`<${Tag} tone=${toneOf(bulk)} title=${bulk.reason}>${bulk.state === "halted" ? `stopped by itself: ${bulk.reason}` : words(bulk.state)}<//>`

export function Retries({ retries }) {
  const session = useSession()
  const [asked, setAsked] = useState(null)
  const columns = [
    { name: "what", text: "What", wide: true, cell: (bulk) => html`<span><${Chosen} chosen=${bulk.chosen} /></span>` },
    { name: "state", text: "State", cell: (bulk) => html`<${StateTag} bulk=${bulk} />` },
    { name: "progress", text: "Progress", cell: (bulk) => html`<${Progress} percent=${share(bulk)} label="Jobs retried" tone=${toneOf(bulk)} />` },
    { name: "retried", text: "Retried", align: "right", cell: (bulk) => `${count(bulk.retried)} of ${count(bulk.total)}` },
    { name: "good", text: "Succeeded", align: "right", cell: (bulk) => count(bulk.succeeded) },
    { name: "bad", text: "Failed again", align: "right", cell: (bulk) => count(bulk.failed) },
    { name: "rate", text: "Rate", cell: rateText },
    { name: "who", text: "By", cell: (bulk) => bulk.created_by },
    { name: "when", text: "Started", cell: (bulk) => html`<${Time} at=${bulk.created_at} />` },
    ...(session.can("jobs:write") ? [{ name: "stop", text: "", align: "right", cell: (bulk) => isOpen(bulk) && html`<${Button} small icon="stop" onClick=${() => setAsked(bulk)}>Stop<//>` }] : []),
  ]
  return html`
    <${Loaded} from=${retries} lines=${6}>${({ items }) => items.length ? html`<${Table} label="Bulk retries" columns=${columns} rows=${items} rowKey=${({ id }) => id} />`
      : html`<${Empty} icon="retry" title="No bulk retry yet" command="posthouse failures retry FINGERPRINT --rate 10">Open a fault and choose “Retry all”, or on the command line:<//>`}<//>
    ${asked && html`<${Confirm} title="Stop this bulk retry?" danger actText="Stop it" close=${() => setAsked(null)} act=${() => stopRetry(asked, retries.reload)}>${count(tried(asked))} of ${plural(asked.total ?? 0, "job")} were retried so far; they go on. The others stay as they are.<//>`}`
}

/** Which jobs it is about, in words. */
function Chosen({ chosen }) {
  const { fingerprint, kind, queue, tenant, q } = chosen
  const rest = [kind && `kind ${kind}`, queue && `queue ${queue}`, tenant && `tenant ${tenant}`, q, chosen.since && "since a time", chosen.limit && `at most ${count(chosen.limit)}`].filter(Boolean).join(", ")
  return html`${fingerprint && html`<a class="id" href=${link(`failures/${fingerprint}`, { kind, tenant })}>${fingerprint}</a> `}<span class="faint">${rest || (fingerprint ? "" : "all that failed")}</span>`
}

const judgedAfter = (tolerated) => (tolerated === "0" ? 1 : JUDGED_AFTER)
const AGES = { all: null, hour: 3600, day: 86_400 }

/** Counts first, says in words what will happen, then does it. */
export function RetryDialog({ group, tenant, close, started }) {
  const [rate, setRate] = useState(10)
  const [most, setMost] = useState(null)
  const [age, setAge] = useState("all")
  const [tolerated, setTolerated] = useState("0.5")
  const preview = usePreview(group, tenant, { age })
  const jobs = Math.min(preview.matched ?? 0, most ?? Infinity)
  const send = async () => {
    const wanted = { action: "retry", filter: choice(group, preview.ended_after), limit: most, rate, stop_share: Number(tolerated), stop_after: judgedAfter(tolerated), start_in_seconds: UNDO_SECONDS }
    const { bulk_id: id } = await api.post("/jobs/bulk", wanted, { query: { tenant } })
    const undo = () => api.post(`/failures/retries/${id}/stop`).then(() => toast("Undone: nothing was retried"), complain).finally(started)
    toast(`${plural(jobs, "job")} will run again`, { undo, seconds: UNDO_SECONDS })
    started()
  }
  return html`
    <${Dialog} title=${`Retry ${group.type}`} close=${close} act=${send} actText=${preview.matched ? `Retry ${plural(jobs, "job")}` : "Retry"} disabled=${!jobs || !(rate > 0)}>
      ${preview.error ? html`<${Failure} error=${preview.error} />` : html`<p aria-live="polite">${sentence(preview, jobs, rate, tolerated)}</p>`}
      <div class="columns">
        <${NumberField} label="Jobs a second" min="0.1" max="10000" value=${rate} change=${setRate} hint="Slowly is kinder to what was broken." />
        <${NumberField} label="At most" min="1" step="1" value=${most} change=${setMost} hint="Empty: all of them." />
        <${SelectField} label="Ended within" value=${age} change=${setAge} options=${[["all", "any time"], ["hour", "the last hour"], ["day", "the last day"]]} />
        <${SelectField} label="Stop by itself" value=${tolerated} change=${setTolerated} options=${[["0", "as soon as one fails again"], ["0.1", "if more than 10 % fail again"], ["0.5", "if more than half fail again"], ["1", "never"]]} />
      </div>
    <//>`
}

const choice = (group, ended_after) => ({ fingerprint: group.fingerprint, kind: group.kind, ...(ended_after && { ended_after }) })

/** How many jobs a retry would be about; counted again when `round` is another one. */
export function usePreview(group, tenant, { age = "all", round = "" } = {}) {
  const [found, setFound] = useState({ matched: null, error: null })
  useEffect(() => {
    let gone = false
    const ended_after = AGES[age] && new Date(Date.now() - AGES[age] * 1000).toISOString()
    api.post("/jobs/bulk", { action: "retry", dry_run: true, filter: choice(group, ended_after) }, { query: { tenant } })
      .then(({ matched, counted_up_to }) => gone || setFound({ matched, ended_after, more: matched >= counted_up_to }), (error) => gone || setFound({ matched: null, error }))
    return () => { gone = true }
  }, [age, round])
  return found
}

function sentence(preview, jobs, rate, tolerated) {
  if (preview.matched === null) return "Counting the jobs …"
  if (!jobs) return "No job ended with this fault, so there is nothing to retry."
  const some = `${preview.more ? "At least " : ""}${plural(jobs, "job")} will run again, ${rate >= 1 ? count(rate) : rate} a second: about ${duration(jobs / rate)} until all are queued.`
  if (tolerated === "1") return `${some} It goes on even if all of them fail again.`
  if (tolerated === "0") return `${some} As soon as one fails again, it stops by itself.`
  return `${some} Once ${JUDGED_AFTER} have ended, it stops by itself if more than ${percent(Number(tolerated))} of them failed again.`
}
