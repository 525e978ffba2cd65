// The transcript, which follows the player: a click on a word or on a time plays from there.
import { percent } from "posthouse/format.js"
import { html, useEffect, useRef } from "posthouse/preact.js"
import { clock, matches, queryWords } from "./calls.js"

const LOW_CONFIDENCE = 0.4

/** The phrases with their times; Whisper may end a word before it starts. */
export const withTimes = (transcript) => transcript.phrases.map((phrase, number) => ({ ...phrase, number, start: phrase.words[0].start, end: Math.max(phrase.words[0].start, phrase.words.at(-1).end) }))

/** "phrase.word" that was begun last at this second, or "". */
export function wordAt(phrases, seconds) {
  const phrase = phrases.findLast((each) => each.start <= seconds)
  return phrase ? `${phrase.number}.${phrase.words.findLastIndex((word) => word.start <= seconds)}` : ""
}

export function Transcript({ phrases, position, query, onSeek }) {
  const list = useRef(null)
  const [current, word] = position.split(".").map(Number)
  useEffect(() => {
    const shown = list.current.querySelector("[aria-current]")
    if (shown) list.current.scrollTop = shown.offsetTop - list.current.clientHeight / 3
  }, [position && current])
  const wanted = queryWords(query)
  const clicked = (event) => {
    const at = event.target.closest("[data-at]")?.dataset.at
    if (at !== undefined) onSeek(Number(at))
  }
  return html`
    <ol class="calls-transcript" aria-label="Transcript" ref=${list} onClick=${clicked}>
      ${phrases.map((phrase) => html`<${Phrase} key=${phrase.number} phrase=${phrase} wanted=${wanted} word=${position && phrase.number === current ? word : -1} isCurrent=${position && phrase.number === current} />`)}
    </ol>`
}

const Phrase = ({ phrase, wanted, word, isCurrent }) => html`
  <li data-speaker=${phrase.speaker} aria-current=${isCurrent ? "true" : undefined}>
    <button type="button" class="calls-time figure" data-at=${phrase.start} aria-label=${`Play from ${clock(phrase.start)}`}>${clock(phrase.start)}</button>
    <span class="calls-speaker">Speaker ${phrase.speaker}</span>
    <p>${phrase.words.map((each, at) => html`<${Word} key=${at} word=${each} isCurrent=${at === word} isMatch=${matches(each.text, wanted)} /> `)}</p>
  </li>`

function Word({ word, isCurrent, isMatch }) {
  const unsure = word.confidence !== null && word.confidence < LOW_CONFIDENCE
  const text = isMatch ? html`<mark>${word.text}</mark>` : word.text
  return html`<span class="calls-word" data-at=${word.start} data-now=${isCurrent || undefined} data-unsure=${unsure || undefined} title=${unsure ? `Confidence ${percent(word.confidence)}` : undefined}>${text}</span>`
}
