// One kind of job: its settings, its schema, and a payload to try.
import { api, useApi } from "../api.js"
import { html, useState } from "../lib.js"
import { plural } from "../format.js"
import { go, link } from "../router.js"
import { useSession } from "../session.js"
import { Back, Button, Card, Loaded, Time } from "../ui/basics.js"
import { Confirm } from "../ui/dialog.js"
import { CheckField } from "../ui/fields.js"
import { Icon } from "../ui/icons.js"
import { Json } from "../ui/json.js"
import { attempt, toast } from "../ui/toast.js"
import { EditDefinition } from "./definition-edit.js"
import { Marks, Overridden, SettingRows } from "./definition-settings.js"
import { TryPayload } from "./definition-try.js"
import { EnqueueDialog } from "./enqueue.js"

const address = (key) => `/admin/jobs/definitions/${encodeURIComponent(key)}`

/** For operators. */
export function DefinitionPage({ name, query }) {
  const found = useApi(address(name), {}, { every: query.edit ? 0 : 15_000 })
  const change = (body) => api.patch(address(name), body).then(found.setData)
  return html`<${Loaded} from=${found} lines=${10}>${(definition) => (query.edit
    ? html`<${EditDefinition} definition=${definition} done=${found.setData} />`
    : html`<${Shown} definition=${definition} change=${change} />`)}<//>`
}

/** For tenants: how to enqueue one. */
export function KindPage({ name }) {
  const found = useApi(`/definitions/${encodeURIComponent(name)}`)
  return html`<${Loaded} from=${found} lines=${10}>${(kind) => html`
    <${Head} of=${kind} />
    <div class="grid-2"><div class="stack"><${Card} title="Settings"><${SettingRows} definition=${kind} /><//>
      <${Card} title="Schema of the payload"><${Json} value=${kind.arg_schema} label="schema" /><//></div>
      <${TryPayload} schema=${kind.arg_schema} ask=${(payload) => [`/definitions/${encodeURIComponent(name)}/check`, { payload }]} /></div>`}<//>`
}

function Head({ of, children }) {
  const session = useSession()
  const [enqueueing, setEnqueueing] = useState(false)
  return html`
    <div class="head"><div class="grow"><${Back} href=${link("definitions")}>Definitions<//>
      <h2>${of.key} <${Marks} of=${of} /></h2><p class="faint">${of.description}</p></div>
      <div class="bar">${session.can("jobs:write") && of.active && html`<${Button} icon="plus" onClick=${() => setEnqueueing(true)}>Enqueue one<//>`}
        ${session.can("triggers:write") && html`<a class="button" href=${link("triggers/new", { type: "schedule", kind: of.key })}><${Icon} name="clock" />Schedule it</a>`}${children}</div>
    </div>
    ${enqueueing && html`<${EnqueueDialog} kind=${of.key} close=${() => setEnqueueing(false)} />`}`
}

function Shown({ definition, change }) {
  const [removing, setRemoving] = useState(false)
  const { key, active, origin, overridden } = definition
  const set = async (on) => {
    if (await attempt(() => change({ active: on }))) toast(`${key} takes ${on ? "jobs again" : "no new jobs"}`, { undo: () => attempt(() => change({ active: !on })) })
  }
  const clear = async (name) => {
    const before = definition[name]
    if (await attempt(() => change({ clear: [name] }))) toast(`${name.replaceAll("_", " ")} is as the code says`, { undo: () => attempt(() => change({ [name]: before })) })
  }
  const marked = (name, text) => origin === "code" && overridden.includes(name) && html`<${Overridden} name=${name} text=${text} beneath=${definition.beneath[name]} clear=${clear} />`
  const removable = origin === "operator" || definition.workers === 0
  return html`
    <${Head} of=${definition}>
      <${Button} icon=${active ? "pause" : "play"} onClick=${() => set(!active)}>${active ? "Deactivate" : "Activate"}<//>
      <a class="button" href=${link(`definitions/${encodeURIComponent(key)}`, { edit: 1 })}><${Icon} name="edit" />Edit</a>
      ${removable && html`<${Button} plain icon="trash" label="Remove" onClick=${() => setRemoving(true)} />`}
    <//>
    <div class="grid-2">
      <div class="stack">
        <${Card} title="Settings" aside=${html`<span class="faint">version ${definition.version}, <${Time} at=${definition.updated_at} /></span>`}>
          <${SettingRows} definition=${definition} clear=${clear} />
          <p class="faint from">${origin === "code" ? html`Announced by ${plural(definition.workers, "live worker")}. What is set here stays when they start again.` : "An operator made it; workers that run commands serve it."}</p><//>
        ${definition.command && html`<${Card} title="Command"><${Json} value=${definition.command} label="command" /><//>`}
        <${Card} title="Schema of the payload" aside=${marked("schema", "schema")}><${Json} value=${definition.schema} label="schema" /><//>
      </div>
      <${TryPayload} schema=${definition.schema} ask=${(payload) => ["/admin/jobs/definitions/preview", { key, payload }]} />
    </div>
    ${removing && html`<${Remove} definition=${definition} close=${() => setRemoving(false)} />`}`
}

function Remove({ definition, close }) {
  const [force, setForce] = useState(false)
  const remove = async () => {
    await api.delete(address(definition.key), { force: force || undefined })
    toast(`${definition.key} is gone`)
    go(link("definitions"))
  }
  return html`
    <${Confirm} title=${`Remove ${definition.key}?`} danger actText="Remove" close=${close} act=${remove}>
      No more jobs of this kind can be made. Those that have ended stay. ${definition.origin === "code" && "A worker that has its handler brings it back when it starts."}
      <${CheckField} label="Also while jobs of it are queued or running" value=${force} change=${setForce} />
    <//>`
}
