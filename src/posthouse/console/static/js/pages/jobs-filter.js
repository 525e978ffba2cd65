// Filter of the job list: a field that completes names and values, and status filters with counts.
import { api, useApi } from "../api.js"
import { Button } from "../components/display.js"
import { useFieldText } from "../components/forms.js"
import { Icon } from "../components/icons.js"
import { fieldValues, removeField, setField } from "../filter-query.js"
import { formatCompact, humanize, plural } from "../format.js"
import { html, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../preact.js"
import { link } from "../router.js"

const TYPED_FOR = 80

/** `q` is the current query; `apply(line)` runs another one; `error` is the error of `q`. */
export function FilterBox({ q, apply, error }) {
  const [text, setText, sent] = useFieldText(q)
  const [offered, ask, close] = useSuggestions()
  const [chosen, choose] = useState(null)
  const input = useRef(null)
  const highlight = useRef(null)
  const caret = useRef(null)
  const id = useId()
  useLayoutEffect(() => {
    if (caret.current !== null) input.current.setSelectionRange(caret.current, caret.current)
    caret.current = null
    follow()
  })
  const follow = () => { highlight.current.scrollLeft = input.current.scrollLeft }
  const send = (line) => {
    close()
    sent.current = line.trim()
    setText(sent.current)
    apply(sent.current)
  }
  const write = (line, at) => {
    setText(line)
    choose(null)
    ask(line, at)
  }
  const offer = useMemo(() => rebaseSuggestions(offered, text), [offered, text])
  const items = offer?.items ?? []
  const active = items.findIndex(({ insert }) => insert === chosen)
  const take = ({ insert }) => {
    const line = text.slice(0, offer.from) + insert + text.slice(offer.to)
    caret.current = offer.from + insert.length
    setText(line)
    choose(null)
    input.current.focus()
    // A field name is followed by a value; a value completes a term, so the query can run.
    if (/[:.]$/.test(insert)) ask(line, caret.current)
    else send(line)
  }
  const move = (by) => {
    if (!items.length) ask(text, input.current.selectionStart)
    else choose(items.at((by < 0 ? Math.max(active, 0) - 1 : active + 1) % items.length).insert)
  }
  const keys = (event) => {
    if (event.isComposing) return
    const pick = items[active]
    if (event.key === "ArrowDown") move(1)
    else if (event.key === "ArrowUp" && items.length) move(-1)
    else if (event.key === "Enter") pick ? take(pick) : send(text)
    else if (event.key === "Tab" && !event.shiftKey && (pick ?? (text && items[0]))) take(pick ?? items[0])
    else if (event.key === "Escape" && items.length) close()
    else if (event.key === "Escape") text === q ? input.current.blur() : setText(q)
    else return
    event.preventDefault()
  }
  const wrong = error?.code === "invalid_filter" && text.trim() === q ? error : null
  return html`
    <div class="filter-box" role="search">
      <${Icon} name="search" />
      <input ref=${input} type="text" class="code" data-filter role="combobox" aria-label="Filter jobs" aria-autocomplete="list" aria-expanded=${items.length > 0}
        aria-controls=${`${id}-list`} aria-activedescendant=${active >= 0 ? `${id}-${active}` : undefined} aria-invalid=${wrong ? "true" : undefined} aria-describedby=${wrong ? `${id}-wrong` : undefined}
        placeholder="status:failed kind:ocr created:<2h" autocomplete="off" autocapitalize="off" spellcheck=${false} enterkeyhint="search" value=${text}
        onInput=${(event) => write(event.target.value, event.target.selectionStart)} onKeyDown=${keys} onBlur=${close} onScroll=${follow} onKeyUp=${follow} onPointerUp=${follow} onFocus=${() => text || ask("", 0)} onClick=${() => text || ask("", 0)} />
      <div ref=${highlight} class="filter-highlight code" aria-hidden="true">${coloured(text)}</div>
      ${text ? html`<${Button} plain small icon="close" label="Clear filter" onClick=${() => { send(""); input.current.focus() }} />` : html`<kbd aria-hidden="true">/</kbd>`}
      <ul id=${`${id}-list`} class="suggestions" role="listbox" aria-label="Suggestions" hidden=${!items.length}>
        ${items.map((item, index) => html`
          <${Offer} key=${item.insert} id=${`${id}-${index}`} item=${item} active=${index === active} take=${() => take(item)} />`)}
      </ul>
      <span class="hidden" role="status">${items.length ? plural(items.length, "suggestion") : ""}</span>
      ${wrong && html`<${FilterError} id=${`${id}-wrong`} line=${q} error=${wrong} onFix=${send} />`}
    </div>`
}

const TERMS = /(-?)([\w.-]+:)((?:"(?:[^"\\]|\\.)*"?|[^\s"])*)|\s+|\S+/g

