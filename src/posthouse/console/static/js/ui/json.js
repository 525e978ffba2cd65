// JSON viewer: colored by type, long values collapsed.
import { html, useState } from "../lib.js"
import { Copy } from "./basics.js"

const MOST = 200

export function Json({ value, label = "JSON", copy = true }) {
  return html`<div class="json" role="group" aria-label=${label}>${copy && html`<${Copy} text=${() => JSON.stringify(value, null, 2)} label=${`Copy ${label}`} />`}<pre><${Value} value=${value} depth=${0} /></pre></div>`
}

function Value({ value, depth }) {
  if (value === null) return html`<span class="j-null">null</span>`
  if (typeof value === "string") return html`<${Text} text=${value} />`
  if (typeof value !== "object") return html`<span class="j-number">${String(value)}</span>`
  return html`<${Branch} value=${value} depth=${depth} />`
}

function Text({ text }) {
  const [whole, setWhole] = useState(text.length <= MOST)
  const shown = whole ? text : text.slice(0, MOST)
  return html`<span class="j-text">${JSON.stringify(shown)}</span>${!whole && html`<button type="button" class="j-more" onClick=${() => setWhole(true)}>… ${text.length - MOST} more</button>`}`
}

function Branch({ value, depth }) {
  const list = Array.isArray(value)
  const entries = list ? value.map((item) => [null, item]) : Object.entries(value)
  const [open, setOpen] = useState(depth < 3 && entries.length <= 50)
  const [first, last] = list ? "[]" : "{}"
  if (!entries.length) return html`<span>${first}${last}</span>`
  if (!open) return html`<button type="button" class="j-more" onClick=${() => setOpen(true)}>${first}${entries.length} ${list ? "items" : "fields"}${last}</button>`
  const inner = "  ".repeat(depth + 1)
  return html`${first}${entries.map(([name, item], place) => html`<span key=${place}>${"\n"}${inner}${name !== null && html`<span class="j-name">${JSON.stringify(name)}</span>: `}<${Value} value=${item} depth=${depth + 1} />${place < entries.length - 1 ? "," : ""}</span>`)}${"\n"}${"  ".repeat(depth)}${last}`
}
