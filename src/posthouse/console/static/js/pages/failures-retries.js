// All bulk retries, newest first.
import { html, useState } from "../lib.js"
import { count, plural } from "../format.js"
import { useSession } from "../session.js"
import { Button, Empty, Loaded, Progress, Time } from "../ui/basics.js"
import { changedBy, Chosen, isOpen, rateText, share, StateTag, stopBulk, toneOf } from "../ui/bulk-state.js"
import { Confirm } from "../ui/dialog.js"
import { Table } from "../ui/table.js"

export function Retries({ retries }) {
  const session = useSession()
  const [asked, setAsked] = useState(null)
  const columns = [
    { name: "what", text: "Jobs", wide: true, cell: (bulk) => html`<span><${Chosen} chosen=${bulk.chosen} /></span>` },
    { name: "state", text: "State", cell: (bulk) => html`<${StateTag} bulk=${bulk} />` },
    { name: "progress", text: "Progress", cell: (bulk) => html`<${Progress} percent=${share(bulk)} label="Jobs retried" tone=${toneOf(bulk)} />` },
    { name: "retried", text: "Retried", align: "right", cell: (bulk) => `${count(bulk.retried)} of ${count(bulk.total)}` },
    { name: "good", text: "Succeeded", align: "right", cell: (bulk) => count(bulk.succeeded) },
    { name: "bad", text: "Failed again", align: "right", cell: (bulk) => count(bulk.failed) },
    { name: "rate", text: "Rate", cell: rateText },
    { name: "who", text: "By", cell: (bulk) => bulk.created_by },
    { name: "when", text: "Started", cell: (bulk) => html`<${Time} at=${bulk.created_at} />` },
    ...(session.can("jobs:write") ? [{ name: "stop", text: "", align: "right", cell: (bulk) => isOpen(bulk) && html`<${Button} small icon="stop" onClick=${() => setAsked(bulk)}>Stop<//>` }] : []),
  ]
  return html`
    <${Loaded} from=${retries} lines=${6}>${({ items }) => items.length ? html`<${Table} label="Bulk retries" columns=${columns} rows=${items} rowKey=${({ id }) => id} />`
      : html`<${Empty} icon="retry" title="No bulk retries yet" command="posthouse failures retry FINGERPRINT --rate 10">Bulk retries appear here. To start one, open a failure group and choose “Retry all”, or run:<//>`}<//>
    ${asked && html`<${Confirm} title="Stop this bulk retry?" danger actText="Stop retry" close=${() => setAsked(null)} act=${() => stopBulk(asked.id, retries.reload)}>${count(changedBy(asked))} of ${plural(asked.total ?? 0, "job")} were retried and keep running. The remaining jobs are not retried.<//>`}`
}
