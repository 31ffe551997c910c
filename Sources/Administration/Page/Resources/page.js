// The page: signing in, looking again and again, and saying when nobody answers.

import * as decisions from "./decisions.js"
import * as devices from "./devices.js"
import { announce, clock, find, zone } from "./dom.js"
import { ask, askJSON, forgetSession, isSignedIn, level, needsToken, signIn, signOut } from "./gateway.js"
import * as plots from "./plots.js"
import * as status from "./status.js"

const often = 500, seldom = 2_000
let round = 0                    // counts the times that the page was shown or hidden: what belongs to an earlier one ends
let run = null                   // which process answers
let generation = 0
let last = 0                     // the number of the last decision that was seen
let lostAt = null

// MARK: What is shown

function say(state, text) {
  const place = find("connection")
  if (place.textContent === text) return
  place.dataset.state = state
  place.textContent = text
}

function notice(text, isBad = false) {
  find("notice-text").textContent = text
  find("notice").classList.toggle("bad", isBad)
  find("notice").hidden = !text
}

function showSignIn(reason = "") {
  round += 1
  forgetSession()
  find("gateway").hidden = find("sections").hidden = find("sign-out").hidden = true
  find("confirmation").close()
  devices.clear()
  find("sign-in").hidden = false
  find("sign-in-fault").textContent = reason
  say("idle", "Not signed in")
  find("token").focus()
}

function showGateway() {
  round += 1
  document.body.dataset.level = level()   // what it refuses is not offered, either
  find("sign-in").hidden = true
  find("gateway").hidden = find("sections").hidden = find("sign-out").hidden = false
  run = null
  last = 0
  lostAt = null
  notice("")
  decisions.clear()
  plots.clear()
  look(round, often, seeDecisions, lost)
  look(round, seldom, seeFigures)
}

/** Asks once more before something is done. - Returns: whether to do it. */
function confirm(title, text, action, isGrave = false) {
  const dialog = find("confirmation")
  find("confirmation-title").textContent = title
  find("confirmation-text").textContent = text
  find("confirmation-yes").textContent = action
  find("confirmation-yes").classList.toggle("danger", isGrave)
  dialog.returnValue = "no"
  dialog.showModal()
  return new Promise(resolve => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }))
}

// MARK: Looking

/** Does something again and again, one after the other, for as long as the round lasts. */
async function look(mine, pause, see, unanswered = () => {}) {
  while (mine === round) {
    try {
      await see(mine)
    } catch (fault) {
      if (mine !== round) return
      if (fault.status === 401) return sessionEnded()
      if (fault.status === undefined) {
        notice(`This page has a fault, reload it: ${fault.message}`, true)
        throw fault
      }
      unanswered()
    }
    await new Promise(resolve => setTimeout(resolve, pause))
  }
}

async function seeDecisions(mine) {
  let answer = await askJSON(`/decisions?after=${last}`)
  if (run !== null && answer.run !== run) {
    // The numbers of another process begin again.
    answer = await askJSON("/decisions?after=0")
    notice(`The gateway was restarted; this page has come back to it at ${clock(Date.now(), 0)}.`)
    announce("The gateway was restarted. Connected again.")
    plots.clear()
  } else if (lostAt !== null) {
    notice(`There was no answer from ${clock(lostAt, 0)} to ${clock(Date.now(), 0)}.`)
    announce("Connected again.")
  } else if (generation && answer.generation !== generation) {
    notice(`The configuration was reloaded at ${clock(Date.now(), 0)}: generation ${answer.generation} is served.`)
    announce(`The configuration was reloaded: generation ${answer.generation}.`)
  }
  if (mine !== round) return
  ({ run, generation, last } = answer)
  lostAt = null
  const silent = answer.silent_workers.length ? `, ${answer.silent_workers.length} silent` : ""
  say(answer.ready && !silent ? "live" : "lost", (answer.ready ? "Live" : "Not ready") + silent)
  decisions.add(answer.decisions)
}

async function seeFigures(mine) {
  const [metrics, state] = await Promise.all([ask("/metrics"), askJSON("/status")])
  if (mine !== round) return
  plots.add(metrics, Date.now())
  status.show(state)
}

function lost() {
  lostAt ??= Date.now()
  say("lost", `No answer since ${clock(lostAt, 0)}, trying again`)
  plots.forgetFigures()
}

async function sessionEnded() {
  round += 1
  forgetSession()
  try {
    if (await needsToken()) return showSignIn("The session is over: sign in again.")
    await signIn(null)
    showGateway()
  } catch {
    showSignIn("The session is over.")
  }
}

/** A fault of something that was asked for by hand. */
function failed(fault) {
  if (fault.status === 401) return sessionEnded()
  notice(fault.message, true)
}

// MARK: Beginning

find("sign-in-form").addEventListener("submit", async event => {
  event.preventDefault()
  const token = find("token").value
  find("token").value = ""
  find("sign-in-fault").textContent = ""
  try {
    await signIn(token)
    showGateway()
    find("main").focus()
  } catch (fault) {
    find("sign-in-fault").textContent = fault.code === "token_required" ? "That is not the token." : fault.message
    find("token").focus()
  }
})

find("notice-close").addEventListener("click", () => notice(""))

find("sign-out").addEventListener("click", async () => {
  round += 1
  try {
    await signOut()
    showSignIn()
  } catch (fault) {
    showSignIn(`Signed out here. The gateway does not know of it: ${fault.message}`)
  }
})

find("reload").addEventListener("click", async () => {
  const text = "The gateway reads the conf file again and serves it if all of it is valid; otherwise nothing changes."
  if (!await confirm("Reload the configuration?", text, "Reload")) return
  find("reload").disabled = true
  try {
    const answer = await askJSON("/reload", "POST")
    // Of each the line with its place; the rest of it shows the conf file.
    const doubts = (answer.warnings ?? []).map(each => each.split("\n")[0])
    notice([`Reloaded: generation ${answer.generation} is served.`, ...doubts].join(" "))
    generation = answer.generation
  } catch (fault) {
    if (fault.status === 422) notice(`Not reloaded, nothing has changed: ${fault.message}`, true)
    else failed(fault)
  } finally {
    find("reload").disabled = false
  }
})

find("zone").textContent = zone()
decisions.start(devices.show)
devices.start(confirm, failed)

if (isSignedIn()) showGateway()
else {
  try {
    if (await needsToken()) showSignIn()
    else {
      await signIn(null)
      showGateway()
    }
  } catch (fault) {
    showSignIn(fault.message)
  }
}
