// The event stream of the server. Events are batched so that a page renders a few times a second at most.
import { apiUrl } from "./api.js"
import { useCallback, useEffect, useRef, useState } from "./preact.js"

const FLUSH_INTERVAL_MS = 250
const RELOAD_INTERVAL_MS = 1500
const NAMES = ["job", "log", "worker", "counters", "reset", "overflow"]

let pauseCount = 0
const waiting = new Set()

/** Pauses updates while the user selects rows or text. Returns a function that resumes them. */
export function pauseUpdates() {
  pauseCount += 1
  let done = false
  return () => {
    if (done) return
    done = true
    pauseCount -= 1
    if (!pauseCount) for (const flush of [...waiting]) flush()
  }
}

const isSelecting = () => pauseCount > 0 || !(document.getSelection()?.isCollapsed ?? true)

/**
 * Subscribes to the event stream. `onEvents` gets each batch: {job: [newest state of each], log: [all lines], worker, counters,
 * missed, opened}; `missed`: the page must reload; `opened`: earlier changes were not sent. Returns "live", "paused" or "away".
 */
export function useEventStream(filters, onEvents, { on = true } = {}) {
  const [state, setState] = useState("away")
  const handler = useRef(onEvents)
  handler.current = onEvents
  const visible = usePageVisible()
  const away = useRef(false)
  const url = on && visible ? apiUrl("/stream", filters) : null
  useEffect(() => {
    if (!url) return undefined
    const batch = new EventBatch()
    const source = new EventSource(url)
    let timer = 0
    const flush = () => {
      timer = 0
      if (isSelecting()) {
        setState("paused")
        waiting.add(flush)
        if (!pauseCount) timer = setTimeout(flush, FLUSH_INTERVAL_MS)
        return
      }
      waiting.delete(flush)
      setState("live")
      if (!batch.empty) handler.current(batch.take())
    }
    source.onopen = () => {
      setState("live")
      batch.add(away.current ? "reset" : "opened", {})
      away.current = false
      timer ||= setTimeout(flush, FLUSH_INTERVAL_MS)
    }
    source.onerror = () => setState("away")
    for (const name of NAMES) {
      source.addEventListener(name, (event) => {
        batch.add(name, JSON.parse(event.data))
        timer ||= setTimeout(flush, FLUSH_INTERVAL_MS)
      })
    }
    return () => {
      clearTimeout(timer)
      waiting.delete(flush)
      source.close()
      away.current ||= document.hidden
    }
  }, [url])
  return state
}

/** Whether the page is visible. Browsers allow six HTTP/1.1 connections per host, so hidden tabs close their stream. */
function usePageVisible() {
  const [visible, setVisible] = useState(!document.hidden)
  useEffect(() => {
    const changed = () => setVisible(!document.hidden)
    document.addEventListener("visibilitychange", changed)
    return () => document.removeEventListener("visibilitychange", changed)
  }, [])
  return visible
}

/** Runs `work` immediately, then at most once per interval. */
export function useThrottled(work) {
  const newest = useRef(work)
  newest.current = work
  const timer = useRef(0)
  const requested = useRef(false)
  useEffect(() => () => clearTimeout(timer.current), [])
  return useCallback(() => {
    const run = () => {
      requested.current = false
      newest.current()
      timer.current = setTimeout(() => {
        timer.current = 0
        if (requested.current) run()
      }, RELOAD_INTERVAL_MS)
    }
    requested.current = true
    if (!timer.current) run()
  }, [])
}

class EventBatch {
  constructor() {
    this.clear()
  }

  clear() {
    this.newest = { job: new Map(), worker: new Map() }
    this.log = []
    this.counters = null
    this.missed = false
    this.opened = false
    this.empty = true
  }

  add(name, data) {
    this.empty = false
    if (name === "job" || name === "worker") this.newest[name].set(data.id, data)
    else if (name === "log") this.log.push(data)
    else if (name === "counters") this.counters = data
    else if (name === "opened") this.opened = true
    else this.missed = true
  }

  take() {
    const { newest, log, counters, missed, opened } = this
    this.clear()
    return { job: [...newest.job.values()], worker: [...newest.worker.values()], log, counters, missed, opened }
  }
}
