// Figures and plots, from what Prometheus reads too: differences of counters between two looks.

import { count, drawing, element, facts, fill, find, span } from "./dom.js"

const period = 300               // seconds that are shown
const samples = []               // oldest first: {time, requests, refused, buckets, denials, connections}

/** Prometheus' text format: a function that adds up what has a name and some labels. */
function read(text) {
  const series = []
  for (const line of text.split("\n")) {
    const parts = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line)
    if (!parts) continue
    const labels = {}
    for (const [, key, value] of (parts[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[key] = value
    series.push({ name: parts[1], labels, value: Number(parts[3]) })
  }
  return (name, wanted = {}) => series.filter(
    each => each.name === name && Object.entries(wanted).every(([key, value]) => each.labels[key] === value))
}

const sum = series => series.reduce((total, { value }) => total + value, 0)

export function clear() { samples.length = 0 }

/** Clears the figures when the gateway does not answer: earlier ones are not current. The next `add` restores them. */
export function forgetFigures() {
  for (const figure of find("figures").querySelectorAll("dd")) {
    figure.textContent = "–"
    figure.className = ""
  }
}

export function add(text, time) {
  const series = read(text)
  const buckets = new Map()
  for (const { labels, value } of series("attestgate_request_duration_seconds_bucket", { phase: "total" })) {
    buckets.set(labels.le, (buckets.get(labels.le) ?? 0) + value)
  }
  // A refused connection is a request that never came. It counts among all as it counts among those refused.
  const refused = sum(series("attestgate_denials_total"))
  const connections = refused - sum(series("attestgate_route_denials_total"))
  const sample = {
    time, requests: sum(series("attestgate_requests_total")) + connections, refused,
    denials: new Map(series("attestgate_denials_total").map(({ labels, value }) => [labels.code, value])),
    groups: new Map(series("attestgate_key_exchanges_total").map(({ labels, value }) => [labels.group, value])),
    buckets: [...buckets].map(([bound, value]) => [bound === "+Inf" ? Infinity : Number(bound), value]).sort((a, b) => a[0] - b[0]),
    connections: sum(series("attestgate_connections")),
    store: series("attestgate_registry_available")[0]?.value,
  }
  // Counters that went back are those of another process.
  if (samples.length && sample.requests < samples.at(-1).requests) samples.length = 0
  samples.push(sample)
  while (samples.length > 1 && samples[0].time < time - period * 1_000) samples.shift()
  draw()
}

/** Microseconds; NaN if nothing was measured. Between two bounds all times are taken to lie evenly, as Prometheus does. */
function quantile(share, before, after) {
  const counts = after.map(([bound, value], place) => [bound, value - (before[place]?.[1] ?? 0)])
  const total = counts.at(-1)?.[1] ?? 0
  if (total <= 0) return NaN
  let [low, below] = [0, 0]
  for (const [bound, value] of counts) {
    if (value >= share * total) {
      return 1e6 * (bound === Infinity ? low : low + (bound - low) * (share * total - below) / (value - below))
    }
    [low, below] = [bound, value]
  }
  return NaN
}

function draw() {
  const now = samples.at(-1)
  const steps = samples.slice(1).map((sample, place) => {
    const before = samples[place], seconds = (sample.time - before.time) / 1_000
    return {
      time: sample.time, requests: (sample.requests - before.requests) / seconds,
      refused: (sample.refused - before.refused) / seconds,
      half: quantile(0.5, before.buckets, sample.buckets), most: quantile(0.99, before.buckets, sample.buckets),
    }
  })
  const last = steps.at(-1) ?? { requests: NaN, refused: NaN, half: NaN, most: NaN }
  // A quiet moment says nothing of latency; the minute does.
  const recent = samples.findLast(sample => sample.time <= now.time - 60_000) ?? samples[0]
  figures([
    ["Requests per second", count(last.requests)],
    ["Refused per second", count(last.refused), last.refused > 0 ? "bad" : null],
    ["Median, last minute", span(quantile(0.5, recent.buckets, now.buckets))],
    ["99 of 100 within", span(quantile(0.99, recent.buckets, now.buckets))],
    ["Open connections", count(now.connections)],
    ...now.store === undefined ? [] : [["Registry", now.store ? "available" : "✕ not available", now.store ? null : "bad"]],
  ])
  plot("throughput", steps, [["requests", "all"], ["refused", "refused"]], count)
  plot("latency", steps, [["half", "median"], ["most", "99 of 100"]], span)
  reasons(samples[0].denials, now.denials)
  keyExchanges(samples[0].groups, now.groups)
}

const figures = pairs => fill(find("figures"), ...pairs.map(pair => element("div", {}, ...facts([pair]))))

/** What increased, the most first. */
const increases = (before, now) => [...now].map(([name, value]) => [name, value - (before.get(name) ?? 0)])
  .filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1])

