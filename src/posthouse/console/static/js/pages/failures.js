import { html } from "../lib.js"
import { Empty } from "../ui/basics.js"

export const Failures = () => html`<${Empty} title="To come" />`
