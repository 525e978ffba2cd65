// Modal dialog. The browser keeps the focus inside, and Escape closes it.
import { html, useEffect, useId, useRef, useState } from "../preact.js"
import { Button, ErrorBanner } from "./display.js"

const FIELD = ".body :is(input, select, textarea):not(:disabled, [readonly])"

/** `act` runs on submit; its error is shown, else the dialog closes. Without `act` there is only "Close".
 * Focuses the first field, else the primary button; never a destructive one. */
export function Dialog({ title, close, act, actText = "Save", danger, wide, disabled, closeText = act ? "Cancel" : "Close", children }) {
  const box = useRef(null)
  const entered = useRef(false)
  const name = useId()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState(null)
  useEffect(() => {
    const opener = document.activeElement
    box.current.showModal()
    const first = box.current.querySelector(act && !danger ? "[type=submit]" : "footer .button")
    if (!box.current.querySelector(".body").contains(document.activeElement)) first.focus()
    return () => opener?.focus?.()
  }, [])
  useEffect(() => { // fields may render after the dialog
    const field = !entered.current && box.current.querySelector(FIELD)
    if (!field) return
    entered.current = true
    if (!box.current.querySelector(".body").contains(document.activeElement)) field.focus()
  })
  const submit = async (event) => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      if ((await act()) !== false) close()
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  return html`
    <dialog ref=${box} class=${wide ? "wide" : ""} aria-labelledby=${name} onCancel=${(event) => { event.preventDefault(); close() }}
      onMouseDown=${(event) => event.target === box.current && close()}>
      <form onSubmit=${act ? submit : (event) => { event.preventDefault(); close() }} novalidate>
        <header><h2 id=${name}>${title}</h2><${Button} plain icon="close" label="Close" onClick=${close} /></header>
        <div class="body">${children}${error && html`<${ErrorBanner} error=${error} />`}</div>
        <footer>
          <${Button} onClick=${close}>${closeText}<//>
          ${act && html`<${Button} strong=${!danger} danger=${danger} type="submit" busy=${busy} disabled=${disabled}>${actText}<//>`}
        </footer>
      </form>
    </dialog>`
}

/** A confirmation dialog. */
export const Confirm = ({ children, ...rest }) => html`<${Dialog} ...${rest}><p>${children}</p><//>`
