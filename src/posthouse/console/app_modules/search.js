// The search field of a page: it sets `q` in the address when it is submitted or emptied.
import { html, useLayoutEffect, useState } from "posthouse/preact.js"
import { setQuery } from "posthouse/router.js"
import { Button } from "posthouse/components/display.js"

/** `value`: the text in the address. `label`: the label of the field; `hint`: its placeholder, by default the same. */
export function Search({ value, label, hint = label, ...attributes }) {
  const [text, setText] = useState(value)
  useLayoutEffect(() => setText(value), [value]) // before the user can type: a later effect would undo it
  const submit = (event) => {
    event.preventDefault()
    setQuery({ q: text.trim() })
  }
  return html`
    <form role="search" onSubmit=${submit} ...${attributes}>
      <input type="search" data-filter aria-label=${label} placeholder=${hint}
        value=${text} onInput=${(event) => { setText(event.target.value); if (!event.target.value) setQuery({ q: "" }) }} />
      <${Button} type="submit" icon="search" label="Search" />
    </form>`
}
