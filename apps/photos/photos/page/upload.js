// Upload of pictures into an album.
import { html, useRef, useState } from "posthouse/preact.js"
import { Button, Progress } from "posthouse/components/display.js"
import { showError, toast } from "posthouse/components/toast.js"
import { upload } from "posthouse/upload.js"
import { route } from "./library.js"

/** A file name that the route accepts. */
const safeName = (name) => name.normalize("NFC").replace(/[^\p{L}\p{N}_ .()+,-]/gu, "_").replace(/^[^\p{L}\p{N}_]+/u, "").slice(-150)

export function Upload({ albums, onDone }) {
  const [share, setShare] = useState(null)
  const [album, setAlbum] = useState("inbox")
  const input = useRef(null)
  const send = async (files) => {
    let stored = 0
    for (const file of files) {
      setShare(0)
      try {
        await upload(route(`pictures/${encodeURIComponent(safeName(file.name))}`), file, { query: { album: album.trim() || "inbox" }, progress: setShare })
        stored += 1
      } catch (error) {
        showError(error)
      }
    }
    setShare(null)
    if (input.current) input.current.value = ""
    if (stored) toast(stored === 1 ? "Picture uploaded" : `${stored} pictures uploaded`)
    onDone()
  }
  return html`
    <div class="photos-upload">
      <input ref=${input} class="hidden" id="photos-files" type="file" multiple accept=".jpg,.jpeg,.png,.webp" aria-label="Picture files" onChange=${(event) => send([...event.target.files])} />
      <label class="photos-album"><span>Album</span>
        <input list="albums" value=${album} maxlength="100" onInput=${(event) => setAlbum(event.target.value)} /><datalist id="albums">${albums.map((name) => html`<option key=${name} value=${name} />`)}</datalist></label>
      ${share === null
        ? html`<${Button} strong icon="plus" onClick=${() => input.current.click()}>Upload pictures<//>`
        : html`<${Progress} percent=${100 * share} label="Upload" />`}
    </div>`
}
