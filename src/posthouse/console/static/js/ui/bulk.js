// Retry or cancel many jobs: a preview of the change, then a delay in which it can be undone.
import { api } from "../api.js"
import { html, useEffect, useState } from "../lib.js"
import { count, duration, percent, plural } from "../format.js"
import { Failure, JobLink, Status } from "./basics.js"
import { DONE, stopBulk } from "./bulk-state.js"
import { Dialog } from "./dialog.js"
import { NumberField, SelectField } from "./fields.js"
import { toast } from "./toast.js"

/** The change starts after this delay; until then it can be undone without effect. */
const UNDO_SECONDS = 10
const JUDGED_AFTER = 20
const WORDS = {
  retry: { title: "Retry jobs", act: "Retry", rate: 10, will: "will be retried", until: "until all are queued", none: "None of these jobs can be retried. Only failed, dead-letter and canceled jobs can." },
  cancel: { title: "Cancel jobs", act: "Cancel", rate: 100, will: "will be canceled", until: "until all are canceled", none: "None of these jobs can be canceled. They have already finished." },
}
const AGES = [["", "any time"], ["1h", "the last hour"], ["1d", "the last day"]]
const TOLERATED = [["0", "after the first failure"], ["0.1", "when more than 10 % fail again"], ["0.5", "when more than half fail again"], ["1", "never"]]

/** Confirms a retry or cancellation of the jobs that `q` finds; `about` describes them, `aged` filters by finish time.
 *  `started()` is called when the change is accepted, and when it is undone. */
export function BulkDialog({ action, q, about, tenant, title, aged, close, started }) {
  const words = WORDS[action]
  const [rate, setRate] = useState(words.rate)
  const [most, setMost] = useState(null)
  const [age, setAge] = useState("")
  const [tolerated, setTolerated] = useState("0.5")
  const line = age ? `${q} finished:<${age}` : q
  const preview = useBulkPreview(action, line, tenant)
  const jobs = Math.min(preview.matched ?? 0, most ?? Infinity)
  const act = async () => {
    const rules = action === "retry" && { stop_share: Number(tolerated), stop_after: tolerated === "0" ? 1 : JUDGED_AFTER }
    const { bulk_id: id } = await api.post("/jobs/bulk", { action, q: line, limit: most, rate, start_in_seconds: UNDO_SECONDS, ...rules }, { query: { tenant } })
    toast(`${plural(jobs, "job")} will be ${DONE[action]}`, { undo: () => stopBulk(id, started), seconds: UNDO_SECONDS })
    started()
  }
  return html`
    <${Dialog} title=${title ?? words.title} close=${close} act=${act} danger=${action === "cancel"} closeText="Go back" disabled=${!jobs || !(rate > 0)}
      actText=${jobs ? `${words.act} ${plural(jobs, "job")}` : words.act}>
      ${preview.error ? html`<${Failure} error=${preview.error} />` : html`
        <p aria-live="polite">${preview.matched === null ? "Counting jobs …" : jobs ? sentence(words, preview, jobs, rate) : words.none}
          ${jobs > 0 && action === "retry" && html` ${judgement(tolerated)}`}</p>
        ${jobs > 0 && html`<p class="faint">${about ? `First of the ${about}:` : html`Jobs matching <code class="line-of">${line}</code>`}</p><${Sample} found=${preview} jobs=${jobs} />`}`}
      <div class="columns">
        <${NumberField} label="Jobs per second" min="0.1" max="10000" value=${rate} change=${setRate} hint=${action === "retry" ? "A lower rate protects a service that is still recovering." : ""} />
        <${NumberField} label="Maximum jobs" min="1" step="1" value=${most} change=${setMost} hint="Leave empty for all matching jobs." />
        ${aged && html`<${SelectField} label="Finished within" value=${age} change=${setAge} options=${AGES} />`}
        ${action === "retry" && html`<${SelectField} label="Stop automatically" value=${tolerated} change=${setTolerated} options=${TOLERATED} />`}
      </div>
    <//>`
}

const Sample = ({ found: { sample, exact }, jobs }) => html`
  <ul class="sample" aria-label="First jobs">${sample.slice(0, jobs).map((job) => html`
    <li key=${job.id}><${JobLink} id=${job.id} /><span class="grow clip">${job.definition_key} <span class="faint">${job.subject}</span></span><${Status} status=${job.status} /></li>`)}
    ${jobs > sample.length && html`<li class="faint">and ${exact ? "" : "at least "}${count(jobs - sample.length)} more</li>`}</ul>`

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

function sentence(words, { exact }, jobs, rate) {
  const some = `${exact ? "" : "At least "}${plural(jobs, "job")} ${words.will}`
  return rate > 0 ? `${some}, ${rate >= 1 ? count(rate) : rate} per second: about ${duration(jobs / rate)} ${words.until}.` : `${some}. Enter the number of jobs per second.`
}

function judgement(tolerated) {
  if (tolerated === "1") return "Continues even if every job fails again."
  if (tolerated === "0") return "Stops after the first job that fails again."
  return `Stops when more than ${percent(Number(tolerated))} of at least ${JUDGED_AFTER} finished jobs fail again.`
}
