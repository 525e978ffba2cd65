// The search field of a page: it sets `q` in the address when it is submitted or emptied.
import { html } from "posthouse/preact.js"
import { setQuery } from "posthouse/router.js"
import { Button } from "posthouse/components/display.js"
import { useFieldText } from "posthouse/components/forms.js"

/** `value`: the text in the address. `label`: the label of the field; `hint`: its placeholder, by default the same. */
export function Search({ value, label, hint = label, ...attributes }) {
  const [text, setText, sent] = useFieldText(value)
  const apply = (q) => setQuery({ q: (sent.current = q) })
  const submit = (event) => {
    event.preventDefault()
    apply(text.trim())
  }
  return html`
    <form role="search" onSubmit=${submit} ...${attributes}>
      <input type="search" data-filter aria-label=${label} placeholder=${hint}
        value=${text} onInput=${(event) => { setText(event.target.value); if (!event.target.value) apply("") }} />
      <${Button} type="submit" icon="search" label="Search" />
    </form>`
}
