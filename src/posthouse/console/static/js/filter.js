// Lines of the filter language, as far as a page changes them. The server reads them, and says what is wrong.
const TERM = /(?:[^\s"]|"(?:\\.|[^"\\])*(?:"|$))+/g

const terms = (line) => line.match(TERM) ?? []
const names = (term, field) => term.startsWith(`${field}:`)

/** A text as a value: in quotes if it would be read as something else. */
export const quoted = (text) => (/^$|[\s,"\\]|[*…]$/.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : text)

export const without = (line, field) => terms(line).filter((term) => !names(term, field)).join(" ")

/** The line with this value of a field, and no other one. */
export const withTerm = (line, field, value) => [without(line, field), `${field}:${quoted(value)}`].filter(Boolean).join(" ")

/** What a line asks of a field: its values as they stand there, or null if it asks nothing. */
export function valuesOf(line, field) {
  const found = terms(line).find((term) => names(term, field))
  return found ? found.slice(field.length + 1).split(",") : null
}

/** The one value that a line asks of a field in plain letters, or null. */
export function onlyValue(line, field) {
  const values = valuesOf(line, field)
  return values?.length === 1 && /^[\w.:/-]+$/.test(values[0]) ? values[0] : null
}