/** The colored query. It lies over the input, which shows only the caret. */
const coloured = (line) => [...line.matchAll(TERMS)].map(([all, not, name, value]) => (name ? html`<i class="not">${not}</i><i class="of">${name}</i>${value}` : all))

function Offer({ id, item, active, take }) {
  const line = useRef(null)
  useEffect(() => { if (active) line.current.scrollIntoView({ block: "nearest" }) }, [active])
  return html`
    <li id=${id} ref=${line} role="option" aria-selected=${active} onMouseDown=${(event) => event.preventDefault()} onClick=${take}>
      <span class="code clip">${item.label}</span><small class="clip">${item.detail}</small>
    </li>`
}

/** The error, its position in the query and a suggested correction. */
function FilterError({ id, line, error, onFix }) {
  const { at = 0, to = line.length, suggestion } = error.body
  const [before, marked, after] = [line.slice(0, at), line.slice(at, to), line.slice(to)]
  return html`
    <div class="filter-error" id=${id} role="alert">
      <code>${before}<mark>${marked || "␣"}</mark>${after}</code> <span>${error.message}</span>
      ${suggestion && html`<${Button} small onClick=${() => onFix(before + suggestion + after)}>Use <code>${suggestion}</code><//>`}
    </div>`
}

/** Adapts suggestions to the current text, which may have changed since the request. Null if they no longer apply. */
function rebaseSuggestions(offered, text) {
  if (!offered) return null
  const { line, from, to, items } = offered
  if (line === text) return offered
  const end = to + text.length - line.length
  if (end < from || text.slice(0, from) !== line.slice(0, from) || text.slice(end) !== line.slice(to)) return null
  const typed = text.slice(from, end).toLowerCase()
  return { from, to: end, items: items.filter(({ insert }) => insert.toLowerCase().startsWith(typed)) }
}

/** [offered, ask(line, at), close]: suggestions for a position in the query, after a pause in typing. */
function useSuggestions() {
  const [offer, setOffer] = useState(null)
  const round = useRef({ timer: 0, control: null })
  const stop = () => {
    clearTimeout(round.current.timer)
    round.current.control?.abort()
  }
  useEffect(() => stop, [])
  const ask = (q, at) => {
    stop()
    round.current.timer = setTimeout(async () => {
      const control = (round.current.control = new AbortController())
      // Suggestions are optional; ignore errors.
      await api.get("/jobs/suggest", { q, at }, control.signal).then((found) => setOffer({ ...found, line: q }), () => {})
    }, TYPED_FOR)
  }
  const close = () => {
    stop()
    setOffer(null)
  }
  return [offer, ask, close]
}

// Status filters with job counts. Counts are bounded, so that they never scan the whole history.

const STATUSES = ["queued", "running", "failed", "dead_letter", "succeeded", "canceled"]

/** `isCountable`: the query is valid and can be counted. */
export function Chips({ q, isCountable }) {
  const rest = removeField(q, "status")
  const counts = useCounts(rest, isCountable)
  const chosen = fieldValues(q, "status") ?? []
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
      ${STATUSES.map((name) => chip(name, humanize(name), chosen.length === 1 && chosen[0] === name ? rest : setField(rest, "status", name)))}
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
        const { count, exact } = await api.get("/jobs/count", { q: status ? setField(rest, "status", status) : rest }, control.signal)
        setFound(({ counts }) => ({ rest, counts: { ...counts, [status]: formatCompact(count) + (exact ? "" : "+") } }))
      }
    }
    each().catch(() => { /* counts stay unknown */ })
    return () => control.abort()
  }, [rest, known])
  if (rest) return found.rest === rest ? found.counts : {}
  const { counts = {}, count_limit: most } = summary.data ?? {}
  return Object.fromEntries(Object.entries(counts).map(([name, number]) => [name, formatCompact(number) + (number >= most ? "+" : "")]))
}
