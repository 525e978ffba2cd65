// Charts of values over time, with a text summary for screen readers.
import { dayOf, duration, formatCompact, timeOfDay } from "../format.js"
import { html, useEffect, useRef, useState } from "../preact.js"

const MARGIN = { top: 8, right: 8, bottom: 20 }
const [MINUTE, HOUR, DAY] = [60, 3600, 86_400]
/** Axis maxima in seconds whose half is a round time too. */
const TIMES = [MINUTE, 2 * MINUTE, 4 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 12 * HOUR, DAY]
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * MINUTE)

/** The current width of an element. */
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

/** The axis maximum: a round number at or above `most` whose half is round too. */
function niceMaximum(most, ofTime) {
  if (ofTime && most > 40 && most <= DAY) return TIMES.find((value) => value >= most)
  const least = Math.max(most, ofTime ? 0.01 : 2)
  const unit = ofTime && most > DAY ? DAY : 1
  const size = 10 ** Math.floor(Math.log10(least / unit)) * unit
  return [1, 2, 4, 6, 8, 10].map((step) => step * size).find((value) => value >= least * 0.9999)
}

/**
 * `points`: [{at, …}], `series`: [{name, of(point), tone, kind: "line" | "area" | "bars"}]. `format` formats a value.
 * Points without a value leave a gap.
 */
export function Chart({ label, points, series, height = 180, format = formatCompact }) {
  const [box, width] = useWidth()
  const [hoverIndex, setHoverIndex] = useState(null)
  const values = points.flatMap((point) => series.map(({ of }) => of(point))).filter((value) => value !== null && value !== undefined)
  const top = niceMaximum(Math.max(0, ...values), format === duration)
  const gridValues = [0, 0.5, 1].map((share) => [top * share, share ? format(top * share).replace(".0 ", " ") : "0"])
  const left = 16 + 6 * Math.max(...gridValues.map(([, text]) => text.length))
  const inner = { width: Math.max(0, width - left - MARGIN.right), height: height - MARGIN.top - MARGIN.bottom }
  const x = (index) => left + ((index + 0.5) / points.length) * inner.width
  const y = (value) => MARGIN.top + inner.height * (1 - value / top)
  const move = (event) => {
    const index = Math.floor(((event.offsetX - left) / inner.width) * points.length)
    setHoverIndex(points[index] ? index : null)
  }
  return html`
    <figure class="chart" ref=${box} style=${{ height: `${height + 24}px` }}>
      <figcaption>${series.map(({ name, tone, of }) => html`<span key=${name} data-tone=${tone}><i></i>${name}${hoverIndex !== null && html` <b class="figure">${format(of(points[hoverIndex]))}</b>`}</span>`)}
        ${hoverIndex !== null && html`<span class="faint figure">${momentOf(points, hoverIndex)}</span>`}</figcaption>
      ${points.length === 0 && html`<p>No data in this time range.</p>`}
      ${width > 0 && points.length > 0 && html`
        <svg width=${width} height=${height} role="img" aria-label=${`${label}: ${series.map(({ name, of }) => `${name} ${format(of(points.at(-1)))}`).join(", ")} now`}
          onPointerMove=${move} onPointerLeave=${() => setHoverIndex(null)}>
          ${gridValues.map(([value, text], index) => html`
            <g key=${index} class="grid"><line x1=${left} x2=${width - MARGIN.right} y1=${y(value)} y2=${y(value)} />
            <text x=${left - 8} y=${y(value)} dy="0.320em" text-anchor="end">${text}</text></g>`)}
          ${ticks(points, inner.width).filter((index) => x(index) < width - 20).map((index) => html`<text key=${index} class="tick" x=${x(index)} y=${height - 4} text-anchor="middle">${tickOf(points, index)}</text>`)}
          ${series.map(({ name, of, tone, kind = "line" }) => html`<g key=${name} data-tone=${tone}>${kind === "bars" ? bars(points, of, x, y, inner.width) : line(points, of, x, y, kind === "area" && y(0))}</g>`)}
          ${hoverIndex !== null && html`<line class="near" x1=${x(hoverIndex)} x2=${x(hoverIndex)} y1=${MARGIN.top} y2=${height - MARGIN.bottom} />`}
        </svg>`}
    </figure>`
}

const spanOf = (points) => (new Date(points.at(-1).at) - new Date(points[0].at)) / 1000

/** Seconds of local time. */
const local = ({ at }) => new Date(at) / 1000 - new Date(at).getTimezoneOffset() * 60

/** Where a round time begins: full hours, quarters, days. */
function ticks(points, width) {
  const apart = spanOf(points) / Math.max(2, Math.floor(width / 90))
  const step = TICKS.find((each) => each >= apart) ?? Math.ceil(apart / DAY) * DAY
  return points.map((_, index) => index).filter((index) => index > 0 && Math.floor(local(points[index]) / step) !== Math.floor(local(points[index - 1]) / step))
}

const tickOf = (points, index) => (spanOf(points) > DAY && local(points[index]) % DAY < 6 * HOUR && Math.floor(local(points[index]) / DAY) !== Math.floor(local(points[index - 1]) / DAY) ? dayOf(points[index].at) : timeOfDay(points[index].at))

const momentOf = (points, index) => `${spanOf(points) > DAY ? `${dayOf(points[index].at)}, ` : ""}${timeOfDay(points[index].at)}`

/** One path with a gap where a point has no value. */
function path(points, of, x, y) {
  let pen = "M"
  return points.map((point, index) => {
    const value = of(point)
    if (value === null || value === undefined) {
      pen = "M"
      return ""
    }
    const step = `${pen}${x(index).toFixed(1)} ${y(value).toFixed(1)}`
    pen = "L"
    return step
  }).join("")
}

function line(points, of, x, y, ground) {
  const drawn = path(points, of, x, y)
  const known = points.map((point, index) => (of(point) === null || of(point) === undefined ? null : index)).filter((index) => index !== null)
  return html`${ground && known.length > 1 && html`<path class="area" d=${`${path(points.slice(known[0], known.at(-1) + 1), (p) => of(p) ?? 0, (n) => x(n + known[0]), y)}L${x(known.at(-1))} ${ground}L${x(known[0])} ${ground}Z`} />`}<path class="line" d=${drawn} />`
}

function bars(points, of, x, y, width) {
  const thick = Math.max(1, (width / Math.max(1, points.length)) * 0.7)
  return points.map((point, index) => of(point) > 0 && html`<rect key=${index} class="fill" x=${x(index) - thick / 2} width=${thick} y=${y(of(point))} height=${Math.max(1, y(0) - y(of(point)))} />`)
}

/** A small bar chart, as high as a line of text. */
export function Sparkline({ values, label, tone = "bad", width = 96, height = 24 }) {
  const top = Math.max(1, ...values)
  const thick = width / Math.max(1, values.length)
  return html`
    <svg class="sparkline" data-tone=${tone} width=${width} height=${height} role="img" aria-label=${label}>
      ${values.map((value, index) => html`<rect key=${index} class="fill" x=${index * thick} width=${Math.max(1, thick - 1)} y=${height - Math.max(value ? 2 : 1, (value / top) * height)} height=${Math.max(value ? 2 : 1, (value / top) * height)} opacity=${value ? 1 : 0.3} />`)}
    </svg>`
}
