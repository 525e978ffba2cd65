import { html } from "../lib.js"
import { Empty } from "../ui/basics.js"

export const Definitions = () => html`<${Empty} title="To come" />`
