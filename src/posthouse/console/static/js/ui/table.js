// Tables that breathe; on a phone every row is a card.
import { cls, html, useMemo, useRef } from "../lib.js"

/**
 * `columns`: [{name, text, cell(row), align, wide, hidden}], the first names the row. `selection`: {has(row), all, toggle(row), toggleAll()}.
 * `rowKey(row)` stays the same while the row changes, so that nothing jumps. Rows are drawn again when they are other
 * objects, or `columns` is.
 */
export function Table({ columns, rows, rowKey, selection, label, rowClass, faint }) {
  return html`
    <div class=${cls("table-box", faint && "stale")} tabindex="0" role="region" aria-label=${label}>
      <table aria-label=${label}>
        <thead><tr>
          ${selection && html`<th class="pick"><input type="checkbox" aria-label="Select all on this page" checked=${selection.all} onChange=${selection.toggleAll} /></th>`}
          ${columns.map(({ name, text, align, wide }) => html`<th key=${name} scope="col" data-align=${align} class=${cls(wide && "wide")}>${text}</th>`)}
        </tr></thead>
        <tbody>
          ${rows.map((row) => html`<${Row} key=${rowKey(row)} id=${rowKey(row)} row=${row} columns=${columns} class=${rowClass?.(row)} selected=${selection?.has(row)} toggle=${selection?.toggle} />`)}
        </tbody>
      </table>
    </div>`
}

/** A row that nothing happened to is not drawn again: in a busy list few of many change. */
function Row({ id, row, columns, class: name, selected, toggle }) {
  const act = useRef(toggle)
  act.current = toggle
  return useMemo(() => html`
    <tr class=${name} data-key=${id}>
      ${toggle && html`<td class="pick"><input type="checkbox" aria-label=${`Select ${id}`} checked=${selected} onChange=${() => act.current(row)} /></td>`}
      ${columns.map(({ name: column, text, cell, align, wide }) => html`<td key=${column} data-label=${text} data-align=${align} class=${cls(wide && "wide")}>${cell(row)}</td>`)}
    </tr>`, [id, row, columns, name, selected, Boolean(toggle)])
}
