// Job kinds: the list and the page of one kind.
import { api, useApi } from "../api.js"
import { Confirm } from "../components/dialog.js"
import { AsyncContent, BackLink, Button, Card, EmptyState, Json, Table, Time } from "../components/display.js"
import { EnqueueDialog } from "../components/enqueue-dialog.js"
import { CheckField, QueryField } from "../components/forms.js"
import { Icon } from "../components/icons.js"
import { LoadMore, usePages } from "../components/paged.js"
import { runWithToast, toast } from "../components/toast.js"
import { duration, plural } from "../format.js"
import { html, useState } from "../preact.js"
import { link, navigate } from "../router.js"
import { useSession } from "../session.js"
import { DefinitionTags, EditDefinition, NewCommand, Overridden, SettingRows, TryPayload } from "./definition-form.js"

export function Definitions({ name, query }) {
  const session = useSession()
  const writes = session.can("definitions:write")
  if (name) return writes ? html`<${DefinitionPage} key=${name} name=${name} query=${query} />` : html`<${KindPage} key=${name} name=${name} />`
  if (writes && query.new) return html`<${NewCommand} />`
  return html`<${DefinitionList} query=${query} writes=${writes} />`
}

function DefinitionList({ query, writes }) {
  const found = usePages(writes ? "/admin/jobs/definitions" : "/definitions", { limit: 200 }, { every: 15_000 })
  const wanted = (query.q ?? "").toLowerCase()
  const fits = ({ key, description, queue }) => `${key} ${description} ${queue}`.toLowerCase().includes(wanted)
  return html`
    <div class="bar"><${QueryField} filter name="q" label="Search kinds" value=${query.q} /><span class="grow"></span>
      ${writes && html`<a class="button" href=${link("definitions", { new: 1 })}><${Icon} name="plus" />New command</a>`}</div>
    <${AsyncContent} request=${found} lines=${10}>${(list) => {
      const shown = list.filter(fits)
      if (!list.length) return html`<${EmptyState} icon="braces" title="No job kinds yet" command="posthouse worker --app shop:app">Job kinds appear here when a worker with their handlers starts. ${writes && "You can also create a command, which runs a program."}<//>`
      return shown.length ? html`<${Table} label="Definitions" rows=${shown} rowKey=${({ key }) => key} rowClass=${({ is_active: active }) => !active && "over"} columns=${columns(writes)} /><${LoadMore} pages=${found} />` : html`<${EmptyState} title="No matching kinds">No kind has this text in its name, description or queue.<//>`
    }}<//>`
}

const columns = (writes) => [
  { name: "key", text: "Kind", cell: (each) => html`<span><a href=${link(`definitions/${encodeURIComponent(each.key)}`)}><b>${each.key}</b></a> <${DefinitionTags} definition=${each} /></span>` },
  { name: "about", text: "Description", wide: true, cell: ({ description }) => html`<span title=${description}>${description || "–"}</span>` },
  { name: "queue", text: "Queue", cell: ({ queue }) => queue },
  { name: "attempts", text: "Attempts", align: "right", cell: (each) => each.max_attempts },
  { name: "timeout", text: "Timeout", align: "right", cell: (each) => (each.timeout_seconds ? duration(each.timeout_seconds) : html`<span class="faint">none</span>`) },
  writes && { name: "workers", text: "Workers", align: "right", cell: (each) => (each.workers || each.runner === "command" ? each.workers : html`<span class="warn" title="No online worker has a handler for this kind.">0</span>`) },
].filter(Boolean)

// One job kind: settings, schema and payload test.

const address = (key) => `/admin/jobs/definitions/${encodeURIComponent(key)}`

/** For operators: all settings, editable. */
function DefinitionPage({ name, query }) {
  const found = useApi(address(name), {}, { every: query.edit ? 0 : 15_000 })
  const change = (body) => api.patch(address(name), body).then(found.setData)
  return html`<${AsyncContent} request=${found} lines=${10}>${(definition) => (query.edit
    ? html`<${EditDefinition} definition=${definition} onDone=${found.setData} />`
    : html`<${DefinitionDetail} definition=${definition} onChange=${change} />`)}<//>`
}

