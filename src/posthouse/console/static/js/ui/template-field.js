// Text field for templates with {{placeholders}}; completes the available paths.
import { html, useEffect, useId, useRef, useState } from "../lib.js"
import { Field } from "./fields.js"

const MOST = 8
const BEGUN = /\{\{\s*([\w.-]*)$/
const NAME = /^[\w-]+$/

/** [{path, about}] of all values in a JSON value, outer ones first. */
export function pathsIn(value, path, most = 150) {
  const found = [{ path, about: typeof value === "object" && value !== null ? (Array.isArray(value) ? "list" : "object") : JSON.stringify(value) }]
  if (typeof value === "object" && value !== null) {
    for (const [name, item] of Object.entries(value)) {
      if (found.length >= most) break
      if (NAME.test(name)) found.push(...pathsIn(item, `${path}.${name}`, most - found.length))
    }
  }
  return found
}

/** `paths`: [{path, about}]. With `rows` it is a text area. */
export function TemplateField({ label, hint, error, value, change, paths, rows, ...rest }) {
  const box = useRef(null)
  const list = useId()
  const [typed, setTyped] = useState(null)
  const [at, setAt] = useState(0)
  const found = typed === null ? [] : matching(paths, typed)
  const look = () => {
    const input = box.current
    setTyped(input.selectionStart === input.selectionEnd ? input.value.slice(0, input.selectionStart).match(BEGUN)?.[1] ?? null : null)
    setAt(0)
  }
  const caret = useRef(null)
  useEffect(() => {
    if (caret.current === null) return
    box.current.setSelectionRange(caret.current, caret.current)
    caret.current = null
  }, [value])
  const take = (path) => {
    const input = box.current
    const before = input.value.slice(0, input.selectionStart).replace(BEGUN, "")
    const after = input.value.slice(input.selectionStart).replace(/^[\w.-]*\s*(\}\})?/, "")
    caret.current = before.length + path.length + 4
    change(`${before}{{${path}}}${after}`)
    setTyped(null)
    input.focus()
  }
  const keys = (event) => {
    if (!found.length) return
    const moves = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (moves) setAt((at + moves + found.length) % found.length)
    else if (event.key === "Enter" || event.key === "Tab") take(found[at].path)
    else if (event.key === "Escape") setTyped(null)
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  return html`
    <${Field} label=${label} hint=${hint} error=${error} class="template">${(given) => {
      const common = {
        ...given, ...rest, ref: box, class: "code", value: value ?? "", spellcheck: false, autocomplete: "off", role: "combobox", "aria-autocomplete": "list",
        "aria-expanded": found.length > 0, "aria-controls": list, "aria-activedescendant": found.length ? `${list}-${at}` : undefined,
        onInput: (event) => { change(event.target.value); look() }, onClick: look, onKeyDown: keys, onBlur: () => setTyped(null),
      }
      return html`${rows ? html`<textarea rows=${rows} ...${common}></textarea>` : html`<input type="text" ...${common} />`}
        <ul id=${list} role="listbox" aria-label="Values" hidden=${!found.length}>${found.map(({ path, about }, place) => html`
          <li key=${path} id=${`${list}-${place}`} role="option" aria-selected=${place === at} onMouseDown=${(event) => { event.preventDefault(); take(path) }}><code>${path}</code><small>${about}</small></li>`)}</ul>`
    }}<//>`
}

function matching(paths, typed) {
  const fits = paths.filter(({ path }) => path.includes(typed) && path !== typed)
  return [...fits.filter(({ path }) => path.startsWith(typed)), ...fits.filter(({ path }) => !path.startsWith(typed))].slice(0, MOST)
}
