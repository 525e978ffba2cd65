// Search by meaning, and the state of the embeddings.
import { site, useApi } from "posthouse/api.js"
import { html, useEffect, useState } from "posthouse/lib.js"
import { Empty, Loaded } from "posthouse/ui/basics.js"

const LIVE = 2000
const TYPING = 150

export function Search({ query }) {
  const [text, setText] = useState(query.q ?? "")
  const [asked, setAsked] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), TYPING)
    return () => clearTimeout(timer)
  }, [text])
  return html`
    <div class="embeddings">
      <${Figures} />
      <input type="search" aria-label="Search rules by meaning" placeholder="Search rules by meaning" value=${text}
        onInput=${(event) => setText(event.target.value)} />
      ${asked ? html`<${Hits} asked=${asked} />` : html`<${Empty} title="Type to search">Similar rules appear here with their scores.<//>`}
    </div>`
}

function Figures() {
  const found = useApi(site("/embeddings/coverage"), {}, { every: LIVE })
  return html`<${Loaded} from=${found}>${(now) => html`
    <dl class="embeddings-figures" aria-label="State">
      <${Figure} name="Coverage" value=${`${now.embedded} of ${now.rules}`} hint="Rules whose current text is embedded." />
      <${Figure} name="Queue" value=${now.queued + now.running} hint=${`${now.running} running, ${now.failed} failed.`} />
      <${Figure} name="Saved by deduplication" value=${now.reused} hint=${`${now.computed} texts were computed.`} />
      <${Figure} name="Model" value=${now.model} hint=${now.next_model ? `Changing to ${now.next_model}: ${now.next_done} of ${now.texts} texts.` : "Serves all searches."} />
    </dl>`}<//>`
}

const Figure = ({ name, value, hint }) => html`
  <div class="embeddings-figure"><dt>${name}</dt><dd><strong>${value}</strong><span>${hint}</span></dd></div>`

function Hits({ asked }) {
  const found = useApi(site("/embeddings/search"), { q: asked, limit: 10 })
  return html`<${Loaded} from=${found}>${(rules) => rules.length
    ? html`<ol class="embeddings-hits" aria-label="Similar rules">${rules.map((rule) => html`<${Hit} key=${rule.id} rule=${rule} />`)}</ol>`
    : html`<${Empty} title="No rules yet">Insert rules in SQL or with POST /embeddings/rules.<//>`}<//>`
}

const Hit = ({ rule }) => html`
  <li>
    <div><strong>${rule.title}</strong> <span>${rule.rule_id}</span></div>
    <meter min="0" max="1" value=${Math.max(0, rule.similarity)} aria-label="Similarity" />
    <span class="embeddings-score">${rule.similarity.toFixed(3)}</span>
    <p>${rule.guidance} ${rule.rationale}</p>
  </li>`
