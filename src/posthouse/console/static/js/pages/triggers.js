import { html } from "../lib.js"
import { Empty } from "../ui/basics.js"

export const Triggers = () => html`<${Empty} title="To come" />`
