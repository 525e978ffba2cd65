// The event stream of the server. Events are batched so that a page renders a few times a second at most.
import { address } from "./api.js"
import { useCallback, useEffect, useRef, useState } from "./lib.js"

const GATHERED_FOR = 250
const AGAIN_AFTER = 1500
const NAMES = ["job", "log", "worker", "counters", "reset", "overflow"]

let held = 0
const waiting = new Set()

/** Pauses updates while the user selects rows or text. Returns a function that resumes them. */
export function hold() {
  held += 1
  let done = false
  return () => {
    if (done) return
    done = true
    held -= 1
    if (!held) for (const flush of [...waiting]) flush()
  }
}

const selecting = () => held > 0 || !(document.getSelection()?.isCollapsed ?? true)

/**
 * Subscribes to the event stream. `told` gets each batch: {job: [newest state of each], log: [all lines], worker, counters,
 * missed, opened}; `missed`: the page must reload; `opened`: earlier changes were not sent. Returns "live", "paused" or "away".
 */
export function useLive(wanted, told, { on = true } = {}) {
  const [state, setState] = useState("away")
  const handler = useRef(told)
  handler.current = told
  const seen = useSeen()
  const away = useRef(false)
  const url = on && seen ? address("/stream", wanted) : null
  useEffect(() => {
    if (!url) return undefined
    const gathered = new Gathered()
    const source = new EventSource(url)
    let timer = 0
    const flush = () => {
      timer = 0
      if (selecting()) {
        setState("paused")
        waiting.add(flush)
        if (!held) timer = setTimeout(flush, GATHERED_FOR)
        return
      }
      waiting.delete(flush)
      setState("live")
      if (!gathered.empty) handler.current(gathered.take())
    }
    source.onopen = () => {
      setState("live")
      gathered.add(away.current ? "reset" : "opened", {})
      away.current = false
      timer ||= setTimeout(flush, GATHERED_FOR)
    }
    source.onerror = () => setState("away")
    for (const name of NAMES) {
      source.addEventListener(name, (event) => {
        gathered.add(name, JSON.parse(event.data))
        timer ||= setTimeout(flush, GATHERED_FOR)
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
function useSeen() {
  const [seen, setSeen] = useState(!document.hidden)
  useEffect(() => {
    const changed = () => setSeen(!document.hidden)
    document.addEventListener("visibilitychange", changed)
    return () => document.removeEventListener("visibilitychange", changed)
  }, [])
  return seen
}

/** Runs `work` immediately, then at most once per interval. */
export function useSoon(work) {
  const newest = useRef(work)
  newest.current = work
  const timer = useRef(0)
  const wanted = useRef(false)
  useEffect(() => () => clearTimeout(timer.current), [])
  return useCallback(() => {
    const run = () => {
      wanted.current = false
      newest.current()
      timer.current = setTimeout(() => {
        timer.current = 0
        if (wanted.current) run()
      }, AGAIN_AFTER)
    }
    wanted.current = true
    if (!timer.current) run()
  }, [])
}

class Gathered {
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
