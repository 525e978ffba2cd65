// Small components that all pages share.
import { duration, formatCompact, formatDateTime, humanize, relative, shortId } from "../format.js"
import { TERMS } from "../glossary.js"
import { cls, html, useEffect, useRef, useState } from "../preact.js"
import { link } from "../router.js"
import { Icon } from "./icons.js"

/** `strong`: the primary action, `danger`: a destructive one, `plain`: no border. `label`: name of an icon-only button. */
export function Button({ children, icon, label, strong, danger, plain, small, busy, class: more, ...rest }) {
  const names = cls("button", strong && "strong", danger && "danger", plain && "plain", small && "small", !children && "only-icon", more)
  return html`
    <button type="button" class=${names} aria-label=${label} title=${label} aria-busy=${busy || undefined} ...${rest} disabled=${busy || rest.disabled}>
      ${icon && html`<${Icon} name=${icon} />`}${children && html`<span>${children}</span>`}
    </button>`
}

export const Status = ({ status }) => html`<span class="status" data-status=${status}>${humanize(status)}</span>`

export const Tag = ({ children, tone, ...rest }) => html`<span class="tag" data-tone=${tone} ...${rest}>${children}</span>`

/** One timer updates all relative times, so the page is laid out at most once a second. */
const counting = new Set()
setInterval(() => { if (!document.hidden) for (const tell of counting) tell() }, 1000)

/** Renders again when the text of `write` changes; never without `write`. */
function useTicker(write) {
  const [, show] = useState("")
  const latest = useRef(write)
  latest.current = write
  useEffect(() => {
    if (!latest.current) return undefined
    const tell = () => { if (latest.current) show(latest.current()) } // effects are cleaned up after the render
    counting.add(tell)
    return () => counting.delete(tell)
  }, [Boolean(write)])
}

/** A relative time, with the exact time as tooltip. */
export function Time({ at, placeholder = "–" }) {
  useTicker(at && (() => relative(at)))
  return at ? html`<time datetime=${at} title=${formatDateTime(at)}>${relative(at)}</time>` : html`<span class="faint">${placeholder}</span>`
}

/** Seconds since `from`; counts up until `to`. */
export function Elapsed({ from, to }) {
  const write = () => duration((new Date(to ?? Date.now()) - new Date(from)) / 1000)
  useTicker(from && !to && write)
  return html`<span class="figure">${from ? write() : "–"}</span>`
}

/** State of the event stream. */
export const StreamStatus = ({ state }) => html`<span class="live" data-state=${state}><i></i>${{ live: "live", paused: "paused during selection", away: "connecting" }[state]}</span>`

export function Progress({ percent, label = "Progress", tone }) {
  if (percent === null || percent === undefined) return html`<span class="faint">–</span>`
  const shown = Math.max(0, Math.min(100, percent))
  return html`
    <span class="progress" data-tone=${tone} role="progressbar" aria-label=${label} aria-valuenow=${Math.round(shown)} aria-valuemin="0" aria-valuemax="100">
      <span class="track"><span class="bar" style=${{ width: `${shown}%` }}></span></span><span class="figure">${Math.floor(shown)} %</span>
    </span>`
}

export const JobLink = ({ id, children }) => html`<a class="id" href=${link(`jobs/${id}`)} title=${id}>${children ?? shortId(id)}</a>`

/** Link to the parent page. */
export const BackLink = ({ href, children }) => html`<p><a class="back" href=${href}><${Icon} name="left" />${children}</a></p>`

/** Empty state: what will appear here and how to create the first one. `command` can be copied. */
export function EmptyState({ title, icon = "info", command, action, children }) {
  return html`
    <div class="empty">
      <${Icon} name=${icon} /><h2>${title}</h2>${children && html`<p>${children}</p>`}
      ${command && html`<${Snippet} text=${command} />`}${action}
    </div>`
}

