// Differences between two states of an object, field by field.
import { html } from "../lib.js"

/** [[name, before, after]] of the fields that differ; undefined where a field is missing. */
export function differences(before, after) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])]
  return names.filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name])).map((name) => [name, before?.[name], after?.[name]])
}

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, typeof value === "object" ? 1 : 0))

export const Diff = ({ changed }) => html`
  <dl class="diff">${changed.map(([name, before, after]) => html`
    <div key=${name}><dt>${name.replaceAll("_", " ")}</dt>
      <dd>${before !== undefined && before !== null && html`<del>${written(before)}</del>`}${after !== undefined && after !== null && html`<ins>${written(after)}</ins>`}
        ${(after === undefined || after === null) && (before === undefined || before === null) && html`<span class="faint">(empty)</span>`}</dd></div>`)}
  </dl>`