function keyExchanges(before, now) {
  const counted = increases(before, now)
  find("key-exchanges").hidden = counted.length === 0
  find("key-exchanges").textContent =
    `TLS key exchanges in these minutes: ${counted.map(([name, value]) => `${name} ${count(value)}`).join(", ")}.`
}

function reasons(before, now) {
  const counted = increases(before, now).slice(0, 8)
  fill(find("reasons").tBodies[0], ...counted.map(([name, value]) => element("tr", {},
    element("td", {}, name), element("td", { class: "number" }, count(value)))))
  find("reasons").hidden = counted.length === 0
  find("no-reasons").hidden = counted.length > 0
}

/** The next round number: 1, 2 or 5 with zeros. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value))
  return [1, 2, 5, 10].map(factor => factor * power).find(bound => bound >= value * 0.999)
}

function plot(id, steps, kinds, format) {
  const place = find(id), width = Math.max(240, place.clientWidth), height = 192
  const [left, right, top, bottom] = [58, 12, 24, 22]
  const known = steps.flatMap(step => kinds.map(([member]) => step[member])).filter(value => !Number.isNaN(value))
  const high = ceiling(Math.max(id === "latency" ? 1_000 : 1, ...known)), now = samples.at(-1).time
  const x = time => width - right - (now - time) / 1_000 / period * (width - left - right)
  const y = value => height - bottom - value / high * (height - top - bottom)
  const shapes = [0, 0.5, 1].flatMap(share => [
    drawing("line", { class: "grid", x1: left, x2: width - right, y1: y(share * high), y2: y(share * high) }),
    drawing("text", { x: left - 6, y: y(share * high) + 4, "text-anchor": "end" }, format(share * high)),
  ])
  for (const [seconds, text, anchor] of [[period, "5 minutes ago", "start"], [0, "now", "end"]]) {
    shapes.push(drawing("text", { x: x(now - seconds * 1_000), y: height - 6, "text-anchor": anchor }, text))
  }
  const latest = []
  kinds.forEach(([member, name], number) => {
    const kind = number ? "second" : "first"
    let path = "", isDown = false
    for (const step of steps) {
      // Where nothing was measured the line has a gap, and not a zero.
      if (Number.isNaN(step[member])) { isDown = false; continue }
      path += `${isDown ? "L" : "M"}${x(step.time).toFixed(1)} ${y(step[member]).toFixed(1)}`
      if (!isDown) path += "h0.1"
      isDown = true
    }
    shapes.push(drawing("path", { class: `series ${kind}`, d: path }))
    const value = steps.findLast(step => !Number.isNaN(step[member]))?.[member] ?? NaN
    shapes.push(drawing("line", { class: `series ${kind}`, x1: left + number * 150, x2: left + 26 + number * 150, y1: 10, y2: 10 }))
    shapes.push(drawing("text", { class: kind, x: left + 32 + number * 150, y: 14 }, `${name} ${format(value)}`))
    latest.push(`${name} ${format(value)}`)
  })
  place.replaceChildren(drawing("svg", {
    viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${find(id + "-title").textContent}: ${latest.join(", ")}`,
  }, ...shapes))
}
