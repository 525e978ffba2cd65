import { html } from "../lib.js"
import { Empty } from "../ui/basics.js"

export const Queues = () => html`<${Empty} title="To come" />`
