// Head of the job page: identity, progress and actions.
import { api } from "../api.js"
import { quoted } from "../filter.js"
import { html, useState } from "../lib.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { Back, Button, Copy, Facts, Progress, Since, Status, Tag, Time } from "../ui/basics.js"
import { Confirm } from "../ui/dialog.js"
import { complain, toast } from "../ui/toast.js"
import { EnqueueDialog } from "./enqueue.js"
import { isOver, isWaiting } from "./job-live.js"
import { LiveLight } from "./overview.js"

export function Head({ known }) {
  const job = known.job.data
  const session = useSession()
  return html`
    <section class="card job-head" aria-label="Job">
      <div class="bar">
        <${Back} href=${link("jobs")}>Jobs<//><h2>${job.definition_key}</h2><${Status} status=${job.status} />
        ${job.cancel_requested_at && !isOver(job) && html`<${Tag} tone="warn">cancellation requested<//>`}
        <span class="grow"></span><${LiveLight} state=${known.live} />
        ${session.can("jobs:write") && html`<${Buttons} known=${known} session=${session} />`}
      </div>
      <p class="job-subject clip">${job.subject ? html`<a href=${jobsWith("subject", job.subject)}>${job.subject}</a>` : html`<span class="faint">no subject</span>`}</p>
      <${Facts} facts=${facts(job, known, session)} />
    </section>`
}

/** Link to the jobs whose field has this value. */
export const jobsWith = (field, text) => link("jobs", { q: `${field}:${quoted(text)}` })

function facts(job, known, session) {
  return [
    ["Progress", html`<${Progress} percent=${job.status === "succeeded" ? 100 : job.progress_percent} tone=${toneOf(job)} />`],
    ["Attempt", html`<span class="figure">${job.attempt_count} of ${job.max_attempts}</span>${job.generation > 1 && html` <span class="faint">run ${job.generation}</span>`}`],
    ["Wait time", html`<${Since} from=${job.queued_at} to=${job.started_at ?? job.finished_at} />`],
    ["Run time", html`<${Since} from=${job.started_at && (job.attempt_started_at ?? job.started_at)} to=${job.status === "running" ? undefined : job.finished_at ?? job.started_at} />`],
    ["Worker", html`<${WorkerName} id=${job.worker_id} spans=${known.timeline.data?.spans} />`],
    ["Queue", html`<a href=${jobsWith("queue", job.queue)}>${job.queue}</a>`],
    ["Enqueued", html`<${Time} at=${job.queued_at} /> <span class="faint">${job.source}</span>`],
    ["Tenant", session.operator && html`<span class="id">${job.tenant_id}</span>`],
    ["Job id", html`<${Id} id=${job.id} label="Copy job id" />`],
    ["Correlation id", job.correlation_id && html`<${Id} id=${job.correlation_id} label="Copy correlation id" href=${jobsWith("correlation", job.correlation_id)} />`],
  ]
}

export const toneOf = (job) => ({ succeeded: "good", failed: "bad", dead_letter: "bad", canceled: "quiet" })[job.status]

export const Id = ({ id, label, href }) => html`<span class="job-id"><span class="clip id" title=${id}>${href ? html`<a href=${href}>${id}</a>` : id}</span><${Copy} text=${id} label=${label} /></span>`

/** The name of a worker if it is known, else the start of its id. */
export function WorkerName({ id, spans = [] }) {
  if (!id) return html`<span class="faint">none</span>`
  const name = spans.find((span) => span.worker_id === id && span.worker)?.worker
  return html`<a href=${link("workers", { worker: id })} title=${id}>${name ?? id.slice(0, 8)}</a>`
}

/** {busy, cancel, retry} of a job, each with Undo. `done` is called after each change. */
export function useActions(job, done) {
  const [busy, setBusy] = useState(false)
  const send = async (action, query) => {
    setBusy(true)
    try {
      return await api.post(`/jobs/${job.id}/${action}`, undefined, { query })
    } catch (error) {
      complain(error)
      return null
    } finally {
      setBusy(false)
      done?.()
    }
  }
  const cancel = async () => {
    const answer = await send("cancel")
    if (answer?.status === "canceled") toast("Job canceled", { undo: () => send("retry") })
    else if (answer) toast("Cancellation requested")
  }
  const retry = async (fresh) => {
    if (await send("retry", { fresh })) toast(fresh ? "Retrying from the first step" : "Retrying the job", { undo: () => send("cancel") })
  }
  return { busy, cancel, retry }
}

export const ConfirmCancel = (rest) => html`<${Confirm} title="Cancel this job?" danger actText="Cancel job" closeText="Go back" ...${rest}>The worker stops the running handler. Side effects that already happened are not rolled back.<//>`

function Buttons({ known, session }) {
  const job = known.job.data
  const [asking, setAsking] = useState(null)
  const { busy, cancel, retry } = useActions(job, known.reload)
  const isDone = job.status === "succeeded"
  const hasSteps = known.timeline.data?.spans.some(({ type }) => type === "step")
  return html`
    <div class="bar job-buttons">
      ${isOver(job) ? html`
        <${Button} icon="retry" strong=${!isDone} disabled=${isDone} busy=${busy} title=${isDone ? "Succeeded jobs cannot be retried." : "Retry this job with a new set of attempts."} onClick=${() => retry()}>Retry<//>
        ${hasSteps && !isDone && html`<${Button} icon="retry" busy=${busy} title="Discard completed steps." onClick=${() => retry(true)}>Retry fresh<//>`}`
        : html`<${Button} icon="stop" busy=${busy} onClick=${() => (isWaiting(job) ? cancel() : setAsking("cancel"))}>Cancel<//>`}
      <${Button} icon="edit" title="Enqueue a new job of this kind with an editable payload." onClick=${() => setAsking("again")}>Run again…<//>
      ${asking === "cancel" && html`<${ConfirmCancel} act=${cancel} close=${() => setAsking(null)} />`}
      ${asking === "again" && html`<${EnqueueDialog} close=${() => setAsking(null)} kind=${job.definition_key} payload=${job.payload ?? {}} note=${hasSecrets(job.payload) && "Secrets are masked. Replace every [redacted] value before you enqueue the job."} extra=${{ subject: job.subject ?? "", tenant: session.tenant ?? job.tenant_id }} />`}
    </div>`
}

export const hasSecrets = (value) => JSON.stringify(value ?? null).includes("[redacted]")
