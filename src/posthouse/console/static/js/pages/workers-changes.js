// History of worker starts, stops and losses.
import { html } from "../lib.js"
import { Card, Empty, Loaded, Time } from "../ui/basics.js"

const CHANGES = {
  started: ["good", "started"],
  stopped: ["quiet", "stopped"],
  lost: ["bad", "lost; its jobs are being rescued"],
  back: ["warn", "reconnected"],
}

export function Changes({ changes }) {
  return html`
    <${Card} title="Worker history">
      <${Loaded} from=${changes} lines=${6}>${({ items }) => items.length ? html`
        <ol class="happened">${items.map(({ id, at, name, change }) => {
          const [tone, text] = CHANGES[change] ?? ["quiet", change]
          return html`<li key=${id} data-tone=${tone}><span class="grow"><b>${name}</b> ${text}</span><${Time} at=${at} /></li>`
        })}</ol>` : html`<${Empty} icon="clock" title="No changes yet">Workers that start, stop or are lost appear here.<//>`}<//>
    <//>`
}
