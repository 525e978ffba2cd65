// Tries a payload on a definition: whether it fits, and the command that would run. Nothing is enqueued.
import { html, useState } from "../lib.js"
import { Card, Copy, Facts, Failure } from "../ui/basics.js"
import { Icon } from "../ui/icons.js"
import { initial, SchemaForm } from "../ui/schema-form.js"
import { useTrial } from "../ui/trial.js"
import { Faults } from "./trigger-payload.js"

/** `ask(payload)`: [path, body] of what the API is asked. `start`: a payload to begin with. */
export function TryPayload({ schema, ask, start, title = "Try a payload", class: more }) {
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
  if (check.definition_errors.length) return html`<div><h3>The definition cannot be so</h3><${Faults} faults=${check.definition_errors} /></div>`
  if (!check.valid && !touched) return html`<p class="faint">Fill it in, and it is tried as you write. Nothing is enqueued.</p>`
  return html`
    ${check.valid ? html`<p class="verdict" data-tone="good"><${Icon} name="check" />It fits.${!check.active && " But the definition is inactive: no new jobs are taken."}</p>` : html`<div class="stack"><p class="verdict" data-tone="bad"><${Icon} name="close" />It does not fit.</p><${Faults} faults=${check.errors} /></div>`}
    ${check.command && html`<${Argv} command=${check.command} />`}`
}

const plain = /^[\w@%+=:,./-]+$/
const quoted = (text) => (plain.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)

const Argv = ({ command }) => html`
  <div class="argv"><div class="bar"><h3 class="grow">What would run</h3><${Copy} text=${() => command.argv.map(quoted).join(" ")} label="Copy for a shell" /></div>
    <ol aria-label="Arguments">${command.argv.map((argument, place) => html`<li key=${place}><code>${argument === "" ? "''" : argument}</code></li>`)}</ol>
    <${Facts} facts=${[["In", html`<code>${command.cwd}</code>`], ["With variables", command.variables.join(", ")], ["With secrets", command.secrets.join(", ")]]} />
  </div>`
