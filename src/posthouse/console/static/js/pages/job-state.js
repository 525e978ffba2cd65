// The data of the job page, kept up to date by the event stream.
import { api, useApi } from "../api.js"
import { Confirm } from "../components/dialog.js"
import { BackLink, Button, CopyButton, DescriptionList, Elapsed, Progress, Status, StreamStatus, Tag, Time } from "../components/display.js"
import { EnqueueDialog } from "../components/enqueue-dialog.js"
import { showError, toast } from "../components/toast.js"
import { quoteValue } from "../filter-query.js"
import { html, useEffect, useState } from "../preact.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { useEventStream, useThrottled } from "../stream.js"

const MAX_LINES = 5000
const FIRST_LINES = 1000

export const isWaiting = (job) => job.status === "queued"
export const isOver = (job) => job.finished_at !== null

/** Changes when more than the progress of the job changes. */
const stateKey = (job) => [job.status, job.job_table, job.attempt_count, job.attempt_started_at, job.finished_at, job.worker_id].join()

export function useJob(id) {
  const at = `/jobs/${id}`
  const job = useApi(at)
  const running = job.data?.status === "running"
  const waiting = job.data && isWaiting(job.data)
  const timeline = useApi(`${at}/timeline`, {}, { every: running ? 5000 : 0 })
  const attempts = useApi(`${at}/attempts`)
  const parts = useApi(`${at}/parts`, {}, { every: running ? 3000 : 0 })
  const artifacts = useApi(`${at}/artifacts`)
  const pipeline = useApi(`${at}/pipeline`)
  const why = useApi(waiting ? `${at}/why` : null, {}, { every: 3000 })
  const log = useLog(id, Boolean(job.data))
  const all = [job, timeline, attempts, parts, artifacts, pipeline, ...(waiting ? [why] : [])]
  const reload = () => all.forEach((each) => each.reload())
  const soon = useThrottled(() => [job, parts, timeline].forEach((each) => each.reload()))
  useEffect(() => { // lease renewals and progress reports send no event
    const timer = running && setInterval(() => document.hidden || job.reload(), 8000)
    return () => clearInterval(timer)
  }, [running])
  const live = useEventStream({ job: id, log_after: log.from }, ({ job: [changed], log: lines, missed }) => {
    log.add(lines)
    if (changed) job.setData((previous) => previous && { ...previous, ...changed })
    if (missed || (changed && job.data && stateKey(changed) !== stateKey(job.data))) reload()
    else if (changed) soon()
  }, { on: log.from !== null })
  usePipelineUpdates(id, pipeline, timeline)
  return { job, timeline, attempts, parts, artifacts, pipeline, why, lines: log, live, reload }
}

/** The other jobs of the pipeline, including follow-up jobs in the timeline. */
function usePipelineUpdates(id, pipeline, timeline) {
  const related = pipeline.data?.nodes.length > 1
  const soon = useThrottled(() => [pipeline, timeline].forEach((each) => each.reload()))
  const state = useEventStream({ correlation_id: pipeline.data?.correlation_id ?? id, event: "job" }, ({ job: changed, missed }) => {
    const known = new Set(pipeline.data.nodes.map((node) => node.id))
    if (missed || changed.some((each) => !known.has(each.id))) soon()
    const byId = new Map(changed.map((each) => [each.id, each]))
    const merged = (node) => (byId.has(node.id) ? { ...node, ...pick(node, byId.get(node.id)) } : node)
    pipeline.setData((previous) => ({ ...previous, nodes: previous.nodes.map(merged) }))
    timeline.setData((previous) => previous && { ...previous, follow_ups: previous.follow_ups.map(merged) })
  }, { on: related })
  useEffect(() => {
    if (state === "live" && related) soon() // changes from before the stream was open
  }, [state === "live"])
}

const pick = (shape, from) => Object.fromEntries(Object.keys(shape).filter((name) => name in from).map((name) => [name, from[name]]))

/** The log: the last lines first, earlier ones on request, new ones as they arrive. `from`: the last sequence read. */
function useLog(id, there) {
  const [state, setState] = useState({ lines: [], earlier: false, from: null, error: null })
  const read = (query) => api.get(`/jobs/${id}/logs`, { last: true, limit: FIRST_LINES, ...query })
  const load = async () => {
    try {
      const { items } = await read()
      setState({ lines: items, earlier: items.length === FIRST_LINES, from: items.at(-1)?.sequence ?? 0, error: null })
    } catch (error) {
      setState((previous) => ({ ...previous, error }))
    }
  }
  useEffect(() => {
    if (there) load()
  }, [there])
  const add = (more) => more.length && setState((previous) => {
    const last = previous.lines.at(-1)?.sequence ?? 0
    const lines = [...previous.lines, ...more.filter(({ sequence }) => sequence > last)]
    return { ...previous, lines: lines.slice(-MAX_LINES), earlier: previous.earlier || lines.length > MAX_LINES }
  })
  const readEarlier = async () => {
    const { items } = await read({ before: state.lines[0].sequence })
    setState((previous) => ({ ...previous, lines: [...items, ...previous.lines], earlier: items.length === FIRST_LINES }))
  }
  return { ...state, add, load, readEarlier }
}

