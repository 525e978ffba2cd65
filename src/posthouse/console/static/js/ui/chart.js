// Figures over time, as lines and bars that a screen reader can be told about.
import { html, useEffect, useRef, useState } from "../lib.js"
import { exactly, short, timeOfDay } from "../format.js"

const MARGIN = { top: 8, right: 8, bottom: 20, left: 40 }

/** The width of an element, as it changes. */
function useWidth() {
  const box = useRef(null)
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)))
    watcher.observe(box.current)
    return () => watcher.disconnect()
  }, [])
  return [box, width]
}

/** A round number at or above the greatest one. */
export function ceiling(most) {
  if (!(most > 0)) return 1
  const size = 10 ** Math.floor(Math.log10(most))
  return [1, 2, 2.5, 5, 10].map((step) => step * size).find((value) => value >= most)
}

/**
 * `points`: [{at, …}], `series`: [{name, of(point), tone, kind: "line" | "area" | "bars"}]. `write` formats a value.
 * Points without a value leave a gap.
 */
export function Chart({ label, points, series, height = 180, write = short }) {
  const [box, width] = useWidth()
  const [near, setNear] = useState(null)
  const inner = { width: Math.max(0, width - MARGIN.left - MARGIN.right), height: height - MARGIN.top - MARGIN.bottom }
  const values = points.flatMap((point) => series.map(({ of }) => of(point))).filter((value) => value !== null && value !== undefined)
  const top = ceiling(Math.max(0, ...values))
  const x = (place) => MARGIN.left + (points.length > 1 ? (place / (points.length - 1)) * inner.width : inner.width / 2)
  const y = (value) => MARGIN.top + inner.height * (1 - value / top)
  const move = (event) => {
    const share = (event.offsetX - MARGIN.left) / inner.width
    const place = Math.round(share * (points.length - 1))
    setNear(points[place] ? place : null)
  }
  return html`
    <figure class="chart" ref=${box} style=${{ height: `${height + 24}px` }}>
      <figcaption>${series.map(({ name, tone, of }) => html`<span key=${name} data-tone=${tone}><i></i>${name}${near !== null && html` <b class="figure">${write(of(points[near]))}</b>`}</span>`)}
        ${near !== null && html`<span class="faint figure">${exactly(points[near].at)}</span>`}</figcaption>
      ${width > 0 && points.length > 0 && html`
        <svg width=${width} height=${height} role="img" aria-label=${`${label}: ${series.map(({ name, of }) => `${name} ${write(of(points.at(-1)))}`).join(", ")} now`}
          onPointerMove=${move} onPointerLeave=${() => setNear(null)}>
          ${[0, 0.5, 1].map((share) => html`
            <g key=${share} class="grid"><line x1=${MARGIN.left} x2=${width - MARGIN.right} y1=${y(top * share)} y2=${y(top * share)} />
            <text x=${MARGIN.left - 6} y=${y(top * share)} dy="0.320em" text-anchor="end">${write(top * share)}</text></g>`)}
          ${ticks(points, inner.width).map((place) => html`<text key=${place} class="tick" x=${x(place)} y=${height - 4} text-anchor=${place === 0 ? "start" : "middle"}>${timeOfDay(points[place].at)}</text>`)}
          ${series.map(({ name, of, tone, kind = "line" }) => html`<g key=${name} data-tone=${tone}>${kind === "bars" ? bars(points, of, x, y, inner.width) : line(points, of, x, y, kind === "area" && y(0))}</g>`)}
          ${near !== null && html`<line class="near" x1=${x(near)} x2=${x(near)} y1=${MARGIN.top} y2=${height - MARGIN.bottom} />`}
        </svg>`}
    </figure>`
}

function ticks(points, width) {
  const wanted = Math.max(2, Math.floor(width / 110))
  const step = Math.max(1, Math.ceil(points.length / wanted))
  return points.map((_, place) => place).filter((place) => place % step === 0)
}

/** One path with a gap wherever nothing is known. */
function path(points, of, x, y) {
  let pen = "M"
  return points.map((point, place) => {
    const value = of(point)
    if (value === null || value === undefined) {
      pen = "M"
      return ""
    }
    const step = `${pen}${x(place).toFixed(1)} ${y(value).toFixed(1)}`
    pen = "L"
    return step
  }).join("")
}

function line(points, of, x, y, ground) {
  const drawn = path(points, of, x, y)
  const known = points.map((point, place) => (of(point) === null || of(point) === undefined ? null : place)).filter((place) => place !== null)
  return html`${ground && known.length > 1 && html`<path class="area" d=${`${path(points.slice(known[0], known.at(-1) + 1), (p) => of(p) ?? 0, (n) => x(n + known[0]), y)}L${x(known.at(-1))} ${ground}L${x(known[0])} ${ground}Z`} />`}<path class="line" d=${drawn} />`
}

function bars(points, of, x, y, width) {
  const thick = Math.max(1, (width / Math.max(1, points.length)) * 0.7)
  return points.map((point, place) => of(point) > 0 && html`<rect key=${place} class="fill" x=${x(place) - thick / 2} width=${thick} y=${y(of(point))} height=${Math.max(1, y(0) - y(of(point)))} />`)
}

/** A few figures in a row, as high as a line of text. */
export function Sparkline({ values, label, tone = "bad", width = 96, height = 24 }) {
  const top = Math.max(1, ...values)
  const thick = width / Math.max(1, values.length)
  return html`
    <svg class="sparkline" data-tone=${tone} width=${width} height=${height} role="img" aria-label=${label}>
      ${values.map((value, place) => html`<rect key=${place} class="fill" x=${place * thick} width=${Math.max(1, thick - 1)} y=${height - Math.max(value ? 2 : 1, (value / top) * height)} height=${Math.max(value ? 2 : 1, (value / top) * height)} opacity=${value ? 1 : 0.3} />`)}
    </svg>`
}
