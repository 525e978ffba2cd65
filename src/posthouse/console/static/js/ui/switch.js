// Toggle that takes effect immediately.
import { html } from "../lib.js"

export const Switch = ({ on, label, change, disabled }) => html`
  <button type="button" class="toggle" role="switch" aria-checked=${on ? "true" : "false"} aria-label=${label} title=${label} disabled=${disabled} onClick=${() => change(!on)}><i></i></button>`
