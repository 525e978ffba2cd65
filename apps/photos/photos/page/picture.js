// A picture in the gallery, and its dialog.
import { bytes } from "posthouse/format.js"
import { html } from "posthouse/preact.js"
import { DescriptionList, Tag } from "posthouse/components/display.js"
import { Dialog } from "posthouse/components/dialog.js"
import { fileUrl } from "./library.js"

const SHOWN_TAGS = 6

/** One tag per keyword; a trained one stands for the automatic one of the same name. */
const tagsOf = (picture) => [...new Map(picture.tags.toReversed().map((tag) => [tag.keyword, tag])).values()].toReversed()

const nameOf = (picture) => picture.path.split("/").at(-1)

const KeywordTag = ({ tag }) => html`<${Tag} data-source=${tag.source} title=${`${tag.source}, confidence ${Math.round(100 * tag.confidence)} %`}>${tag.keyword}<//>`

export function Picture({ picture, onOpen }) {
  const tags = tagsOf(picture)
  return html`
    <li class="card photos-tile">
      <button type="button" class="photos-open" aria-label=${`Open ${nameOf(picture)}`} disabled=${Boolean(picture.fault)} onClick=${onOpen}>
        ${picture.fault ? html`<span class="photos-unreadable">${picture.fault}</span>` : html`<img loading="lazy" alt="" width=${picture.width} height=${picture.height} src=${fileUrl(picture, "thumbnail")} />`}
      </button>
      <b class="clip" title=${picture.path}>${nameOf(picture)}</b>
      <span class="photos-tags">${tags.slice(0, SHOWN_TAGS).map((tag) => html`<${KeywordTag} key=${tag.keyword} tag=${tag} />`)}</span>
    </li>`
}

export function PictureDialog({ picture, onClose }) {
  if (!picture) return null
  return html`
    <${Dialog} wide title=${nameOf(picture)} onClose=${onClose}>
      <img class="photos-original" alt=${nameOf(picture)} width=${picture.width} height=${picture.height} src=${fileUrl(picture, "original")} />
      <p class="photos-tags">${tagsOf(picture).map((tag) => html`<${KeywordTag} key=${tag.keyword} tag=${tag} />`)}</p>
      <${DescriptionList} items=${[["Path", html`<code>${picture.path}</code>`], ["Pixels", `${picture.width} × ${picture.height}`], ["Size", bytes(picture.size)]]} />
    <//>`
}
