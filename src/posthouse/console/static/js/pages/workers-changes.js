// When workers came and went.
import { html } from "../lib.js"
import { Card, Empty, Loaded, Time } from "../ui/basics.js"

const CHANGES = {
  started: ["good", "started"],
  stopped: ["quiet", "signed off"],
  lost: ["bad", "was lost: its jobs go to others"],
  back: ["warn", "is back"],
}

export function Changes({ changes }) {
  return html`
    <${Card} title="Came and went">
      <${Loaded} from=${changes} lines=${6}>${({ items }) => items.length ? html`
        <ol class="happened">${items.map(({ id, at, name, change }) => {
          const [tone, text] = CHANGES[change] ?? ["quiet", change]
          return html`<li key=${id} data-tone=${tone}><span class="grow"><b>${name}</b> ${text}</span><${Time} at=${at} /></li>`
        })}</ol>` : html`<${Empty} icon="clock" title="Nothing yet">Workers that start, stop or are lost are noted here.<//>`}<//>
    <//>`
}
