// Fields for templates: text with {{placeholders}} that completes paths, and the payload of a trigger.
import { html, useEffect, useId, useRef, useState } from "../preact.js"
import { Field, resolve } from "./forms.js"
import { Icon } from "./icons.js"

const MAX_SUGGESTIONS = 8
const OPEN_PLACEHOLDER = /\{\{\s*([\w.-]*)$/
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
function TemplateField({ label, hint, error, value, onChange, paths, rows, ...rest }) {
  const box = useRef(null)
  const list = useId()
  const [typed, setTyped] = useState(null)
  const [at, setAt] = useState(0)
  const found = typed === null ? [] : matching(paths, typed)
  const look = () => {
    const input = box.current
    setTyped(input.selectionStart === input.selectionEnd ? input.value.slice(0, input.selectionStart).match(OPEN_PLACEHOLDER)?.[1] ?? null : null)
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
    const before = input.value.slice(0, input.selectionStart).replace(OPEN_PLACEHOLDER, "")
    const after = input.value.slice(input.selectionStart).replace(/^[\w.-]*\s*(\}\})?/, "")
    caret.current = before.length + path.length + 4
    onChange(`${before}{{${path}}}${after}`)
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
        onInput: (event) => { onChange(event.target.value); look() }, onClick: look, onKeyDown: keys, onBlur: () => setTyped(null),
      }
      return html`${rows ? html`<textarea rows=${rows} ...${common}></textarea>` : html`<input type="text" ...${common} />`}
        <ul id=${list} role="listbox" aria-label="Values" hidden=${!found.length}>${found.map(({ path, about }, index) => html`
          <li key=${path} id=${`${list}-${index}`} role="option" aria-selected=${index === at} onMouseDown=${(event) => { event.preventDefault(); take(path) }}><code>${path}</code><small>${about}</small></li>`)}</ul>`
    }}<//>`
}

function matching(paths, typed) {
  const fits = paths.filter(({ path }) => path.includes(typed) && path !== typed)
  return [...fits.filter(({ path }) => path.startsWith(typed)), ...fits.filter(({ path }) => !path.startsWith(typed))].slice(0, MAX_SUGGESTIONS)
}

// Payload template of a trigger: one field per payload property, or JSON.

export const FieldErrors = ({ errors }) => (errors?.length ? html`
  <ul class="field-errors" role="alert">${errors.map(({ path, message }) => html`<li key=${path + message}><${Icon} name="alert" /><span>${path && html`<code>${path}</code> `}${message}</span></li>`)}</ul>` : null)

/** `onChange(template)`, or `onChange(null)` while the text is not valid JSON. `errors`: {path: message}. */
export function PayloadTemplate({ schema, value, onChange, paths, errors }) {
  const names = [...new Set([...Object.keys(schema?.properties ?? {}), ...Object.keys(value ?? {})])]
  const [asText, setAsText] = useState(names.length === 0)
  return html`
    <div class="schema-form">
      <div class="bar"><h3 class="grow">Payload</h3><div class="switch" role="group" aria-label="Payload editor">
        <button type="button" aria-pressed=${!asText} disabled=${!names.length || value === null} onClick=${() => setAsText(false)}>Form</button>
        <button type="button" aria-pressed=${asText} onClick=${() => setAsText(true)}>JSON</button></div></div>
      ${asText ? html`<${TemplateText} value=${value} onChange=${onChange} paths=${paths} />` : names.map((name) => html`
        <${TemplateProperty} key=${name} name=${name} schema=${resolve(schema?.properties?.[name] ?? {}, schema ?? {})} required=${schema?.required?.includes(name)} value=${value?.[name]} paths=${paths} error=${errors[name]}
          onChange=${(item) => onChange(withField(value, name, item))} />`)}
    </div>`
}

function withField(template, name, item) {
  const { [name]: _, ...rest } = template ?? {}
  return item === undefined ? rest : { ...rest, [name]: item }
}

function TemplateProperty({ name, schema, required, value, onChange, paths, error }) {
  const [text, setText] = useState(toText(value))
  const kinds = schema.enum ? `one of ${schema.enum.join(", ")}` : [schema.type].flat().filter(Boolean).join(" or ")
  const hint = [schema.description, kinds, schema.default !== undefined && `default: ${JSON.stringify(schema.default)}`].filter(Boolean).join(" · ")
  const write = (next) => {
    setText(next)
    onChange(fromText(next, schema))
  }
  return html`<${TemplateField} label=${html`${name}${required ? html` <span class="faint">required</span>` : ""}`} hint=${hint} error=${error} value=${text} onChange=${write} paths=${paths} name=${name} />`
}

const toText = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value))

/** Parses a field: text if the schema wants a string or a placeholder is used, else JSON if it is valid. */
function fromText(text, schema) {
  if (text === "") return undefined
  if (text.includes("{{") || [schema.type].flat().includes("string")) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function TemplateText({ value, onChange, paths }) {
  const [text, setText] = useState(JSON.stringify(value ?? {}, null, 2))
  const [broken, setBroken] = useState(null)
  const write = (next) => {
    setText(next)
    try {
      onChange(JSON.parse(next || "{}"))
      setBroken(null)
    } catch (wrong) {
      setBroken(`Invalid JSON: ${wrong.message}`)
      onChange(null)
    }
  }
  return html`<${TemplateField} label="Template" rows=${9} value=${text} onChange=${write} paths=${paths} error=${broken} hint="Type {{ to insert a value." />`
}
