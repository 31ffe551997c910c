// Devices: search, show, approve, revoke, restore.

import { numberOf } from "./decisions.js"
import { announce, code, day, element, facts, find, mark, moment } from "./dom.js"
import { ask, askJSON } from "./gateway.js"

const pageSize = 500
const shownAtOnce = 100
const pagesAtOnce = 10
let search = null                 // what is looked for, and how far it has come
let confirm = async () => false
let failed = () => {}

export function start(confirming, onFault) {
  confirm = confirming
  failed = onFault
  find("device-search").addEventListener("submit", event => {
    event.preventDefault()
    begin(find("device-text").value.trim(), find("device-state").value)
  })
  find("more-devices").addEventListener("click", goOn)
}

export function clear() {
  search = null
  rows().replaceChildren()
  find("device-table").hidden = find("more-devices").hidden = true
  find("device-outcome").textContent = ""
  find("device-details").close()
}

const rows = () => find("device-table").tBodies[0]
const tell = text => { find("device-outcome").textContent = text }

/** A number or a key id names one device; all else is looked for in the list. */
async function begin(text, state) {
  rows().replaceChildren()
  find("device-table").hidden = find("more-devices").hidden = true
  if (/^[0-9a-f]{16}$/.test(text)) {
    // The gateway knows no way back from the log's id but to look at all devices, which the command does.
    const number = numberOf(text)
    if (number === undefined) {
      search = null
      return tell(`That is an id of the log, of none of the decisions above. “attestgate device show ${text}” finds it.`)
    }
    text = String(number)
  }
  if (/^\d+$|^[0-9a-fA-F]{64}$|^[\w+/-]{43}=?$/.test(text)) {
    search = null
    tell("Searching …")
    try {
      const device = await askJSON(`/devices/${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`)
      add([device])
      tell("One device.")
    } catch (fault) {
      tell(fault.status === 404 ? "There is no such device." : "")
      if (fault.status !== 404) failed(fault)
    }
    return
  }
  search = { text: text.toLowerCase(), state, after: 0, found: 0, looked: 0 }
  await goOn()
}

async function goOn() {
  const current = search
  find("more-devices").hidden = true
  tell("Searching …")
  let shown = 0
  try {
    for (let page = 0; page < pagesAtOnce && shown < shownAtOnce && current.after !== null; page += 1) {
      const state = current.state === "pending" ? "state=pending&" : ""
      const limit = current.text || current.state ? pageSize : shownAtOnce
      const answer = await askJSON(`/devices?${state}after=${current.after}&limit=${limit}`)
      if (search !== current) return
      const fitting = answer.devices.filter(device => device.app_id.toLowerCase().includes(current.text)
        && (!current.state || device.state === current.state))
      add(fitting)
      shown += fitting.length
      current.looked += answer.devices.length
      current.after = answer.next
    }
  } catch (fault) {
    tell("")
    return failed(fault)
  }
  current.found += shown
  const isAll = current.after === null
  find("more-devices").hidden = isAll
  tell(`${current.found} found` + (isAll ? "." : `, after a look at ${current.looked}. There are more.`))
}

const states = { active: "good", pending: "warn", revoked: "bad" }

function buttons(device) {
  const button = (title, kind, action) => element("button", {
    type: "button", class: `change ${kind}`, "aria-label": `${title} device ${device.device}`, onclick: action,
  }, title)
  const made = []
  if (device.state === "pending") made.push(button("Approve", "", () => change(device, "approve")))
  if (device.state === "revoked") made.push(button("Restore", "", () => change(device, "restore")))
  else made.push(button("Revoke", "danger", () => change(device, "revoke")))
  return made
}

