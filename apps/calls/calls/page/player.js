// Plays the audio of a call. The lanes show when each speaker talks, and are the slider of the player.
import { html, useEffect, useRef, useState } from "posthouse/preact.js"
import { Button } from "posthouse/components/display.js"
import { clock } from "./calls.js"

const STEP = 5
const SPEEDS = [1, 1.25, 1.5, 2]

/** `player.current.seek(seconds)` plays from there; `onMove` is called with the seconds whenever they change. */
export function Player({ source, duration, phrases, speakers, player, onMove }) {
  const audio = useRef(null)
  const [playing, setPlaying] = useState(false)
  const [now, setNow] = useState(0)
  const [speed, setSpeed] = useState(1)
  const show = () => {
    const seconds = audio.current?.currentTime ?? 0
    setNow(seconds)
    onMove(seconds)
  }
  const move = (seconds) => {
    audio.current.currentTime = Math.max(0, Math.min(duration, seconds))
    show()
  }
  const play = () => audio.current.play().catch(() => {})
  player.current = { seek: (seconds) => { move(seconds); play() } }
  useFrames(playing, show)
  useEffect(() => { audio.current.playbackRate = speed }, [speed])
  return html`
    <div class="calls-player">
      <audio ref=${audio} src=${source} preload="auto" onPlay=${() => setPlaying(true)} onPause=${() => setPlaying(false)} onEnded=${() => setPlaying(false)} onSeeked=${show}></audio>
      <${Button} strong icon=${playing ? "pause" : "play"} label=${playing ? "Pause" : "Play"} onClick=${() => (playing ? audio.current.pause() : play())} />
      <span class="figure calls-now">${clock(now)} / ${clock(duration)}</span>
      <${Lanes} duration=${duration} phrases=${phrases} speakers=${speakers} now=${now} onSeek=${move} />
      <select class="calls-speed" aria-label="Speed" value=${speed} onChange=${(event) => setSpeed(Number(event.target.value))}>
        ${SPEEDS.map((each) => html`<option key=${each} value=${each}>${each} ×</option>`)}</select>
    </div>`
}

/** Calls `show` for each frame while the audio plays: its own event comes only four times a second. */
function useFrames(playing, show) {
  const latest = useRef(show)
  latest.current = show
  useEffect(() => {
    if (!playing) return undefined
    let frame = requestAnimationFrame(function next() {
      latest.current()
      frame = requestAnimationFrame(next)
    })
    return () => cancelAnimationFrame(frame)
  }, [playing])
}

function Lanes({ duration, phrases, speakers, now, onSeek }) {
  const lanes = useRef(null)
  const share = (seconds) => `${(100 * seconds) / Math.max(duration, 0.1)}%`
  const point = (event) => {
    const box = lanes.current.getBoundingClientRect()
    onSeek((duration * (event.clientX - box.left)) / box.width)
  }
  const keys = (event) => {
    const to = { ArrowLeft: now - STEP, ArrowRight: now + STEP, Home: 0, End: duration }[event.key]
    if (to === undefined) return
    event.preventDefault()
    onSeek(to)
  }
  const down = (event) => {
    lanes.current.setPointerCapture(event.pointerId)
    point(event)
  }
  return html`
    <div class="calls-lanes" ref=${lanes} role="slider" tabindex="0" aria-label="Position" aria-valuemin="0" aria-valuemax=${Math.round(duration)}
      aria-valuenow=${Math.round(now)} aria-valuetext=${clock(now)} onKeyDown=${keys} onPointerDown=${down}
      onPointerMove=${(event) => event.buttons && point(event)}>
      ${speakers.map((speaker) => html`
        <span class="calls-lane" key=${speaker} data-speaker=${speaker} title=${`Speaker ${speaker}`}>${phrases.filter((phrase) => phrase.speaker === speaker).map((phrase) => html`
          <span key=${phrase.start} style=${{ left: share(phrase.start), width: share(phrase.end - phrase.start) }}></span>`)}</span>`)}
      <span class="calls-head-line" style=${{ left: share(Math.min(now, duration)) }}></span>
    </div>`
}
