import { html } from "../lib.js"
import { Empty } from "../ui/basics.js"

export const Jobs = () => html`<${Empty} title="To come" />`
