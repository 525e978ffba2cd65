// Tooltips for labels that are terms of the glossary.
import { TERMS } from "../glossary.js"

const ALIASES = {
  capabilities: "capability", crashes: "crash", "job kind": "kind", "last heartbeat": "heartbeat", "lease expires": "lease", "masked fields": "redaction",
  requires: "capability", prefers: "capability", "max attempts": "attempt", "failed attempts": "attempt",
}

/** The definition of a label, singular or plural, or undefined. */
export function meaningOf(label) {
  if (typeof label !== "string") return undefined
  const name = label.toLowerCase()
  return TERMS[ALIASES[name] ?? name] ?? TERMS[name.replace(/s$/, "")]
}
