// Search by meaning, and the state of the embeddings.
import { site, useApi } from "posthouse/api.js"
import { html, useEffect, useState } from "posthouse/preact.js"
import { AsyncContent, EmptyState, StatTile } from "posthouse/components/display.js"
import { formatInteger } from "posthouse/format.js"

const POLL_MS = 2000
const DEBOUNCE_MS = 150

export function Search({ query }) {
  const [text, setText] = useState(query.q ?? "")
  const [asked, setAsked] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), DEBOUNCE_MS)
    return () => clearTimeout(timer)
  }, [text])
  return html`
    <div class="embeddings">
      <${Figures} />
      <input type="search" aria-label="Search rules by meaning" placeholder="Search rules by meaning" value=${text}
        onInput=${(event) => setText(event.target.value)} />
      ${asked ? html`<${SearchResults} text=${asked} />` : html`<${EmptyState} title="Type to search">Similar rules appear here with their scores.<//>`}
    </div>`
}

function Figures() {
  const found = useApi(site("/embeddings/coverage"), {}, { every: POLL_MS })
  return html`<${AsyncContent} request=${found}>${(now) => html`
    <div class="tiles embeddings-figures" role="group" aria-label="State">
      <${StatTile} name="Coverage" value=${`${formatInteger(now.embedded)} of ${formatInteger(now.rules)}`} hint="rules whose current text is embedded" />
      <${StatTile} name="Queue" value=${formatInteger(now.queued + now.running)} hint=${`${formatInteger(now.running)} running, ${formatInteger(now.failed)} failed`} />
      <${StatTile} name="Saved by deduplication" value=${formatInteger(now.reused)} hint=${`${formatInteger(now.computed)} texts computed`} />
      <${StatTile} name="Model" value=${html`<span class="word">${now.model}</span>`} hint=${now.next_model ? `changing to ${now.next_model}: ${formatInteger(now.next_done)} of ${formatInteger(now.texts)} texts` : "serves all searches"} />
    </div>`}<//>`
}

function SearchResults({ text }) {
  const found = useApi(site("/embeddings/search"), { q: text, limit: 10 })
  return html`<${AsyncContent} request=${found}>${(rules) => rules.length
    ? html`<ol class="embeddings-hits" aria-label="Similar rules">${rules.map((rule) => html`<${SearchResult} key=${rule.id} rule=${rule} />`)}</ol>`
    : html`<${EmptyState} title="No rules yet">Insert rules in SQL or with POST /embeddings/rules.<//>`}<//>`
}

const SearchResult = ({ rule }) => html`
  <li>
    <div><strong>${rule.title}</strong> <span>${rule.rule_id}</span></div>
    <meter min="0" max="1" value=${Math.max(0, rule.similarity)} aria-label="Similarity" />
    <span class="embeddings-score">${rule.similarity.toFixed(3)}</span>
    <p>${rule.guidance} ${rule.rationale}</p>
  </li>`
