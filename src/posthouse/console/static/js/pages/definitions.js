// Job kinds: payload schemas and operator overrides.
import { html } from "../lib.js"
import { duration } from "../format.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { Empty, Loaded } from "../ui/basics.js"
import { Icon } from "../ui/icons.js"
import { More, usePaged } from "../ui/paged.js"
import { Table } from "../ui/table.js"
import { QueryField } from "../ui/words.js"
import { DefinitionPage, KindPage } from "./definition.js"
import { NewCommand } from "./definition-edit.js"
import { Marks } from "./definition-settings.js"

export function Definitions({ name, query }) {
  const session = useSession()
  const writes = session.can("definitions:write")
  if (name) return writes ? html`<${DefinitionPage} key=${name} name=${name} query=${query} />` : html`<${KindPage} key=${name} name=${name} />`
  if (writes && query.new) return html`<${NewCommand} />`
  return html`<${DefinitionList} query=${query} writes=${writes} />`
}

function DefinitionList({ query, writes }) {
  const found = usePaged(writes ? "/admin/jobs/definitions" : "/definitions", { limit: 200 }, { every: 15_000 })
  const wanted = (query.q ?? "").toLowerCase()
  const fits = ({ key, description, queue }) => `${key} ${description} ${queue}`.toLowerCase().includes(wanted)
  return html`
    <div class="bar"><${QueryField} filter name="q" label="Search kinds" value=${query.q} /><span class="grow"></span>
      ${writes && html`<a class="button" href=${link("definitions", { new: 1 })}><${Icon} name="plus" />New command</a>`}</div>
    <${Loaded} from=${found} lines=${10}>${(list) => {
      const shown = list.filter(fits)
      if (!list.length) return html`<${Empty} icon="braces" title="No job kinds yet" command="posthouse worker --app shop:app">Job kinds appear here when a worker with their handlers starts. ${writes && "You can also create a command, which runs a program."}<//>`
      return shown.length ? html`<${Table} label="Definitions" rows=${shown} rowKey=${({ key }) => key} rowClass=${({ is_active: active }) => !active && "over"} columns=${columns(writes)} /><${More} from=${found} />` : html`<${Empty} title="No matching kinds">No kind has this text in its name, description or queue.<//>`
    }}<//>`
}

const columns = (writes) => [
  { name: "key", text: "Kind", cell: (each) => html`<span><a href=${link(`definitions/${encodeURIComponent(each.key)}`)}><b>${each.key}</b></a> <${Marks} of=${each} /></span>` },
  { name: "about", text: "Description", wide: true, cell: ({ description }) => html`<span title=${description}>${description || "–"}</span>` },
  { name: "queue", text: "Queue", cell: ({ queue }) => queue },
  { name: "attempts", text: "Attempts", align: "right", cell: (each) => each.max_attempts },
  { name: "timeout", text: "Timeout", align: "right", cell: (each) => (each.timeout_seconds ? duration(each.timeout_seconds) : html`<span class="faint">none</span>`) },
  writes && { name: "workers", text: "Workers", align: "right", cell: (each) => (each.workers || each.runner === "command" ? each.workers : html`<span class="warn" title="No online worker has a handler for this kind.">0</span>`) },
].filter(Boolean)
