// Helpers of the trigger pages.
import { api } from "../api.js"
import { html } from "../lib.js"
import { Tag } from "../ui/basics.js"
import { attempt, toast } from "../ui/toast.js"

export const nameOf = (trigger) => trigger.label || trigger.name || trigger.words

export const FromCode = () => html`<${Tag} title="Defined in code, with its handler.">code<//>`

/** Resumes or pauses a trigger, with Undo. */
export async function setEnabled(trigger, on, done) {
  const set = (enabled) => api.post(`/jobs/triggers/${trigger.id}/${enabled ? "enable" : "disable"}`).then(done)
  if (await attempt(() => set(on))) toast(`Trigger “${nameOf(trigger)}” ${on ? "resumed" : "paused"}`, { undo: () => attempt(() => set(!on)) })
}
