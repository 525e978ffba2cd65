// The data of the job page, kept up to date by the event stream.
import { api, useApi } from "../api.js"
import { useEffect, useState } from "../lib.js"
import { useLive, useSoon } from "../live.js"

const MOST_LINES = 5000
const FIRST_LINES = 1000

export const isWaiting = (job) => job.status === "queued"
export const isOver = (job) => job.finished_at !== null

/** Changes when more than the progress of the job changes. */
const stage = (job) => [job.status, job.place, job.attempt_count, job.attempt_started_at, job.finished_at, job.worker_id].join()

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
  const soon = useSoon(() => [job, parts, timeline].forEach((each) => each.reload()))
  useEffect(() => { // lease renewals and progress reports send no event
    const timer = running && setInterval(() => document.hidden || job.reload(), 8000)
    return () => clearInterval(timer)
  }, [running])
  const live = useLive({ job: id, log_after: log.from }, ({ job: [changed], log: lines, missed }) => {
    log.add(lines)
    if (changed) job.setData((was) => was && { ...was, ...changed })
    if (missed || (changed && job.data && stage(changed) !== stage(job.data))) reload()
    else if (changed) soon()
  }, { on: log.from !== null })
  const pipelineLive = useRelatives(id, pipeline, timeline)
  return { job, timeline, attempts, parts, artifacts, pipeline, why, lines: log, live, pipelineLive, reload }
}

/** The other jobs of the pipeline, including follow-up jobs in the timeline. */
function useRelatives(id, pipeline, timeline) {
  const related = pipeline.data?.nodes.length > 1
  const soon = useSoon(() => [pipeline, timeline].forEach((each) => each.reload()))
  const state = useLive({ correlation_id: pipeline.data?.correlation_id ?? id, event: "job" }, ({ job: changed, missed }) => {
    const known = new Set(pipeline.data.nodes.map((node) => node.id))
    if (missed || changed.some((each) => !known.has(each.id))) soon()
    const byId = new Map(changed.map((each) => [each.id, each]))
    const merged = (node) => (byId.has(node.id) ? { ...node, ...pick(node, byId.get(node.id)) } : node)
    pipeline.setData((was) => ({ ...was, nodes: was.nodes.map(merged) }))
    timeline.setData((was) => was && { ...was, follow_ups: was.follow_ups.map(merged) })
  }, { on: related })
  useEffect(() => {
    if (state === "live" && related) soon() // changes from before the stream was open
  }, [state === "live"])
  return state
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
      setState((was) => ({ ...was, error }))
    }
  }
  useEffect(() => {
    if (there) load()
  }, [there])
  const add = (more) => more.length && setState((was) => {
    const last = was.lines.at(-1)?.sequence ?? 0
    const lines = [...was.lines, ...more.filter(({ sequence }) => sequence > last)]
    return { ...was, lines: lines.slice(-MOST_LINES), earlier: was.earlier || lines.length > MOST_LINES }
  })
  const readEarlier = async () => {
    const { items } = await read({ before: state.lines[0].sequence })
    setState((was) => ({ ...was, lines: [...items, ...was.lines], earlier: items.length === FIRST_LINES }))
  }
  return { ...state, add, load, readEarlier }
}
