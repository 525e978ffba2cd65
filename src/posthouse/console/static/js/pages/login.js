import { html, useState } from "../lib.js"
import { Mark } from "../frame.js"
import { logIn } from "../session.js"
import { Button, Failure, Snippet } from "../ui/basics.js"
import { Field } from "../ui/fields.js"

export function Login({ done }) {
  const [credential, setCredential] = useState("")
  const [error, setError] = useState(null)
  const [busy, setBusy] = useState(false)
  const submit = async (event) => {
    event.preventDefault()
    setBusy(true)
    try {
      done(await logIn(credential.trim()))
    } catch (refused) {
      setError(refused)
      setBusy(false)
    }
  }
  return html`
    <main class="alone">
      <form class="login card" onSubmit=${submit}>
        <div class="bar"><${Mark} /><h1>Posthouse</h1></div>
        <p class="faint">Log in with an API key, the admin secret, or a JWT from your identity provider.</p>
        <${Field} label="Key">${(given) => html`<input type="password" autocomplete="current-password" autofocus required ...${given} value=${credential} onInput=${(event) => setCredential(event.target.value)} />`}<//>
        ${error && html`<${Failure} error=${error} />`}
        <${Button} strong type="submit" busy=${busy} disabled=${!credential.trim()}>Log in<//>
        <p class="faint">No key yet? Create one on the machine that runs Posthouse:</p>
        <${Snippet} text="posthouse keys create me --role super-admin" />
      </form>
    </main>`
}