/** For tenants: the schema and how to enqueue. */
function KindPage({ name }) {
  const found = useApi(`/definitions/${encodeURIComponent(name)}`)
  return html`<${AsyncContent} request=${found} lines=${10}>${(kind) => html`
    <${Head} of=${kind} />
    <div class="grid-2"><div class="stack"><${Card} title="Settings"><${SettingRows} definition=${kind} /><//>
      <${Card} title="Payload schema"><${Json} value=${kind.arg_schema} label="schema" /><//></div>
      <${TryPayload} schema=${kind.arg_schema} onCheck=${(payload) => [`/definitions/${encodeURIComponent(name)}/check`, { payload }]} /></div>`}<//>`
}

function Head({ of, children }) {
  const session = useSession()
  const [enqueueing, setEnqueueing] = useState(false)
  return html`
    <div class="head"><div class="grow"><${BackLink} href=${link("definitions")}>Definitions<//>
      <h2>${of.key} <${DefinitionTags} definition=${of} /></h2><p class="faint">${of.description}</p></div>
      <div class="bar">${session.can("jobs:write") && of.is_active && html`<${Button} icon="plus" onClick=${() => setEnqueueing(true)}>Enqueue<//>`}
        ${session.can("triggers:write") && html`<a class="button" href=${link("triggers/new", { type: "schedule", kind: of.key })}><${Icon} name="clock" />Schedule</a>`}${children}</div>
    </div>
    ${enqueueing && html`<${EnqueueDialog} kind=${of.key} onClose=${() => setEnqueueing(false)} />`}`
}

function DefinitionDetail({ definition, onChange }) {
  const [removing, setRemoving] = useState(false)
  const { key, is_active: active, origin, overridden } = definition
  const set = async (on) => {
    if (await runWithToast(() => onChange({ is_active: on }))) toast(`${key} ${on ? "activated" : "deactivated"}`, { undo: () => runWithToast(() => onChange({ is_active: !on })) })
  }
  const clear = async (name) => {
    const before = definition[name]
    if (await runWithToast(() => onChange({ clear: [name] }))) toast(`${name.replaceAll("_", " ")} reset to the code default`, { undo: () => runWithToast(() => onChange({ [name]: before })) })
  }
  const marked = (name, text) => origin === "code" && overridden.includes(name) && html`<${Overridden} name=${name} text=${text} codeDefault=${definition.code_defaults[name]} onClear=${clear} />`
  const removable = origin === "operator" || definition.workers === 0
  return html`
    <${Head} of=${definition}>
      <${Button} icon=${active ? "pause" : "play"} onClick=${() => set(!active)}>${active ? "Deactivate" : "Activate"}<//>
      <a class="button" href=${link(`definitions/${encodeURIComponent(key)}`, { edit: 1 })}><${Icon} name="edit" />Edit</a>
      ${removable && html`<${Button} plain icon="trash" label="Delete" onClick=${() => setRemoving(true)} />`}
    <//>
    <div class="grid-2">
      <div class="stack">
        <${Card} title="Settings" aside=${html`<span class="faint">version ${definition.version}, <${Time} at=${definition.updated_at} /></span>`}>
          <${SettingRows} definition=${definition} onClear=${clear} />
          <p class="faint from">${origin === "code" ? html`Registered by ${plural(definition.workers, "online worker")}. Overrides are kept when workers restart.` : definition.command ? "Created by an operator. Served by workers started with --commands." : "Created by an operator, without a command. Its jobs wait until a worker has a handler for this kind, or until you set a command."}</p><//>
        ${definition.command && html`<${Card} title="Command"><${Json} value=${definition.command} label="command" /><//>`}
        <${Card} title="Payload schema" aside=${marked("arg_schema", "schema")}><${Json} value=${definition.arg_schema} label="schema" /><//>
      </div>
      <${TryPayload} schema=${definition.arg_schema} onCheck=${(payload) => ["/admin/jobs/definitions/preview", { key, payload }]} />
    </div>
    ${removing && html`<${Remove} definition=${definition} onClose=${() => setRemoving(false)} />`}`
}

function Remove({ definition, onClose }) {
  const [force, setForce] = useState(false)
  const remove = async () => {
    await api.delete(address(definition.key), { force: force || undefined })
    toast(`Definition ${definition.key} deleted`)
    navigate(link("definitions"))
  }
  return html`
    <${Confirm} title=${`Delete ${definition.key}?`} danger submitText="Delete" onClose=${onClose} onSubmit=${remove}>
      No new jobs of this kind can be enqueued. Finished jobs are kept. ${definition.origin === "code" && "A worker with a handler for this kind registers it again when it starts."}
      <${CheckField} label="Delete even if jobs of this kind are queued or running" value=${force} onChange=${setForce} />
    <//>`
}
