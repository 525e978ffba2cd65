// Payload template of a trigger: one field per payload property, or JSON.
import { html, useState } from "../lib.js"
import { Icon } from "../ui/icons.js"
import { resolve } from "../ui/schema-form.js"
import { TemplateField } from "../ui/template-field.js"

export const Faults = ({ faults }) => (faults?.length ? html`
  <ul class="faults" role="alert">${faults.map(({ path, message }) => html`<li key=${path + message}><${Icon} name="alert" /><span>${path && html`<code>${path}</code> `}${message}</span></li>`)}</ul>` : null)

/** `change(template)`, or `change(null)` while the text is not valid JSON. `errors`: {path: message}. */
export function PayloadTemplate({ schema, value, change, paths, errors }) {
  const names = [...new Set([...Object.keys(schema?.properties ?? {}), ...Object.keys(value ?? {})])]
  const [asText, setAsText] = useState(names.length === 0)
  return html`
    <div class="schema-form">
      <div class="bar"><h3 class="grow">Payload</h3><div class="switch" role="group" aria-label="Payload editor">
        <button type="button" aria-pressed=${!asText} disabled=${!names.length || value === null} onClick=${() => setAsText(false)}>Form</button>
        <button type="button" aria-pressed=${asText} onClick=${() => setAsText(true)}>JSON</button></div></div>
      ${asText ? html`<${TemplateText} value=${value} change=${change} paths=${paths} />` : names.map((name) => html`
        <${TemplateProperty} key=${name} name=${name} schema=${resolve(schema?.properties?.[name] ?? {}, schema ?? {})} required=${schema?.required?.includes(name)} value=${value?.[name]} paths=${paths} error=${errors[name]}
          change=${(item) => change(withField(value, name, item))} />`)}
    </div>`
}

function withField(template, name, item) {
  const { [name]: _, ...rest } = template ?? {}
  return item === undefined ? rest : { ...rest, [name]: item }
}

function TemplateProperty({ name, schema, required, value, change, paths, error }) {
  const [text, setText] = useState(toText(value))
  const kinds = schema.enum ? `one of ${schema.enum.join(", ")}` : [schema.type].flat().filter(Boolean).join(" or ")
  const hint = [schema.description, kinds, schema.default !== undefined && `default: ${JSON.stringify(schema.default)}`].filter(Boolean).join(" · ")
  const write = (next) => {
    setText(next)
    change(fromText(next, schema))
  }
  return html`<${TemplateField} label=${html`${name}${required ? html` <span class="faint">required</span>` : ""}`} hint=${hint} error=${error} value=${text} change=${write} paths=${paths} name=${name} />`
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

function TemplateText({ value, change, paths }) {
  const [text, setText] = useState(JSON.stringify(value ?? {}, null, 2))
  const [broken, setBroken] = useState(null)
  const write = (next) => {
    setText(next)
    try {
      change(JSON.parse(next || "{}"))
      setBroken(null)
    } catch (wrong) {
      setBroken(`Invalid JSON: ${wrong.message}`)
      change(null)
    }
  }
  return html`<${TemplateField} label="Template" rows=${9} value=${text} change=${write} paths=${paths} error=${broken} hint="Type {{ to insert a value." />`
}
