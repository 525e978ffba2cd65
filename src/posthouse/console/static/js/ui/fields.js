// Form fields with label, hint and error, and a search field that is part of the URL.
import { cls, html, useEffect, useId, useRef, useState } from "../lib.js"
import { setQuery } from "../router.js"
import { meaningOf } from "./terms.js"

export function Field({ label, hint, error, children, class: more }) {
  const id = useId()
  const about = error || hint ? `${id}-about` : undefined
  return html`
    <div class=${cls("field", error && "wrong", more)}>
      <label for=${id} title=${meaningOf(label)}>${label}</label>
      ${children({ id, "aria-describedby": about, "aria-invalid": error ? "true" : undefined })}
      ${(error || hint) && html`<small id=${about}>${error || hint}</small>`}
    </div>`
}

export const TextField = ({ label, hint, error, value, change, ...rest }) => html`
  <${Field} label=${label} hint=${hint} error=${error}>${(given) => html`<input type="text" autocomplete="off" spellcheck=${false} ...${given} ...${rest} value=${value ?? ""} onInput=${(event) => change(event.target.value)} />`}<//>`

export const NumberField = ({ label, hint, error, value, change, ...rest }) => html`
  <${Field} label=${label} hint=${hint} error=${error}>${(given) => html`<input type="number" step="any" ...${given} ...${rest} value=${value ?? ""} onInput=${(event) => change(event.target.value === "" ? null : Number(event.target.value))} />`}<//>`

export const AreaField = ({ label, hint, error, value, change, rows = 6, ...rest }) => html`
  <${Field} label=${label} hint=${hint} error=${error}>${(given) => html`<textarea rows=${rows} spellcheck=${false} class="code" ...${given} ...${rest} value=${value ?? ""} onInput=${(event) => change(event.target.value)}></textarea>`}<//>`

/** `options`: [[value, text]]. */
export const SelectField = ({ label, hint, error, value, change, options, ...rest }) => html`
  <${Field} label=${label} hint=${hint} error=${error}>${(given) => html`
    <select ...${given} ...${rest} value=${value ?? ""} onChange=${(event) => change(event.target.value)}>
      ${options.map(([each, text]) => html`<option key=${each} value=${each}>${text ?? each}</option>`)}
    </select>`}<//>`

export const CheckField = ({ label, hint, value, change }) => {
  const id = useId()
  return html`<div class="field check"><input id=${id} type="checkbox" checked=${Boolean(value)} onChange=${(event) => change(event.target.checked)} /><label for=${id}>${label}</label>${hint && html`<small>${hint}</small>`}</div>`
}

// Search field whose text is put into the URL after a pause in typing.

const PAUSE = 250

/** `name` is the query parameter; `filter` makes "/" focus this field. */
export function QueryField({ name, label, value = "", options = [], filter }) {
  const [text, setText] = useState(value)
  const id = useId()
  const timer = useRef(0)
  useEffect(() => setText(value), [value])
  useEffect(() => () => clearTimeout(timer.current), [])
  const write = (next) => {
    setText(next)
    clearTimeout(timer.current)
    timer.current = setTimeout(() => setQuery({ [name]: next.trim() || null }, { replace: true }), PAUSE)
  }
  return html`
    <label class="query"><span class="hidden">${label}</span>
      <input type="search" placeholder=${label} autocomplete="off" spellcheck=${false} value=${text} list=${options.length ? id : undefined} data-filter=${filter || undefined} onInput=${(event) => write(event.target.value)} />
      ${options.length > 0 && html`<datalist id=${id}>${options.map((each) => html`<option key=${each} value=${each} />`)}</datalist>`}
    </label>`
}