// Head of the job page: identity, progress and actions.

export function Head({ jobData }) {
  const job = jobData.job.data
  const session = useSession()
  return html`
    <section class="card job-head" aria-label="Job">
      <div class="bar">
        <${BackLink} href=${link("jobs")}>Jobs<//><h2>${job.definition_key}</h2><${Status} status=${job.status} />
        ${job.cancel_requested_at && !isOver(job) && html`<${Tag} tone="warn">cancellation requested<//>`}
        <span class="grow"></span><${StreamStatus} state=${jobData.live} />
        ${session.can("jobs:write") && html`<${Buttons} jobData=${jobData} session=${session} />`}
      </div>
      <p class="job-subject clip">${job.subject ? html`<a href=${jobsWith("subject", job.subject)}>${job.subject}</a>` : html`<span class="faint">no subject</span>`}</p>
      <${DescriptionList} items=${facts(job, jobData, session)} />
    </section>`
}

/** Link to the jobs whose field has this value. */
export const jobsWith = (field, text) => link("jobs", { q: `${field}:${quoteValue(text)}` })

function facts(job, known, session) {
  return [
    ["Progress", html`<${Progress} percent=${job.status === "succeeded" ? 100 : job.progress_percent} tone=${toneOf(job)} />`],
    ["Attempt", html`<span class="figure">${job.attempt_count} of ${job.max_attempts}</span>${job.generation > 1 && html` <span class="faint">run ${job.generation}</span>`}`],
    ["Wait time", html`<${Elapsed} from=${job.queued_at} to=${job.started_at ?? job.finished_at} />`],
    ["Run time", html`<${Elapsed} from=${job.started_at && (job.attempt_started_at ?? job.started_at)} to=${job.status === "running" ? undefined : job.finished_at ?? job.started_at} />`],
    ["Worker", html`<${WorkerName} id=${job.worker_id} spans=${known.timeline.data?.spans} />`],
    ["Queue", html`<a href=${jobsWith("queue", job.queue)}>${job.queue}</a>`],
    ["Enqueued", html`<${Time} at=${job.queued_at} /> <span class="faint">${job.source}</span>`],
    ["Tenant", session.operator && html`<span class="id">${job.tenant_id}</span>`],
    ["Job id", html`<${Id} id=${job.id} label="Copy job id" />`],
    ["Correlation id", job.correlation_id && html`<${Id} id=${job.correlation_id} label="Copy correlation id" href=${jobsWith("correlation", job.correlation_id)} />`],
  ]
}

const toneOf = (job) => ({ succeeded: "good", failed: "bad", dead_letter: "bad", canceled: "quiet" })[job.status]

export const Id = ({ id, label, href }) => html`<span class="job-id"><span class="clip id" title=${id}>${href ? html`<a href=${href}>${id}</a>` : id}</span><${CopyButton} text=${id} label=${label} /></span>`

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
      showError(error)
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

export const ConfirmCancel = (rest) => html`<${Confirm} title="Cancel this job?" danger submitText="Cancel job" closeText="Go back" ...${rest}>The worker stops the running handler. Side effects that already happened are not rolled back.<//>`

function Buttons({ jobData, session }) {
  const job = jobData.job.data
  const [asking, setAsking] = useState(null)
  const { busy, cancel, retry } = useActions(job, jobData.reload)
  const isDone = job.status === "succeeded"
  const hasSteps = jobData.timeline.data?.spans.some(({ type }) => type === "step")
  return html`
    <div class="bar job-buttons">
      ${isOver(job) ? html`
        <${Button} icon="retry" strong=${!isDone} disabled=${isDone} busy=${busy} title=${isDone ? "Succeeded jobs cannot be retried." : "Retry this job with a new set of attempts."} onClick=${() => retry()}>Retry<//>
        ${hasSteps && !isDone && html`<${Button} icon="retry" busy=${busy} title="Discard completed steps." onClick=${() => retry(true)}>Retry fresh<//>`}`
        : html`<${Button} icon="stop" busy=${busy} onClick=${() => (isWaiting(job) ? cancel() : setAsking("cancel"))}>Cancel<//>`}
      <${Button} icon="edit" title="Enqueue a new job of this kind with an editable payload." onClick=${() => setAsking("again")}>Run again…<//>
      ${asking === "cancel" && html`<${ConfirmCancel} onSubmit=${cancel} onClose=${() => setAsking(null)} />`}
      ${asking === "again" && html`<${EnqueueDialog} onClose=${() => setAsking(null)} kind=${job.definition_key} payload=${job.payload ?? {}} note=${hasSecrets(job.payload) && "Secrets are masked. Replace every [redacted] value before you enqueue the job."} extra=${{ subject: job.subject ?? "", tenant: session.tenant ?? job.tenant_id }} />`}
    </div>`
}

export const hasSecrets = (value) => JSON.stringify(value ?? null).includes("[redacted]")
