// Adaptive playback with a quality menu.
import Hls from "hls.js"
import { api, site } from "posthouse/api.js"
import { html, useEffect, useRef, useState } from "posthouse/preact.js"
import { ErrorBanner } from "posthouse/components/display.js"
import { linesOf, rate, route } from "./videos.js"

const AUTO = -1
/** The link has expired, or its output was replaced. */
const LINK_ERRORS = [403, 404]

const nameOf = (name, width, height) => (name === "source" ? `${linesOf({ width, height })} (source)` : name)

/** Plays the output of a video. A new output continues at the same position and quality; so does a new link. */
export function Player({ video }) {
  const element = useRef(null)
  const [source, setSource] = useState(video.playlist)
  const [error, setError] = useState(null)
  useEffect(() => setSource(video.playlist), [video.version])
  const failed = async (fatal) => {
    const fresh = await api.get(route(`/${video.id}`)).catch(() => null)
    if (fresh?.playlist && fresh.playlist !== source) setSource(fresh.playlist)
    else if (fatal) setError(new Error("The video cannot be played. Check the connection and try again."))
  }
  const stream = useStream(element, source, failed)
  const retry = () => { setError(null); stream.restart() }
  return html`
    <div class="vlog-player">
      <video ref=${element} controls playsinline poster=${video.thumbnail && site(video.thumbnail)}></video>
      ${stream.levels.length > 0 && html`<${QualityMenu} ...${stream} />`}
      ${error && html`<${ErrorBanner} error=${error} onRetry=${retry} />`}
    </div>`
}

function QualityMenu({ levels, chosen, playing, choose }) {
  const now = levels[playing]
  return html`
    <div class="vlog-quality">
      <label><span>Quality</span>
        <select aria-label="Quality" value=${chosen} onChange=${(event) => choose(Number(event.target.value))}>
          <option value=${AUTO}>Auto${chosen === AUTO && now ? ` (${now.name})` : ""}</option>
          ${levels.map((level, index) => ({ ...level, index })).sort((one, other) => other.bitrate - one.bitrate).map(({ index, name }) => html`<option key=${index} value=${index}>${name}</option>`)}
        </select></label>
      ${now && html`<small class="figure" aria-live="polite">${now.name}: ${now.width} × ${now.height}, ${rate(now.bitrate)}</small>`}
    </div>`
}

/** {levels, chosen, playing, choose, restart} of a stream. Browsers without Media Source play it themselves, without a menu. */
function useStream(element, source, failed) {
  const [state, setState] = useState({ levels: [], chosen: AUTO, playing: null })
  const [round, setRound] = useState(0)
  const stream = useRef(null)
  const before = useRef({ at: 0, paused: true })
  const wanted = useRef(null)
  const latest = useRef(failed)
  latest.current = failed
  useEffect(() => {
    const video = element.current
    const { at, paused } = before.current
    setState({ levels: [], chosen: AUTO, playing: null })
    if (!Hls.isSupported()) {
      video.src = site(source)
      return undefined
    }
    const hls = (stream.current = new Hls({ startPosition: at || -1 }))
    let recovered = false
    hls.on(Hls.Events.MANIFEST_PARSED, () => {
      const levels = hls.levels.map(({ name, width, height, bitrate }) => ({ name: nameOf(name, width, height), width, height, bitrate }))
      const chosen = levels.findIndex(({ name }) => name === wanted.current)
      hls.currentLevel = chosen
      setState({ levels, chosen, playing: null })
      if (!paused) video.play().catch(() => {})
    })
    hls.on(Hls.Events.LEVEL_SWITCHED, (_, { level }) => {
      setState((was) => ({ ...was, playing: level }))
      if (video.paused && video.currentTime) video.currentTime -= 0.001 // shows the frame of the new quality
    })
    hls.on(Hls.Events.ERROR, (_, { fatal, type, response }) => {
      const refused = LINK_ERRORS.includes(response?.code)
      if (!fatal && !refused) return
      if (!refused && type === Hls.ErrorTypes.MEDIA_ERROR && !recovered) {
        recovered = true
        hls.recoverMediaError()
      } else latest.current(fatal)
    })
    hls.loadSource(site(source))
    hls.attachMedia(video)
    return () => {
      before.current = { at: video.currentTime, paused: video.paused }
      hls.destroy()
    }
  }, [source, round])
  const choose = (level) => {
    stream.current.currentLevel = level
    wanted.current = state.levels[level]?.name ?? null
    setState((was) => ({ ...was, chosen: level }))
  }
  return { ...state, choose, restart: () => setRound((was) => was + 1) }
}
