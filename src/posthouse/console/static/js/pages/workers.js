import { html } from "../lib.js"
import { Empty } from "../ui/basics.js"

export const Workers = () => html`<${Empty} title="To come" />`
