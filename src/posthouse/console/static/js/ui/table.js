// Responsive table: rows become cards on narrow screens.
import { cls, html } from "../lib.js"
import { meaningOf } from "./terms.js"

/**
 * `columns`: [{name, text, cell(row), align, wide, hidden}], the first names the row. `selection`: {has(row), all, toggle(row), toggleAll()}.
 * `rowKey(row)` identifies a row across updates.
 */
export function Table({ columns, rows, rowKey, selection, label, rowClass, faint }) {
  return html`
    <div class=${cls("table-box", faint && "stale")} tabindex="0" role="region" aria-label=${label}>
      <table aria-label=${label}>
        <thead><tr>
          ${selection && html`<th class="pick"><input type="checkbox" aria-label="Select all on this page" checked=${selection.all} onChange=${selection.toggleAll} /></th>`}
          ${columns.map(({ name, text, align, wide }) => html`<th key=${name} scope="col" data-align=${align} class=${cls(wide && "wide")} title=${meaningOf(text)}>${text}</th>`)}
        </tr></thead>
        <tbody>
          ${rows.map((row) => html`
            <tr key=${rowKey(row)} class=${rowClass?.(row)} data-key=${rowKey(row)}>
              ${selection && html`<td class="pick"><input type="checkbox" aria-label=${`Select ${rowKey(row)}`} checked=${selection.has(row)} onChange=${() => selection.toggle(row)} /></td>`}
              ${columns.map(({ name, text, cell, align, wide }) => html`<td key=${name} data-label=${text} data-align=${align} class=${cls(wide && "wide")}>${cell(row)}</td>`)}
            </tr>`)}
        </tbody>
      </table>
    </div>`
}
