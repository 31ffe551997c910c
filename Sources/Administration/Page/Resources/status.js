// Upstreams, certificates, configuration: what the gateway says of itself.

import { count, element, facts, fill, find, mark, moment } from "./dom.js"

const dayLength = 86_400_000

export function show(status) {
  upstreams(status.upstreams)
  rollout(status.observed_routes ?? [])
  policies(status.policies ?? [])
  certificates(status.certificates)
  configuration(status)
}

function standing(states) {
  const entries = Object.entries(states), workers = entries.reduce((total, [, number]) => total + number, 0)
  if (!workers) return mark("plain", "not known")
  if (states.usable === workers) return mark("good", "usable")
  const text = entries.filter(([name]) => name !== "usable").map(([name, number]) =>
    workers === 1 ? name : `${name} for ${number} of ${workers} workers`).join(", ")
  return mark(states.usable ? "warn" : "bad", text)
}

function upstreams(list) {
  fill(find("upstream-table").tBodies[0], ...list.flatMap(upstream => upstream.servers.map((server, place) =>
    element("tr", {}, element("td", {}, upstream.name), element("td", {}, server.name), element("td", {}, standing(server.states)),
      element("td", { class: "number" }, count(server.busy)), element("td", { class: "number" }, count(server.idle)),
      element("td", { class: "number" }, place ? "" : count(upstream.waiting))))))
}

function share(part, whole) { return whole ? `${(Math.floor(part * 1000 / whole) / 10).toFixed(1)} %` : "" }

// Routes that are not enforced on every device.
function rollout(list) {
  find("rollout").hidden = !list.length
  fill(find("rollout-table").tBodies[0], ...list.map(each => element("tr", {},
    element("td", {}, each.route), element("td", {}, each.enforce), element("td", {}, each.app ?? "none"),
    element("td", { class: "wide" }, each.version ?? ""),
    ...[each.last_hour, each.last_day].flatMap(span => [
      element("td", { class: "number" }, count(span.requests)), element("td", { class: "number" }, share(span.passed, span.requests))]),
    element("td", {}, Object.entries(each.last_day.denials).sort((a, b) => b[1] - a[1])
      .map(([code, number]) => `${code} ${share(number, each.last_day.requests)}`).join(", ")))))
}

// Decisions of policies; a simulated one only counts whom it would refuse.
function policies(list) {
  find("policies").hidden = !list.length
  fill(find("policy-table").tBodies[0], ...list.map(each => element("tr", {},
    element("td", {}, each.policy), element("td", {}, each.simulated ? mark("plain", "simulated") : "enforced"),
    ...[each.last_hour, each.last_day].flatMap(span => [
      element("td", { class: "number" }, count(span.decisions)),
      element("td", { class: "number" }, share(span.denied, span.decisions))]),
    element("td", {}, [...Object.entries(each.last_hour.violations).sort((a, b) => b[1] - a[1]),
      ...(each.last_hour.unavailable ? [["without a decision", each.last_hour.unavailable]] : [])]
      .map(([code, number]) => `${code} ${share(number, each.last_hour.decisions)}`).join(", ")))))
}

function ending(time) {
  const days = Math.floor((new Date(time) - Date.now()) / dayLength)
  if (days < 0) return mark("bad", "ended")
  if (days < 30) return mark("warn", days === 0 ? "within a day" : `in ${days} day${days === 1 ? "" : "s"}`)
  return mark("good", `in ${count(days)} days`)
}

function certificates(list) {
  const sorted = [...list].sort((a, b) => a.expires_at.localeCompare(b.expires_at))
  fill(find("certificate-table").tBodies[0], ...sorted.map(each => element("tr", {},
    element("td", {}, ending(each.expires_at), " ", moment(each.expires_at)),
    element("td", {}, [each.listener, each.host, each.upstream && `upstream ${each.upstream}`].filter(Boolean).join(", ")),
    element("td", {}, each.role), element("td", {}, each.subject))))
}

function statusList(list) {
  if (!list) return null
  if (list.state !== "current") return mark("bad", `${list.state}: no Android phone can enrol`)
  const text = `${count(list.entries)} revoked keys, confirmed ${count(list.age_seconds)} s ago`
  return list.failure ? mark("warn", `${text}; ${list.failure}`) : mark("good", text)
}

function issuerKeys(keys) {
  if (!keys) return null
  if (keys.state !== "current") return mark("bad", `${keys.state}: no admission token is accepted`)
  const text = `${count(keys.entries)} of ${keys.source}, confirmed ${count(keys.age_seconds)} s ago`
  return keys.failure ? mark("warn", `${text}; ${keys.failure}`) : mark("good", text)
}

function configuration(status) {
  const last = status.last_reload
  const workers = status.workers.filter(worker => !worker.up)
  fill(find("configuration-facts"), ...facts([
    ["Ready", status.obstacles.length ? mark("bad", status.obstacles.join("; ")) : mark("good", "for new connections")],
    ["Generation", String(status.generation)],
    ["Last reload", last ? element("span", {}, last.succeeded ? mark("good", "succeeded") : mark("bad", "failed"), " ", moment(last.at)) : "none yet"],
    ["Why", last?.reason, "report"],
    ["Failed upgrade", status.failed_upgrade && element("span", {}, mark("bad", status.failed_upgrade.reason), " ", moment(status.failed_upgrade.at))],
    ["Workers", workers.length ? mark("bad", `${workers.length} of ${status.workers.length} do not answer`) : String(status.workers.length)],
    ["Listeners", status.listeners.join(", ")],
    ["Enrolment", status.enrolment && `${status.enrolment.listener}, admission: ${status.enrolment.admission}`],
    ["Enrolled devices", status.enrolment?.devices_listener],
    ["Status list", statusList(status.enrolment?.status_list)],
    ["Issuer keys", issuerKeys(status.enrolment?.issuer_keys)],
    ["Apps", status.apps.map(app => `${app.id} (${app.environment})`).join(", ")],
    ["Registry", status.registry && (status.registry.available
      ? mark("good", `available, ${count(status.registry.counters_waiting)} counters wait`) : mark("bad", `not available since ${status.registry.unavailable_since}: ${status.registry.reason}`))],
    ["Devices", status.registry?.devices
      && `${count(status.registry.devices.active)} active, ${count(status.registry.devices.pending)} pending, ${count(status.registry.devices.revoked)} revoked`],
    ["Revocation journal", status.registry?.journal_complete === undefined ? null
      : status.registry.journal_complete ? mark("good", "complete") : mark("bad", "cannot be written")],
    ["Epoch changed", status.registry?.epoch_changed_at && moment(status.registry.epoch_changed_at)],
    ["Version", `${status.version}, process ${status.process}`],
    ["Started", moment(status.started_at)],
  ]))
}
