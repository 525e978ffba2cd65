import { html } from "../lib.js"
import { Empty } from "../ui/basics.js"

export const Operator = () => html`<${Empty} title="To come" />`
