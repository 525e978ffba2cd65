// What all pages about triggers share.
import { api } from "../api.js"
import { html } from "../lib.js"
import { Tag } from "../ui/basics.js"
import { attempt, toast } from "../ui/toast.js"

export const nameOf = (trigger) => trigger.label || trigger.name || trigger.words

export const FromCode = () => html`<${Tag} title="It stands in the code, beside its handler">code<//>`

/** Lets a trigger go on or pauses it; the opposite is offered. */
export async function setEnabled(trigger, on, done) {
  const set = (enabled) => api.post(`/jobs/triggers/${trigger.id}/${enabled ? "enable" : "disable"}`).then(done)
  if (await attempt(() => set(on))) toast(`${nameOf(trigger)} is ${on ? "on again" : "paused"}`, { undo: () => attempt(() => set(!on)) })
}
