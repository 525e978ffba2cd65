// Form fields with label, hint and error, and a search field that is part of the URL.
import { cls, html, useEffect, useId, useLayoutEffect, useRef, useState } from "../preact.js"
import { setQuery } from "../router.js"
import { meaningOf } from "./display.js"

export function Field({ label, hint, error, children, class: more }) {
  const id = useId()
  const about = error || hint ? `${id}-about` : undefined
  return html`
    <div class=${cls("field", error && "invalid", more)}>
      <label for=${id} title=${meaningOf(label)}>${label}</label>
      ${children({ id, "aria-describedby": about, "aria-invalid": error ? "true" : undefined })}
      ${(error || hint) && html`<small id=${about}>${error || hint}</small>`}
    </div>`
}

export const TextField = ({ label, hint, error, value, onChange, ...rest }) => html`
  <${Field} label=${label} hint=${hint} error=${error}>${(given) => html`<input type="text" autocomplete="off" spellcheck=${false} ...${given} ...${rest} value=${value ?? ""} onInput=${(event) => onChange(event.target.value)} />`}<//>`

export const NumberField = ({ label, hint, error, value, onChange, ...rest }) => html`
  <${Field} label=${label} hint=${hint} error=${error}>${(given) => html`<input type="number" step="any" ...${given} ...${rest} value=${value ?? ""} onInput=${(event) => onChange(event.target.value === "" ? null : Number(event.target.value))} />`}<//>`

const TextAreaField = ({ label, hint, error, value, onChange, rows = 6, ...rest }) => html`
  <${Field} label=${label} hint=${hint} error=${error}>${(given) => html`<textarea rows=${rows} spellcheck=${false} class="code" ...${given} ...${rest} value=${value ?? ""} onInput=${(event) => onChange(event.target.value)}></textarea>`}<//>`

/** `options`: [[value, text]]. */
export const SelectField = ({ label, hint, error, value, onChange, options, ...rest }) => html`
  <${Field} label=${label} hint=${hint} error=${error}>${(given) => html`
    <select ...${given} ...${rest} value=${value ?? ""} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(([each, text]) => html`<option key=${each} value=${each}>${text ?? each}</option>`)}
    </select>`}<//>`

export const CheckField = ({ label, hint, value, onChange }) => {
  const id = useId()
  return html`<div class="field check"><input id=${id} type="checkbox" checked=${Boolean(value)} onChange=${(event) => onChange(event.target.checked)} /><label for=${id}>${label}</label>${hint && html`<small>${hint}</small>`}</div>`
}

/**
 * [text, setText, sent]: the text of a field whose `value` is in the URL. The field puts what it writes there into
 * `sent.current`, so that this change does not undo what was typed since.
 */
export function useFieldText(value) {
  const [text, setText] = useState(value)
  const sent = useRef(value)
  useLayoutEffect(() => {
    if (value !== sent.current) setText(value)
    sent.current = value
  }, [value])
  return [text, setText, sent]
}

// Search field whose text is put into the URL after a pause in typing.

const DEBOUNCE_MS = 250

/** `name` is the query parameter; `filter` makes "/" focus this field. */
export function QueryField({ name, label, value = "", options = [], filter }) {
  const [text, setText, sent] = useFieldText(value)
  const id = useId()
  const timer = useRef(0)
  useEffect(() => () => clearTimeout(timer.current), [])
  const write = (next) => {
    setText(next)
    clearTimeout(timer.current)
    timer.current = setTimeout(() => {
      sent.current = next.trim()
      setQuery({ [name]: sent.current || null }, { replace: true })
    }, DEBOUNCE_MS)
  }
  return html`
    <label class="query"><span class="hidden">${label}</span>
      <input type="search" placeholder=${label} autocomplete="off" spellcheck=${false} value=${text} list=${options.length ? id : undefined} data-filter=${filter || undefined} onInput=${(event) => write(event.target.value)} />
      ${options.length > 0 && html`<datalist id=${id}>${options.map((each) => html`<option key=${each} value=${each} />`)}</datalist>`}
    </label>`
}

// A form generated from a JSON Schema: fields where possible, JSON text for the rest. The server validates it again.

