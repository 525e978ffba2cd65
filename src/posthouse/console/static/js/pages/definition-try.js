// Validates a payload against a definition and shows the command that would run. Nothing is enqueued.
import { html, useState } from "../lib.js"
import { Card, Copy, Facts, Failure } from "../ui/basics.js"
import { Icon } from "../ui/icons.js"
import { initial, SchemaForm } from "../ui/schema-form.js"
import { useTrial } from "../ui/trial.js"
import { Faults } from "./trigger-payload.js"

/** `ask(payload)`: [path, body] of the validation request. `start`: the initial payload. */
export function TryPayload({ schema, ask, start, title = "Test payload", class: more }) {
  const [payload, setPayload] = useState(() => start ?? initial(schema))
  const [touched, setTouched] = useState(false)
  const [path, body] = payload === null ? [null] : ask(payload)
  const { data, error } = useTrial(path, body)
  const errors = Object.fromEntries((touched ? data?.errors ?? [] : []).map(({ path: at, message }) => [at.split(/[.[]/)[0], message]))
  return html`
    <${Card} title=${title} class=${more}>
      <${SchemaForm} key=${Object.keys(schema?.properties ?? {}).join()} schema=${schema} value=${payload ?? {}} change=${(next, broken) => { setTouched(true); setPayload(broken ? null : next ?? {}) }} errors=${errors} />
      <div aria-live="polite" class="stack">
        ${error && html`<${Failure} error=${error} />`}
        ${data && !error && payload !== null && html`<${Verdict} check=${data} touched=${touched} />`}
      </div>
    <//>`
}

function Verdict({ check, touched }) {
  if (check.definition_errors.length) return html`<div><h3>Invalid definition</h3><${Faults} faults=${check.definition_errors} /></div>`
  if (!check.valid && !touched) return html`<p class="faint">Enter a payload to validate it. Nothing is enqueued.</p>`
  return html`
    ${check.valid ? html`<p class="verdict" data-tone="good"><${Icon} name="check" />Payload is valid.${!check.is_active && " The definition is inactive: new jobs are rejected."}</p>` : html`<div class="stack"><p class="verdict" data-tone="bad"><${Icon} name="close" />Payload is invalid.</p><${Faults} faults=${check.errors} /></div>`}
    ${check.command && html`<${Argv} command=${check.command} />`}`
}

const plain = /^[\w@%+=:,./-]+$/
const quoted = (text) => (plain.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)

const Argv = ({ command }) => html`
  <div class="argv"><div class="bar"><h3 class="grow">Command preview</h3><${Copy} text=${() => command.argv.map(quoted).join(" ")} label="Copy as shell command" /></div>
    <ol aria-label="Arguments">${command.argv.map((argument, place) => html`<li key=${place}><code>${argument === "" ? "''" : argument}</code></li>`)}</ol>
    <${Facts} facts=${[["Working directory", html`<code>${command.cwd}</code>`], ["Variables", command.variables.join(", ")], ["Secrets", command.secrets.join(", ")]]} />
  </div>`
