// A page of jobs: changes are merged into its rows; new jobs are announced, not inserted.
import { api, apiUrl } from "../api.js"
import { singleValue } from "../filter-query.js"
import { useCallback, useEffect, useRef, useState } from "../preact.js"
import { useEventStream } from "../stream.js"

const SIZE = 50
const FIRST_REFRESH_MS = 300
const LOOKS_EVERY = 2500

/** The last page and its session, restored when the user returns from a job. */
let kept = { session: null, state: null }

const EMPTY_STATE = { key: null, items: null, next: null, partial: false, lookedBackTo: null, error: null }

/** {items, next, partial, lookedBackTo, error, stale, fresh: {count} | null, show(), reload(), live} of a query and a cursor. */
export function useJobs(session, q, after, paused) {
  const key = apiUrl("/jobs", { q, cursor: after, limit: SIZE })
  const known = kept.session === session && kept.state.key === key
  const [state, setState] = useState(() => (known ? kept.state : EMPTY_STATE))
  const [fresh, setFresh] = useState(null)
  const now = useRef(null)
  now.current = { state, key, paused }
  useEffect(() => { if (state.items) kept = { session, state } }, [state])

  const round = useRef(null)
  /** The query for which events came before its page. */
  const early = useRef(null)
  const load = useCallback(async (only) => {
    round.current?.abort()
    const mine = (round.current = new AbortController())
    try {
      const page = await api.get("/jobs", { q, cursor: after, limit: SIZE }, mine.signal)
      if (only === "look" && now.current.state.key === key) look(page)
      else show(page)
    } catch (error) {
      // A failed background refresh keeps the current rows; the status indicator shows the outage.
      if (error.name !== "AbortError" && only !== "look") setState((previous) => ({ ...previous, error }))
    }
  }, [key])
  const show = (page) => {
    setFresh(null)
    setState({ key, items: page.items, next: page.next_cursor, partial: page.partial, lookedBackTo: page.scanned_back_to, error: null })
  }
  /** Merges the jobs that are shown and counts the others. */
  const look = (page) => {
    const shown = now.current.state
    const count = after ? 0 : newJobs(shown, page.items).length
    if (count && !shown.items.length) return show(page)
    setState((previous) => ({ ...merged(previous, page.items), error: null }))
    return setFresh(count ? { count, page } : null)
  }
  useEffect(() => {
    setFresh(null)
    load(known ? "look" : "show")
    return () => round.current?.abort()
  }, [load])

  const lookSoon = useThrottled(() => now.current.paused || document.hidden || load("look"), [key])
  const onEvents = ({ job, missed, opened }) => {
    const { state: shown } = now.current
    if (!shown.items || shown.key !== key) {
      early.current = key
      return
    }
    if (opened && !now.current.paused) load("look")
    setState((previous) => merged(previous, job))
    if (missed || (!after && newJobs(shown, job).length)) lookSoon()
  }
  useEffect(() => {
    if (state.key !== key || early.current !== key) return
    early.current = null
    load("look")
  }, [state.key, key])
  const live = useEventStream({ event: "job", kind: singleValue(q, "kind"), queue: singleValue(q, "queue") }, onEvents)
  return { ...state, stale: state.key !== key, fresh, live, show: () => fresh && show(fresh.page), reload: () => load("show") }
}

/** Jobs that belong on this page but are not shown. Pages are ordered by id, newest first. */
function newJobs({ items, next }, jobs) {
  const shown = new Set(items.map(({ id }) => id))
  const last = next && items.length ? items.at(-1).id : ""
  return jobs.filter(({ id }) => id > last && !shown.has(id))
}

/** Unchanged rows keep their identity. */
function merged(state, jobs) {
  if (!state.items || !jobs.length) return state
  const newer = new Map(jobs.map((job) => [job.id, job]))
  if (!state.items.some(({ id }) => newer.has(id))) return state
  return { ...state, items: state.items.map((row) => newer.get(row.id) ?? row) }
}

/** Runs `work` soon, then at intervals that grow with its duration; again if called while it runs. */
function useThrottled(work, inputs) {
  const plan = useRef({ timer: 0, notBefore: 0 })
  const latest = useRef(work)
  latest.current = work
  useEffect(() => () => {
    clearTimeout(plan.current.timer)
    plan.current = { timer: 0, notBefore: 0 }
  }, inputs)
  const start = () => {
    const { current } = plan
    current.again = current.running
    if (current.timer) return
    current.timer = setTimeout(async () => {
      const began = Date.now()
      current.running = true
      await latest.current()
      current.timer = 0
      current.running = false
      current.notBefore = Date.now() + Math.max(LOOKS_EVERY, 5 * (Date.now() - began))
      if (current.again && current === plan.current) start()
    }, Math.max(FIRST_REFRESH_MS, current.notBefore - Date.now()))
  }
  return start
}