/** The initial payload: the defaults of the schema. */
export function defaultsOf(schema) {
  const entries = Object.entries(schema?.properties ?? {}).filter(([, each]) => each.default !== undefined)
  return Object.fromEntries(entries.map(([name, each]) => [name, each.default]))
}

/**
 * `value` is the payload, `onChange(payload)` gets each new one; `onChange(null, error)` if the text is not valid JSON.
 * `errors`: {path: message} as returned by the server.
 */
export function SchemaForm({ schema, value, onChange, errors = {} }) {
  const fields = Object.entries(schema?.properties ?? {})
  const [asText, setAsText] = useState(fields.length === 0)
  return html`
    <div class="schema-form">
      ${fields.length > 0 && html`<div class="switch" role="group" aria-label="Payload editor">
        <button type="button" aria-pressed=${!asText} onClick=${() => setAsText(false)}>Form</button>
        <button type="button" aria-pressed=${asText} onClick=${() => setAsText(true)}>JSON</button></div>`}
      ${asText ? html`<${JsonField} label="Payload" value=${value} onChange=${onChange} error=${errors[""]} />` : fields.map(([name, each]) => html`
        <${Property} key=${name} name=${name} schema=${resolve(each, schema)} required=${schema.required?.includes(name)} value=${value?.[name]} error=${errors[name]}
          onChange=${(item) => onChange(withField(value, name, item))} />`)}
    </div>`
}

function withField(value, name, item) {
  const { [name]: _, ...rest } = value ?? {}
  return item === undefined || item === null ? rest : { ...rest, [name]: item }
}

/** Resolves a `$ref` to another schema of the same document. */
export function resolve(schema, root) {
  const name = schema.$ref?.match(/^#\/\$defs\/(.+)$/)?.[1]
  const found = name ? { ...root.$defs?.[name], ...schema } : schema
  const real = found.anyOf?.filter((each) => each.type !== "null")
  return real?.length === 1 ? { ...found, ...resolve(real[0], root) } : found
}

function Property({ name, schema, required, value, error, onChange }) {
  const label = html`${schema.title ?? name}${required ? html` <span class="faint">required</span>` : ""}`
  const hint = [schema.description, range(schema)].filter(Boolean).join(" · ")
  const common = { label, hint, error, value, "aria-required": required ? "true" : undefined, name }
  if (schema.enum) {
    const options = [["", "–"], ...schema.enum.map((each) => [JSON.stringify(each), String(each)])]
    return html`<${SelectField} ...${common} value=${value === undefined ? "" : JSON.stringify(value)} options=${options} onChange=${(text) => onChange(text === "" ? undefined : JSON.parse(text))} />`
  }
  if (schema.type === "boolean") return html`<${CheckField} ...${common} onChange=${onChange} />`
  if (schema.type === "integer" || schema.type === "number") return html`<${NumberField} ...${common} min=${schema.minimum} max=${schema.maximum} step=${schema.type === "integer" ? 1 : "any"} onChange=${onChange} />`
  if (schema.type === "string") return html`<${TextField} ...${common} maxlength=${schema.maxLength} onChange=${(text) => onChange(text === "" && !required ? undefined : text)} />`
  return html`<${JsonField} ...${common} rows=${3} onChange=${onChange} />`
}

function range({ minimum, maximum, pattern, format, default: standard }) {
  return [minimum !== undefined && `at least ${minimum}`, maximum !== undefined && `at most ${maximum}`, format, pattern && `pattern: ${pattern}`,
    standard !== undefined && standard !== null && `default: ${JSON.stringify(standard)}`].filter(Boolean).join(" · ")
}

/** JSON as text, which may be invalid while it is edited. */
export function JsonField({ value, onChange, error, rows = 8, ...rest }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2))
  const [broken, setBroken] = useState(null)
  const write = (next) => {
    setText(next)
    try {
      onChange(next.trim() === "" ? undefined : JSON.parse(next))
      setBroken(null)
    } catch (wrong) {
      setBroken(`Invalid JSON: ${wrong.message}`)
      onChange(null, wrong)
    }
  }
  return html`<${TextAreaField} ...${rest} rows=${rows} value=${text} onChange=${write} error=${broken ?? error} />`
}
