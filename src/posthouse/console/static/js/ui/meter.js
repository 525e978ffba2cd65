// A meter of used and available capacity, and a list of names as tags.
import { html, useState } from "../lib.js"
import { short } from "../format.js"
import { Tag } from "./basics.js"

const FULL = 0.999

/** `used` of `most`. Highlighted when full; with `rising: false` when empty, as for remaining tokens. */
export function Meter({ used, most, label, rising = true, write = short }) {
  const share = most > 0 ? Math.min(1, used / most) : 1
  const tight = rising ? share : 1 - share
  const tone = tight >= FULL ? "warn" : "accent"
  return html`
    <span class="meter" data-tone=${tone} role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax=${most} aria-valuenow=${Math.min(used, most)} aria-valuetext=${`${write(used)} of ${write(most)}`}>
      <span class="track"><span class="bar" style=${{ width: `${share * 100}%` }}></span></span><span class="figure">${write(used)} of ${write(most)}</span>
    </span>`
}

/** The first names as tags; a button shows the rest. */
export function Names({ names, most = 4, none = "–", tone }) {
  const [all, setAll] = useState(false)
  if (!names?.length) return html`<span class="faint">${none}</span>`
  const shown = all || names.length <= most + 1 ? names : names.slice(0, most)
  return html`<span class="names">${shown.map((name) => html`<${Tag} key=${name} tone=${tone} title=${name}>${name}<//>`)}
    ${shown.length < names.length && html`<button type="button" class="tag more-names" aria-label=${`Show ${names.length - shown.length} more`} onClick=${() => setAll(true)}>+${names.length - shown.length}</button>`}</span>`
}