export function ErrorBanner({ error, onRetry }) {
  return html`
    <div class="failure" role="alert"><${Icon} name="alert" />
      <div><b>${error.message}</b>${error.errors?.map((each) => html`<p>${each.field ?? each.path ?? ""} ${each.message}</p>`)}</div>
      ${onRetry && html`<${Button} small icon="retry" onClick=${onRetry}>Try again<//>`}
    </div>`
}

/** Placeholder of loading content, as high as the content. */
export const Skeleton = ({ lines = 6, height }) => html`
  <div class="skeleton" aria-busy="true" aria-label="Loading" style=${height && { height: `${height}px` }}>
    ${height ? html`<span></span>` : Array.from({ length: lines }, (_, index) => html`<span key=${index}></span>`)}
  </div>`

/** The error of a request, its placeholder, or the children with its data. */
export function AsyncContent({ request, lines, height, children }) {
  if (request.error && !request.data) return html`<${ErrorBanner} error=${request.error} onRetry=${request.reload} />`
  if (!request.data) return html`<${Skeleton} lines=${lines} height=${height} />`
  return children(request.data)
}

export function CopyButton({ text, label = "Copy" }) {
  const [done, setDone] = useState(false)
  const timer = useRef(0)
  useEffect(() => () => clearTimeout(timer.current), [])
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === "function" ? text() : text)
    setDone(true)
    timer.current = setTimeout(() => setDone(false), 1500)
  }
  return html`<${Button} plain small icon=${done ? "check" : "copy"} label=${done ? "Copied" : label} onClick=${copy} />`
}

export const Snippet = ({ text }) => html`<div class="snippet"><code>${text}</code><${CopyButton} text=${text} /></div>`

export function Card({ title, aside, children, class: more, ...rest }) {
  return html`
    <section class=${cls("card", more)} ...${rest}>
      ${(title || aside) && html`<header><h2>${title}</h2><div class="aside">${aside}</div></header>`}
      ${children}
    </section>`
}

/** A number with its name. */
export function StatTile({ name, value, hint, tone, href }) {
  const inside = html`<dt title=${meaningOf(name)}>${name}</dt><dd data-tone=${tone}>${value}</dd>`
  const below = hint && html`<small>${hint}</small>`
  return href ? html`<a class="tile" href=${href}><dl>${inside}</dl>${below}</a>` : html`<div class="tile"><dl>${inside}</dl>${below}</div>`
}

export function Tabs({ tabs, current, label }) {
  const bar = useRef(null)
  useEffect(() => bar.current.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [current])
  return html`
    <nav ref=${bar} class="tabs" aria-label=${label} data-stay>
      ${tabs.map(({ name, text, href, count }) => html`
        <a key=${name} href=${href} aria-current=${name === current ? "page" : undefined}>${text}${count !== undefined && html` <span class="faint figure">${count}</span>`}</a>`)}
    </nav>`
}

export const DescriptionList = ({ items }) => html`
  <dl class="facts">${items.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false).map(([name, value]) => html`
    <div key=${name}><dt title=${meaningOf(name)}>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`

// A meter of used and available capacity, and a list of names as tags.

const FULL = 0.999

/** `used` of `max`. Highlighted when full; with `warnWhenFull: false` when empty, as for remaining tokens. */
export function Meter({ used, max, label, warnWhenFull = true, format = formatCompact }) {
  const share = max > 0 ? Math.min(1, used / max) : 1
  const tight = warnWhenFull ? share : 1 - share
  const tone = tight >= FULL ? "warn" : "accent"
  return html`
    <span class="meter" data-tone=${tone} role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax=${max} aria-valuenow=${Math.min(used, max)} aria-valuetext=${`${format(used)} of ${format(max)}`}>
      <span class="track"><span class="bar" style=${{ width: `${share * 100}%` }}></span></span><span class="figure">${format(used)} of ${format(max)}</span>
    </span>`
}

/** The first names as tags; a button shows the rest. */
export function TagList({ names, max = 4, placeholder = "–", tone }) {
  const [all, setAll] = useState(false)
  if (!names?.length) return html`<span class="faint">${placeholder}</span>`
  const shown = all || names.length <= max + 1 ? names : names.slice(0, max)
  return html`<span class="names">${shown.map((name) => html`<${Tag} key=${name} tone=${tone} title=${name}>${name}<//>`)}
    ${shown.length < names.length && html`<button type="button" class="tag more-names" aria-label=${`Show ${names.length - shown.length} more`} onClick=${() => setAll(true)}>+${names.length - shown.length}</button>`}</span>`
}

// Responsive table: rows become cards on narrow screens.

/**
 * `columns`: [{name, text, cell(row), align, wide, hidden}], the first names the row. `selection`: {has(row), all, toggle(row), toggleAll()}.
 * `rowKey(row)` identifies a row across updates.
 */
export function Table({ columns, rows, rowKey, selection, label, rowClass, faint }) {
  return html`
    <div class=${cls("table-box", faint && "stale")} tabindex="0" role="region" aria-label=${label}>
      <table aria-label=${label}>
        <thead><tr>
          ${selection && html`<th class="pick"><input type="checkbox" aria-label="Select all on this page" checked=${selection.all} onChange=${selection.toggleAll} /></th>`}
          ${columns.map(({ name, text, align, wide }) => html`<th key=${name} scope="col" data-align=${align} class=${cls(wide && "wide")} title=${meaningOf(text)}>${text}</th>`)}
        </tr></thead>
        <tbody>
          ${rows.map((row) => html`
            <tr key=${rowKey(row)} class=${rowClass?.(row)} data-key=${rowKey(row)}>
              ${selection && html`<td class="pick"><input type="checkbox" aria-label=${`Select ${rowKey(row)}`} checked=${selection.has(row)} onChange=${() => selection.toggle(row)} /></td>`}
              ${columns.map(({ name, text, cell, align, wide }) => html`<td key=${name} data-label=${text} data-align=${align} class=${cls(wide && "wide")}>${cell(row)}</td>`)}
            </tr>`)}
        </tbody>
      </table>
    </div>`
}

// JSON viewer: colored by type, long values collapsed.

const MAX_TEXT_LENGTH = 200

export function Json({ value, label = "JSON", copy = true }) {
  return html`<div class="json" role="group" aria-label=${label}>${copy && html`<${CopyButton} text=${() => JSON.stringify(value, null, 2)} label=${`Copy ${label}`} />`}<pre><${Value} value=${value} depth=${0} /></pre></div>`
}

function Value({ value, depth }) {
  if (value === null) return html`<span class="j-null">null</span>`
  if (typeof value === "string") return html`<${Text} text=${value} />`
  if (typeof value !== "object") return html`<span class="j-number">${String(value)}</span>`
  return html`<${Branch} value=${value} depth=${depth} />`
}

function Text({ text }) {
  const [whole, setWhole] = useState(text.length <= MAX_TEXT_LENGTH)
  const shown = whole ? text : text.slice(0, MAX_TEXT_LENGTH)
  return html`<span class="j-text">${JSON.stringify(shown)}</span>${!whole && html`<button type="button" class="j-more" onClick=${() => setWhole(true)}>… ${text.length - MAX_TEXT_LENGTH} more</button>`}`
}

function Branch({ value, depth }) {
  const list = Array.isArray(value)
  const entries = list ? value.map((item) => [null, item]) : Object.entries(value)
  const [open, setOpen] = useState(depth < 3 && entries.length <= 50)
  const [first, last] = list ? "[]" : "{}"
  if (!entries.length) return html`<span>${first}${last}</span>`
  if (!open) return html`<button type="button" class="j-more" onClick=${() => setOpen(true)}>${first}${entries.length} ${list ? "items" : "fields"}${last}</button>`
  const inner = "  ".repeat(depth + 1)
  return html`${first}${entries.map(([name, item], index) => html`<span key=${index}>${"\n"}${inner}${name !== null && html`<span class="j-name">${JSON.stringify(name)}</span>: `}<${Value} value=${item} depth=${depth + 1} />${index < entries.length - 1 ? "," : ""}</span>`)}${"\n"}${"  ".repeat(depth)}${last}`
}

// Tooltips for labels that are terms of the glossary.

const ALIASES = {
  capabilities: "capability", crashes: "crash", "job kind": "kind", "last heartbeat": "heartbeat", "lease expires": "lease", "masked fields": "redaction",
  requires: "capability", prefers: "capability", "max attempts": "attempt", "failed attempts": "attempt",
}

/** The definition of a label, singular or plural, or undefined. */
export function meaningOf(label) {
  if (typeof label !== "string") return undefined
  const name = label.toLowerCase()
  return TERMS[ALIASES[name] ?? name] ?? TERMS[name.replace(/s$/, "")]
}
