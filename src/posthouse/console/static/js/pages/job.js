// Job page: summary, timeline, log, data and pipeline.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js"
import { link } from "../router.js"
import { Empty, Failure, Skeleton } from "../ui/basics.js"
import { Attempts } from "./job-attempts.js"
import { Artifacts, Data, Details } from "./job-data.js"
import { Graph } from "./job-graph.js"
import { Head } from "./job-head.js"
import { isWaiting, useJob } from "./job-live.js"
import { Log } from "./job-log.js"
import { Now } from "./job-summary.js"
import { Waterfall } from "./job-timeline.js"

/** Order of the sections by state; the most relevant section comes first. */
const ORDERS = {
  waiting: ["waterfall", "data", "graph", "log", "attempts"],
  running: ["log", "waterfall", "data", "graph", "attempts"],
  failed: ["attempts", "log", "waterfall", "data", "graph"],
  ended: ["data", "waterfall", "graph", "log", "attempts"],
}
const SECTIONS = {
  waterfall: ({ known }) => html`<${Waterfall} timeline=${known.timeline} />`,
  data: ({ known }) => html`<${Data} job=${known.job.data} />`,
  graph: ({ known }) => html`<${Graph} pipeline=${known.pipeline} self=${known.job.data.id} live=${known.pipelineLive} />`,
  log: ({ known }) => html`<${Log} job=${known.job.data} lines=${known.lines} live=${known.live} />`,
  attempts: ({ known, query }) => html`<${Attempts} attempts=${known.attempts.data} timeline=${known.timeline.data} query=${query} />`,
}

export const Job = ({ id, query }) => html`<${OneJob} key=${id} id=${id} query=${query} />`

function OneJob({ id, query }) {
  const known = useJob(id)
  const { data: job, error, reload } = known.job
  useTitle(job)
  if (!job && error && [404, 422].includes(error.status)) return html`<${Missing} />`
  if (!job && error) return html`<${Failure} error=${error} retry=${reload} />`
  if (!job) return html`<div class="card"><${Skeleton} lines=${5} /></div><div class="card"><${Skeleton} height=${220} /></div><div class="card"><${Skeleton} height=${320} /></div>`
  return html`
    <${Head} known=${known} />
    <${Steady} of=${job.status}><${Now} known=${known} /><//>
    <${Sections} known=${known} query=${query} />`
}

/** Sections keep the order that fits the state of the job when the page was opened. */
function Sections({ known, query }) {
  const job = known.job.data
  const [order] = useState(() => ORDERS[orderFor(job)])
  return html`
    ${order.map((name) => html`<${SECTIONS[name]} key=${name} known=${known} query=${query} />`)}
    <${Artifacts} job=${job} artifacts=${known.artifacts.data} />
    <${Details} job=${job} />`
}

const orderFor = (job) => (isWaiting(job) ? "waiting" : job.status === "running" ? "running" : job.error || job.status === "failed" ? "failed" : "ended")

/** Container that never shrinks, so content below does not jump. */
function Steady({ of, children }) {
  const box = useRef(null)
  const seen = useRef({ of, height: 0 })
  const [least, setLeast] = useState(0)
  useLayoutEffect(() => {
    if (seen.current.of !== of) {
      setLeast(seen.current.height)
      seen.current.of = of
    }
    seen.current.height = box.current.offsetHeight
  })
  return html`<div class="job-now" ref=${box} style=${{ minHeight: `${least}px` }}>${children}</div>`
}

function useTitle(job) {
  const text = job && [job.status === "running" && job.progress_percent !== null ? `${Math.floor(job.progress_percent)} %` : job.status.replace("_", " "), job.definition_key].join(" ")
  useEffect(() => {
    if (text) document.title = `${text} · Posthouse`
  }, [text])
}

const Missing = () => html`
  <${Empty} title="Job not found" icon="search" action=${html`<a class="button" href=${link("jobs")}>All jobs</a>`}>
    It may have been deleted by retention, or it belongs to another tenant.
  <//>`
