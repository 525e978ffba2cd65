// Many jobs at once: a question that says what it would do, and a way back.
import { api } from "../api.js"
import { html, useEffect, useState } from "../lib.js"
import { count, duration, percent, plural } from "../format.js"
import { Failure, JobLink, Status } from "./basics.js"
import { DONE, stopBulk } from "./bulk-state.js"
import { Dialog } from "./dialog.js"
import { NumberField, SelectField } from "./fields.js"
import { toast } from "./toast.js"

/** Nothing happens before: who takes it back until then has changed nothing. */
const UNDO_SECONDS = 10
const JUDGED_AFTER = 20
const WORDS = {
  retry: { title: "Retry jobs", act: "Retry", rate: 10, will: "will run again", until: "until all are queued", none: "None of these jobs can be retried: only failed, dead-letter and canceled ones can." },
  cancel: { title: "Cancel jobs", act: "Cancel", rate: 100, will: "will be canceled", until: "until all are told", none: "None of these jobs can be canceled: they have ended." },
}
const AGES = [["", "any time"], ["1h", "the last hour"], ["1d", "the last day"]]
const TOLERATED = [["0", "as soon as one fails again"], ["0.1", "if more than 10 % fail again"], ["0.5", "if more than half fail again"], ["1", "never"]]

/** Asks whether to retry or cancel what a line finds; `about` says it shorter, `aged` lets choose by when they ended.
 *  `started()` is called when it will be done, and when that was taken back. */
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
    <${Dialog} title=${title ?? words.title} close=${close} act=${act} danger=${action === "cancel"} closeText="Leave them" disabled=${!jobs || !(rate > 0)}
      actText=${jobs ? `${words.act} ${plural(jobs, "job")}` : words.act}>
      ${preview.error ? html`<${Failure} error=${preview.error} />` : html`
        <p aria-live="polite">${preview.matched === null ? "Counting the jobs …" : jobs ? sentence(words, preview, jobs, rate) : words.none}
          ${jobs > 0 && action === "retry" && html` ${judgement(tolerated)}`}</p>
        ${jobs > 0 && html`<p class="faint">${about ? `Of ${about}:` : html`Found by <code class="line-of">${line}</code>`}</p><${Sample} found=${preview} jobs=${jobs} />`}`}
      <div class="columns">
        <${NumberField} label="Jobs a second" min="0.1" max="10000" value=${rate} change=${setRate} hint=${action === "retry" ? "Slowly is kinder to what was broken." : ""} />
        <${NumberField} label="At most" min="1" step="1" value=${most} change=${setMost} hint="Empty: all of them." />
        ${aged && html`<${SelectField} label="Ended within" value=${age} change=${setAge} options=${AGES} />`}
        ${action === "retry" && html`<${SelectField} label="Stop by itself" value=${tolerated} change=${setTolerated} options=${TOLERATED} />`}
      </div>
    <//>`
}

const Sample = ({ found: { sample, exact }, jobs }) => html`
  <ul class="sample" aria-label="The first of them">${sample.slice(0, jobs).map((job) => html`
    <li key=${job.id}><${JobLink} id=${job.id} /><span class="grow clip">${job.kind} <span class="faint">${job.subject}</span></span><${Status} status=${job.status} /></li>`)}
    ${jobs > sample.length && html`<li class="faint">and ${exact ? "" : "at least "}${count(jobs - sample.length)} more</li>`}</ul>`

const NOTHING_YET = { matched: null, error: null }

/** How many jobs it would be about, and the first of them; counted again when `round` is another one. */
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
  return rate > 0 ? `${some}, ${rate >= 1 ? count(rate) : rate} a second: about ${duration(jobs / rate)} ${words.until}.` : `${some}. Say how many a second.`
}

function judgement(tolerated) {
  if (tolerated === "1") return "It goes on even if all of them fail again."
  if (tolerated === "0") return "As soon as one fails again, it stops by itself."
  return `Once ${JUDGED_AFTER} have ended, it stops by itself if more than ${percent(Number(tolerated))} of them failed again.`
}
