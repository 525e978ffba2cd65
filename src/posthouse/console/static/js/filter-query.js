// Edits filter queries. The server parses them and reports errors.

const TERM = /(?:[^\s"]|"(?:\\.|[^"\\])*(?:"|$))+/g

const terms = (line) => line.match(TERM) ?? []
const names = (term, field) => term.startsWith(`${field}:`)

/** A text as a value: in quotes if it would be read as something else. */
export const quoteValue = (text) => (/^$|[\s,"\\]|[*…]$/.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : text)

export const removeField = (line, field) => terms(line).filter((term) => !names(term, field)).join(" ")

/** The line with this value of a field, and no other one. */
export const setField = (line, field, value) => [removeField(line, field), `${field}:${quoteValue(value)}`].filter(Boolean).join(" ")

/** The values that a query names for a field, as written, or null if the field is not in it. */
export function fieldValues(line, field) {
  const found = terms(line).find((term) => names(term, field))
  return found ? found.slice(field.length + 1).split(",") : null
}

/** The only value that a query names for a field, if it needs no quotes; else null. */
export function singleValue(line, field) {
  const values = fieldValues(line, field)
  return values?.length === 1 && /^[\w.:/-]+$/.test(values[0]) ? values[0] : null
}
