// The table of live decisions.

import { announce, clock, code, count, element, facts, find, mark, span } from "./dom.js"

const limit = 400
const rows = []                   // of the latest decisions, newest first
let waiting = []                  // came while the table was held
let lastAnnounced = 0
let unannounced = 0
let showDevice = () => {}

const body = () => find("decision-table").tBodies[0]
const isPaused = () => find("pause").getAttribute("aria-pressed") === "true"
const isRefused = decision => decision.denial !== undefined || decision.aborted === true

export function start(openDevice) {
  showDevice = openDevice
  find("decision-filter").addEventListener("submit", event => event.preventDefault())
  find("decision-kind").addEventListener("change", filter)
  find("decision-text").addEventListener("input", filter)
  find("pause").addEventListener("click", () => {
    const pause = !isPaused()
    find("pause").setAttribute("aria-pressed", String(pause))
    if (!pause) show()
    report()
  })
}

export function clear() {
  rows.length = 0
  waiting = []
  body().replaceChildren()
  report()
}

/** - decisions: oldest first. */
export function add(decisions) {
  if (!decisions.length) return
  waiting.push(...decisions)
  waiting.splice(0, waiting.length - limit)
  unannounced += decisions.filter(decision => decision.denial !== undefined).length
  if (unannounced && Date.now() - lastAnnounced > 8_000) {
    const last = decisions.findLast(decision => decision.denial !== undefined)
    if (last) announce(unannounced === 1 ? `Refused: ${last.denial}` : `${unannounced} refused, the last: ${last.denial}`)
    lastAnnounced = Date.now()
    unannounced = 0
  }
  if (!isPaused()) show()
  report()
}

function show() {
  for (const decision of waiting) {
    const row = makeRow(decision)
    rows.unshift({ decision, row })
    row.hidden = !matches(decision)
    body().prepend(row)
  }
  waiting = []
  for (const { row } of rows.splice(limit)) {
    if (row.nextElementSibling?.classList.contains("details")) row.nextElementSibling.remove()
    row.remove()
  }
}

function report() {
  const shown = rows.filter(({ row }) => !row.hidden).length
  find("no-decisions").hidden = shown > 0
  find("no-decisions").textContent = rows.length ? "Nothing of what came fits." : "Nothing has been decided yet."
  find("decision-count").textContent = isPaused()
    ? `held; ${count(waiting.length)} came since` : shown < rows.length ? `${shown} of ${rows.length}` : ""
}

function matches(decision) {
  if (find("decision-kind").value === "refused" && !isRefused(decision)) return false
  const text = find("decision-text").value.trim().toLowerCase()
  return !text || Object.values(decision).some(value => String(value).toLowerCase().includes(text))
}

function filter() {
  for (const { decision, row } of rows) {
    row.hidden = !matches(decision)
    if (row.nextElementSibling?.classList.contains("details")) row.nextElementSibling.hidden = row.hidden
  }
  report()
}

function verdict(decision) {
  if (decision.denial !== undefined) return mark("bad", decision.denial)
  if (decision.aborted) return mark("warn", "client left")
  if (decision.would_deny !== undefined) return mark("warn", `would deny: ${decision.would_deny}`)
  return mark(decision.status >= 500 ? "warn" : "good", decision.decision ?? decision.event)
}

/** The device that the log knows by that id; undefined if no decision here is about it. */
export const numberOf = id => rows.find(({ decision }) => decision.device === id)?.decision.device_number

function makeRow(decision) {
  const expander = element("button", {
    type: "button", class: "expander", "aria-expanded": "false", onclick: () => toggle(row, expander, decision),
  }, element("time", { datetime: decision.time }, clock(decision.time)))
  // Without a route the gateway itself answers nothing else.
  const place = decision.route ?? (decision.decision === "answered" ? "challenge" : "no route")
  const request = decision.event === "connection_refused" ? "connection" : [decision.method, place].filter(Boolean).join(" ")
  const device = decision.device_number === undefined ? "–" : element("button", {
    type: "button", class: "link", onclick: () => showDevice(decision.device_number),
  }, `device ${decision.device_number}`)
  const row = element("tr", { class: isRefused(decision) ? "refused fresh" : "fresh", "data-number": decision.number },
    element("td", {}, expander), element("td", {}, verdict(decision)), element("td", {}, request), element("td", {}, device),
    element("td", { class: "wide" }, decision.client), element("td", { class: "number" }, decision.status ?? "–"),
    element("td", { class: "number wide" }, span(decision.duration_us)))
  return row
}

function toggle(row, expander, decision) {
  const isOpen = expander.getAttribute("aria-expanded") === "true"
  expander.setAttribute("aria-expanded", String(!isOpen))
  if (isOpen) return row.nextElementSibling.remove()
  row.after(element("tr", { class: "details" }, element("td", { colspan: "7" }, element("dl", { class: "facts" }, ...facts([
    ["Why", decision.sentence], ["In detail", decision.detail],
    ["Whose fault", decision.fault], ["Decision", decision.decision], ["Client", decision.client],
    ["Device in the log", decision.device === undefined ? null : code(decision.device)], ["App", decision.app],
    ["Upstream", decision.upstream === undefined ? null : [decision.upstream, decision.server].filter(Boolean).join(", ")],
    ["Protocol", decision.protocol], ["Took", decision.duration_us === undefined ? null : span(decision.duration_us)],
    ["Trace", decision.trace_id === undefined ? null : code(decision.trace_id)],
  ])))))
}
