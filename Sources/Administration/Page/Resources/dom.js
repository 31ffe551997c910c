// Making elements, and text of values. Nothing here makes markup of text: what a client has sent stays text.

export const find = id => document.getElementById(id)

/** An element with attributes, listeners (`onclick`) and children: elements, text, or nothing. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value)
    else made.setAttribute(key, value === true ? "" : value)
  }
  made.append(...children.filter(child => child !== null && child !== undefined).map(plain))
  return made
}

export function drawing(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

// Marks that turn the direction of a line round, and what cannot be seen: they would show a name as another one. Ends of lines do no
// such thing.
const unseen = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu
const plain = child => typeof child === "object" ? child : String(child).replace(unseen, "\u{fffd}")

/** Replaces children where they differ, so that no selection is lost to what has not changed; for what has no listeners. */
export function fill(parent, ...children) {
  const fresh = element("div", {}, ...children)
  if (parent.innerHTML !== fresh.innerHTML) parent.replaceChildren(...fresh.childNodes)
}

/** Pairs for a list of terms: [term, value, class]. Those without a value are left out. */
export const facts = pairs => pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
  .flatMap(([term, value, kind]) => [element("dt", {}, term), element("dd", { class: kind ?? null }, value)])

/** A word with a sign, so that colour tells nothing alone. */
export function mark(kind, text) {
  const sign = { good: "✓", bad: "✕", warn: "!", plain: "·" }[kind]
  return element("span", { class: `mark ${kind}` }, element("span", { "aria-hidden": "true" }, sign + " "), text)
}

export const code = text => element("span", { class: "code" }, text)

const padded = (number, digits = 2) => String(number).padStart(digits, "0")

/** The time of day here. */
export function clock(time, digits = 3) {
  const date = new Date(time), rest = digits ? "." + padded(date.getMilliseconds(), 3) : ""
  return `${padded(date.getHours())}:${padded(date.getMinutes())}:${padded(date.getSeconds())}${rest}`
}

/** Of this browser, now: `UTC+01:00`. */
export function zone() {
  const minutes = -new Date().getTimezoneOffset(), size = Math.abs(minutes)
  return minutes ? `UTC${minutes < 0 ? "\u{2212}" : "+"}${padded(Math.floor(size / 60))}:${padded(size % 60)}` : "UTC"
}

/** The day and the time of day here, in the one order that nobody reads otherwise. */
export function day(time) {
  const date = new Date(time)
  return `${date.getFullYear()}-${padded(date.getMonth() + 1)}-${padded(date.getDate())} ${clock(date, 0)}`
}

export const moment = time => element("time", { datetime: time, class: "time" }, day(time))

export function span(microseconds) {
  if (microseconds === null || microseconds === undefined || Number.isNaN(microseconds)) return "–"
  if (microseconds < 1_000) return `${Math.round(microseconds)} µs`
  const digits = value => value < 10 ? value.toFixed(1) : value.toFixed(0)
  if (microseconds < 1_000_000) return `${digits(microseconds / 1_000)} ms`
  return `${digits(microseconds / 1_000_000)} s`
}

export function count(number) {
  if (Number.isNaN(number)) return "–"
  if (number < 10 && number % 1) return number.toFixed(1)
  return Math.round(number).toLocaleString("en").replaceAll(",", "\u{202f}")
}

/** Says something to those who listen rather than look. */
export function announce(text) {
  const place = find("announcement")
  // The same words again are no news to a screen reader unless something changes.
  place.textContent = place.textContent === text ? text + "\u{a0}" : text
}
