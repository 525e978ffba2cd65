// Search field whose text is put into the URL after a pause in typing.
import { html, useEffect, useId, useRef, useState } from "../lib.js"
import { setQuery } from "../router.js"

const PAUSE = 250

/** `name` is the query parameter; `filter` makes "/" focus this field. */
export function QueryField({ name, label, value = "", options = [], filter }) {
  const [text, setText] = useState(value)
  const id = useId()
  const timer = useRef(0)
  useEffect(() => setText(value), [value])
  useEffect(() => () => clearTimeout(timer.current), [])
  const write = (next) => {
    setText(next)
    clearTimeout(timer.current)
    timer.current = setTimeout(() => setQuery({ [name]: next.trim() || null }, { replace: true }), PAUSE)
  }
  return html`
    <label class="query"><span class="hidden">${label}</span>
      <input type="search" placeholder=${label} autocomplete="off" spellcheck=${false} value=${text} list=${options.length ? id : undefined} data-filter=${filter || undefined} onInput=${(event) => write(event.target.value)} />
      ${options.length > 0 && html`<datalist id=${id}>${options.map((each) => html`<option key=${each} value=${each} />`)}</datalist>`}
    </label>`
}
