import { html } from "../lib.js"
import { Empty } from "../ui/basics.js"

export const Job = () => html`<${Empty} title="To come" />`
