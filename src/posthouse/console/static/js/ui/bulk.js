// Many jobs at once: a question that shows what it would do, a way back, and how far it is.
import { api, useApi } from "../api.js"
import { html, useEffect, useState } from "../lib.js"
import { count, plural } from "../format.js"
import { Button, JobLink, Loaded, Progress, Status, Tag } from "./basics.js"
import { Dialog } from "./dialog.js"
import { NumberField } from "./fields.js"
import { complain, toast } from "./toast.js"

const UNDO_SECONDS = 10
const WORDS = {
  retry: { title: "Retry jobs", act: "Retry", of: "Retry of", none: "None of these jobs can be retried: only failed, dead-letter and canceled ones can.", done: "retried" },
  cancel: { title: "Cancel jobs", act: "Cancel them", of: "Cancel of", none: "None of these jobs can be canceled: they have ended.", done: "canceled" },
}

const some = ({ matched, exact }) => `${exact ? "" : "at least "}${plural(matched, "job")}`

/** Asks whether to retry or cancel what a line finds; `about` says it shorter. `started()` is called when it will be done. */
export function BulkDialog({ action, q, about, close, started }) {
  const preview = usePreview(action, q)
  const [rate, setRate] = useState(action === "retry" ? 10 : 100)
  const [share, setShare] = useState(50)
  const found = preview.data
  const act = async () => {
    const wanted = { action, q, rate, start_in_seconds: UNDO_SECONDS, ...(action === "retry" && { stop_share: share / 100 }) }
    const { bulk_id: id } = await api.post("/jobs/bulk", wanted)
    toast(`${some(found)} will be ${WORDS[action].done}`, { undo: () => undo(id, started), seconds: UNDO_SECONDS })
    started()
  }
  return html`
    <${Dialog} title=${WORDS[action].title} close=${close} act=${act} danger=${action === "cancel"} closeText="Leave them" disabled=${!found?.matched || !(rate > 0)}
      actText=${found?.matched ? `${WORDS[action].act} (${found.exact ? count(found.matched) : `${count(found.matched)}+`})` : WORDS[action].act}>
      <${Loaded} from=${preview} lines=${5}>${() => found.matched ? html`
        <p><b>${some(found)}</b> ${about ? `of ${about} can be ${WORDS[action].done}` : html`found by <code class="line-of">${q}</code>`}</p>
        <ul class="sample" aria-label="The first of them">${found.sample.map((job) => html`
          <li key=${job.id}><${JobLink} id=${job.id} /><span class="grow clip">${job.kind} <span class="faint">${job.subject}</span></span><${Status} status=${job.status} /></li>`)}
          ${found.matched > found.sample.length && html`<li class="faint">and ${found.exact ? "" : "at least "}${count(found.matched - found.sample.length)} more</li>`}</ul>
        <div class="columns">
          <${NumberField} label="Jobs a second" min="0.1" max="10000" value=${rate} change=${setRate} hint=${takes(found.matched, rate)} />
          ${action === "retry" && html`<${NumberField} label="Stop if so many % fail again" min="0" max="100" value=${share} change=${setShare} hint="Looked at once 20 have ended." />`}
        </div>` : html`<p>${WORDS[action].none}</p>`}<//>
    <//>`
}

/** What it would do, like useApi tells. */
function usePreview(action, q) {
  const [state, setState] = useState({ data: null, error: null })
  const load = () => api.post("/jobs/bulk", { action, q, dry_run: true }).then((data) => setState({ data, error: null }), (error) => setState({ data: null, error }))
  useEffect(() => { load() }, [])
  return { ...state, reload: load }
}

function takes(jobs, rate) {
  if (!(rate > 0)) return "A number above 0."
  const seconds = jobs / rate
  return seconds < 90 ? `About ${plural(Math.max(1, Math.round(seconds)), "second")}.` : `About ${plural(Math.round(seconds / 60), "minute")}.`
}

async function undo(id, changed) {
  try {
    await api.post(`/jobs/bulk/${id}/stop`)
    const { retried, canceled } = await api.get(`/jobs/bulk/${id}`)
    toast(retried + canceled ? `Stopped: ${plural(retried + canceled, "job")} had been changed` : "Undone: no job was changed")
  } catch (error) {
    complain(error)
  }
  changed()
}

const OPEN = new Set(["gathering", "running"])
const SHOWN_FOR = 60_000

/** Bulk changes that are under way or have just ended, whoever began them. `begun` changes when one was. */
export function BulkChanges({ begun, may }) {
  const [open, setOpen] = useState(false)
  const [gone, setGone] = useState(() => new Set())
  const changes = useApi("/jobs/bulk", { limit: 5 }, { every: open ? 1000 : 15_000 })
  useEffect(() => { if (begun) changes.reload() }, [begun])
  const items = (changes.data?.items ?? []).filter((each) => !gone.has(each.id) && (OPEN.has(each.state) || Date.now() - new Date(each.ended_at) < SHOWN_FOR))
  useEffect(() => setOpen(items.some(({ state }) => OPEN.has(state))), [changes.data])
  return items.map((each) => html`<${Change} key=${each.id} change=${each} may=${may} reload=${changes.reload} dismiss=${() => setGone(new Set([...gone, each.id]))} />`)
}

/** What was chosen, in short: some jobs by themselves, a line, or a kind. */
function Which({ chosen }) {
  const ids = chosen.q?.match(/^id:(\S+)$/)?.[1].split(",").length
  if (ids) return plural(ids, "selected job")
  return html`<code class="line-of">${chosen.q ?? [chosen.kind, chosen.fingerprint, chosen.queue].filter(Boolean).join(" ")}</code>`
}

const TONES = { done: "good", stopped: "warn", halted: "bad" }

function Change({ change, may, reload, dismiss }) {
  const { action, state, total, retried, canceled, skipped, succeeded, failed, reason } = change
  const begins = new Date(change.starts_at) - Date.now()
  const done = retried + canceled + skipped
  const stop = () => undo(change.id, reload)
  const told = [`${count(retried + canceled)} of ${count(total ?? 0)} ${WORDS[action].done}`, succeeded && `${count(succeeded)} succeeded`, failed && `${count(failed)} failed again`, skipped && `${count(skipped)} passed over`]
  return html`
    <section class="card change" aria-label=${`${WORDS[action].of} many jobs`}>
      <div class="grow"><b>${WORDS[action].of} <${Which} chosen=${change.chosen} /></b>
        <p class="faint">${state === "gathering" ? (begins > 0 ? `begins in ${Math.ceil(begins / 1000)} s` : `finding jobs: ${count(total ?? 0)} so far`) : told.filter(Boolean).join(", ")}${reason ? ` · ${reason}` : ""}</p></div>
      ${OPEN.has(state) ? html`<${Progress} label="Bulk change" percent=${total ? (100 * done) / total : 0} />${may && html`<${Button} small icon=${begins > 0 ? undefined : "stop"} onClick=${stop}>${begins > 0 ? "Undo" : "Stop"}<//>`}`
        : html`<${Tag} tone=${failed ? "warn" : TONES[state]}>${state}<//><${Button} plain small icon="close" label="Dismiss" onClick=${dismiss} />`}
    </section>`
}