function makeRow(device) {
  const row = element("tr", { "data-device": device.device },
    element("td", { class: "number" }, device.device), element("td", {}, mark(states[device.state] ?? "plain", device.state)),
    element("td", { class: "long" }, device.app_id), element("td", { class: "wide" }, `${device.platform}, ${device.environment}`),
    element("td", { class: "wide" }, moment(device.registered_at)), element("td", { class: "number wide" }, device.counter),
    element("td", {}, element("div", { class: "row-buttons" },
      element("button", { type: "button", "aria-label": `Show device ${device.device}`, onclick: () => show(device.device) }, "Show"),
      ...buttons(device))))
  return row
}

function add(devices) {
  rows().append(...devices.map(makeRow))
  find("device-table").hidden = rows().rows.length === 0
}

/** Wherever it is shown. */
function update(device) {
  const row = rows().querySelector(`[data-device="${Number(device.device)}"]`)
  if (!row) return
  const hadFocus = row.contains(document.activeElement)
  const fresh = makeRow(device)
  row.replaceWith(fresh)
  if (hadFocus) fresh.querySelector("button").focus()
}

const questions = {
  approve: ["Approve", "It is let in: its app gets a certificate when it asks the next time.", false],
  revoke: ["Revoke", "Its open connections end, and each further request and handshake is refused, on all gateways of this registry.", true],
  restore: ["Restore", "It is let in again, with the certificates that it has.", true],
}

async function change(device, verb) {
  const [title, text, isGrave] = questions[verb]
  if (!await confirm(`${title} device ${device.device}?`, `${device.app_id}. ${text}`, `${title} device ${device.device}`, isGrave)) return
  try {
    const changed = JSON.parse(await ask(`/devices/${device.device}/${verb}`, "POST"))
    update(changed)
    if (find("device-details").open) await show(device.device)
    const done = `Device ${device.device} is ${changed.state}.`
    tell(done)
    announce(done)
  } catch (fault) {
    failed(fault)
  }
}

const attested = isAttested => isAttested === undefined ? undefined : isAttested ? "attested" : "not attested"

export async function show(number) {
  let device
  try { device = await askJSON(`/devices/${Number(number)}`) } catch (fault) { return failed(fault) }
  update(device)
  find("device-details-title").textContent = `Device ${device.device}`
  const bindings = (device.bindings ?? []).map(binding => element("div", {}, code(binding.key_id), " since ",
    moment(binding.created_at), binding.ended_at ? ` until ${day(binding.ended_at)}` : ""))
  find("device-facts").replaceChildren(...facts([
    ["State", mark(states[device.state] ?? "plain", device.state)], ["App", device.app_id],
    ["Platform", `${device.platform}, ${device.environment}`], ["Key id", code(device.key_id)],
    ["Registered", moment(device.registered_at)], ["Approved", device.approved_at && moment(device.approved_at)],
    ["Revoked", device.revoked_at && moment(device.revoked_at)], ["Highest counter", String(device.counter)],
    ["Certificate keys", bindings.length ? element("div", {}, ...bindings) : "none"],
    ["System version", device.os_version],
    ["Key protection", device.posture?.key_protection],
    ["Certificate key", attested(device.posture?.certificate_key_attested)],
    ["Boot state", device.posture?.boot],
    ["Patch level", device.posture?.patch_level],
    ["App version", device.posture?.app_version],
    ["Distribution", device.posture?.distribution],
    ["Play Integrity", device.posture?.play_integrity?.join(", ")],
    ["Attested", device.posture?.attested_at && moment(device.posture.attested_at)],
    ["Admission", device.posture?.admission],
    ["Signals", device.signals && `claimed by the app, not proven, ${moment(device.signals.claimed_at)}`],
    ...Object.entries(device.signals?.claims ?? {}).sort().map(([name, value]) => [`Claimed ${name}`, `${value}`]),
    ["Attestation key", device.phone?.key_listed && mark("bad", "revoked by Google: the device is refused")],
    ["Risk metric", device.receipt?.risk_metric],
  ]))
  find("device-buttons").replaceChildren(element("span", { class: "row-buttons" }, ...buttons(device)))
  if (!find("device-details").open) find("device-details").showModal()
}
