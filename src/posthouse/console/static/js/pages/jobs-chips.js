// Status filters with job counts. Counts are bounded, so that they never scan the whole history.
import { api, useApi } from "../api.js"
import { html, useEffect, useState } from "../lib.js"
import { valuesOf, without, withTerm } from "../filter.js"
import { short, words } from "../format.js"
import { link } from "../router.js"

const STATUSES = ["queued", "running", "failed", "dead_letter", "succeeded", "canceled"]

/** `known`: the query is valid and can be counted. */
export function Chips({ q, known }) {
  const rest = without(q, "status")
  const counts = useCounts(rest, known)
  const chosen = valuesOf(q, "status") ?? []
  const chip = (name, text, line) => {
    const on = name ? chosen.includes(name) : chosen.length === 0
    return html`
      <a key=${name} class="chip" href=${link("jobs", { q: line })} aria-current=${on ? "true" : undefined}>
        ${name ? html`<span class="status" data-status=${name}>${text}</span>` : text}${counts[name] && html` <span class="figure">${counts[name]}</span>`}
      </a>`
  }
  return html`
    <nav class="status-chips" aria-label="Jobs by status" data-stay>
      ${chip("", "All", rest)}
      ${STATUSES.map((name) => chip(name, words(name), chosen.length === 1 && chosen[0] === name ? rest : withTerm(rest, "status", name)))}
    </nav>`
}

/** {status: text}, "" for all. Without another filter one polled request; with one, a request per status. */
function useCounts(rest, known) {
  const summary = useApi(rest ? null : "/jobs/summary", {}, { every: 10_000 })
  const [found, setFound] = useState({ rest: "", counts: {} })
  useEffect(() => {
    if (!rest || !known) return undefined
    const control = new AbortController()
    setFound({ rest, counts: {} })
    const each = async () => {
      for (const status of ["", ...STATUSES]) {
        const { count, exact } = await api.get("/jobs/count", { q: status ? withTerm(rest, "status", status) : rest }, control.signal)
        setFound(({ counts }) => ({ rest, counts: { ...counts, [status]: short(count) + (exact ? "" : "+") } }))
      }
    }
    each().catch(() => { /* counts stay unknown */ })
    return () => control.abort()
  }, [rest, known])
  if (rest) return found.rest === rest ? found.counts : {}
  const { counts = {}, counted_up_to: most } = summary.data ?? {}
  return Object.fromEntries(Object.entries(counts).map(([name, number]) => [name, short(number) + (number >= most ? "+" : "")]))
}
