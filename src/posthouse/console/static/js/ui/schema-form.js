// A form generated from a JSON Schema: fields where possible, JSON text for the rest. The server validates it again.
import { html, useState } from "../lib.js"
import { AreaField, CheckField, NumberField, SelectField, TextField } from "./fields.js"

/** The initial payload: the defaults of the schema. */
export function initial(schema) {
  const entries = Object.entries(schema?.properties ?? {}).filter(([, each]) => each.default !== undefined)
  return Object.fromEntries(entries.map(([name, each]) => [name, each.default]))
}

/**
 * `value` is the payload, `change(payload)` gets each new one; `change(null, error)` if the text is not valid JSON.
 * `errors`: {path: message} as returned by the server.
 */
export function SchemaForm({ schema, value, change, errors = {} }) {
  const fields = Object.entries(schema?.properties ?? {})
  const [asText, setAsText] = useState(fields.length === 0)
  return html`
    <div class="schema-form">
      ${fields.length > 0 && html`<div class="switch" role="group" aria-label="Payload editor">
        <button type="button" aria-pressed=${!asText} onClick=${() => setAsText(false)}>Form</button>
        <button type="button" aria-pressed=${asText} onClick=${() => setAsText(true)}>JSON</button></div>`}
      ${asText ? html`<${JsonField} label="Payload" value=${value} change=${change} error=${errors[""]} />` : fields.map(([name, each]) => html`
        <${Property} key=${name} name=${name} schema=${resolve(each, schema)} required=${schema.required?.includes(name)} value=${value?.[name]} error=${errors[name]}
          change=${(item) => change(withField(value, name, item))} />`)}
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

function Property({ name, schema, required, value, error, change }) {
  const label = html`${schema.title ?? name}${required ? html` <span class="faint">required</span>` : ""}`
  const hint = [schema.description, range(schema)].filter(Boolean).join(" · ")
  const common = { label, hint, error, value, "aria-required": required ? "true" : undefined, name }
  if (schema.enum) {
    const options = [["", "–"], ...schema.enum.map((each) => [JSON.stringify(each), String(each)])]
    return html`<${SelectField} ...${common} value=${value === undefined ? "" : JSON.stringify(value)} options=${options} change=${(text) => change(text === "" ? undefined : JSON.parse(text))} />`
  }
  if (schema.type === "boolean") return html`<${CheckField} ...${common} change=${change} />`
  if (schema.type === "integer" || schema.type === "number") return html`<${NumberField} ...${common} min=${schema.minimum} max=${schema.maximum} step=${schema.type === "integer" ? 1 : "any"} change=${change} />`
  if (schema.type === "string") return html`<${TextField} ...${common} maxlength=${schema.maxLength} change=${(text) => change(text === "" && !required ? undefined : text)} />`
  return html`<${JsonField} ...${common} rows=${3} change=${change} />`
}

function range({ minimum, maximum, pattern, format, default: standard }) {
  return [minimum !== undefined && `at least ${minimum}`, maximum !== undefined && `at most ${maximum}`, format, pattern && `pattern: ${pattern}`,
    standard !== undefined && standard !== null && `default: ${JSON.stringify(standard)}`].filter(Boolean).join(" · ")
}

/** JSON as text, which may be invalid while it is edited. */
export function JsonField({ value, change, error, rows = 8, ...rest }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2))
  const [broken, setBroken] = useState(null)
  const write = (next) => {
    setText(next)
    try {
      change(next.trim() === "" ? undefined : JSON.parse(next))
      setBroken(null)
    } catch (wrong) {
      setBroken(`Invalid JSON: ${wrong.message}`)
      change(null, wrong)
    }
  }
  return html`<${AreaField} ...${rest} rows=${rows} value=${text} change=${write} error=${broken ?? error} />`
}
