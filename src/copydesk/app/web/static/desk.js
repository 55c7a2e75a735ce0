// What makes the page live: times, news, filters, choices, keys. Every form and link works
// without it. Nothing here builds markup out of text: parts of pages that the server made
// are put in the place of others.
"use strict";

const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// words: English stands here, the page has the texts of the reader's language

const texts = JSON.parse(document.documentElement.dataset.texts || "{}");

function say(text, facts = {}) {
  return (texts[text] || text).replace(/\{(\w+)\}/g, (place, name) => facts[name] ?? place);
}

// times

const UNITS = [[86400, say("{count} d")], [3600, say("{count} h")], [60, say("{count} min")], [1, say("{count} s")]];

function span(seconds) {
  const [size, unit] = UNITS.find(([size]) => seconds >= size) || UNITS.at(-1);
  return unit.replace("{count}", Math.max(Math.floor(seconds / size), 0));
}

function tellTimes(root = document) {
  for (const time of all("time[data-ms]", root)) {
    const at = Number(time.dataset.ms);
    const seconds = Math.round((Date.now() - at) / 1000);
    const until = time.dataset.kind === "until";
    const words = until
      ? seconds < 0 ? say("in {time}", { time: span(-seconds) }) : say("now")
      : seconds < 2 ? say("just now") : say("{time} ago", { time: span(seconds) });
    if (time.textContent !== words) {
      time.title ||= time.textContent;
      time.textContent = words;
    }
  }
}

// the page as it is now, in the place of what is shown

async function fetched(address) {
  // The header says that no person reads this answer as a page: notices are kept for one.
  const response = await fetch(address, { headers: { "X-Copydesk-Part": "1" } });
  if (new URL(response.url).pathname === "/sign-in") {
    location.reload();
    return null;
  }
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

function patchRows(have, next) {
  const known = new Map(all(":scope > li", have).map((row) => [row.id, row]));
  let at = have.firstElementChild;
  for (const row of all(":scope > li", next)) {
    const old = known.get(row.id);
    known.delete(row.id);
    if (old && (old.dataset.sign === row.dataset.sign || one("details[open]", old))) {
      if (old === at) at = at.nextElementSibling;
      else have.insertBefore(old, at);
      continue;
    }
    const made = document.adoptNode(row);
    made.classList.add("fresh");
    have.insertBefore(made, at);
    if (old) {
      const box = one("input[type=checkbox]", made);
      if (box) box.checked = one("input[type=checkbox]", old).checked;
      const focused = old.contains(document.activeElement);
      if (old === at) at = at.nextElementSibling;
      old.remove();
      if (focused) (one(".open", made) || made).focus();
    }
  }
  for (const row of known.values()) row.remove();
}

function patch(next) {
  for (const part of all("[data-live]", next)) {
    const have = document.getElementById(part.id);
    if (!have) continue;
    const rows = one("#rows", have), more = one("#rows", part);
    if (rows && more) {
      patchRows(rows, more);
      continue;
    }
    if (have.contains(document.activeElement) && part.id === "filters") continue;
    if (have.innerHTML !== part.innerHTML) have.replaceWith(document.adoptNode(part));
  }
  const bar = one("#bar"), count = one("#bar", next);
  if (bar && count && bar.innerHTML !== count.innerHTML) bar.replaceWith(document.adoptNode(count));
  document.title = next.title;
  notify(Number(document.body.dataset.waiting), Number(next.body.dataset.waiting));
  document.body.dataset.waiting = next.body.dataset.waiting;
  patchReview(next);
  seek();
  tellTimes();
  tellChoice();
  tellHere();
}

// a review: what was shown stays until the person asks for what is there now

function patchReview(next) {
  const have = one("#review"), made = one("#review", next), state = one("#state");
  if (!have || !state) return;
  if (!made) {
    one("main").replaceChildren(...one("main", next).childNodes);
    return;
  }
  const busy = all("details[open]", have).some((each) => each.contains(document.activeElement));
  if (have.dataset.sign === made.dataset.sign) {
    state.replaceChildren(...one("#state", next).childNodes);
    const decide = one("#decide", have), other = one("#decide", made);
    if (!busy && decide.innerHTML !== other.innerHTML && !all("details[open]", decide).length) {
      decide.replaceWith(document.adoptNode(other));
    }
    return;
  }
  if (one("#anew")) return;
  const words = document.createElement("p");
  words.className = "notice warn";
  words.append(say("The file or the plan has changed since this was shown."), " ");
  const link = document.createElement("a");
  link.id = "anew";
  link.href = location.href;
  link.dataset.key = ".";
  link.textContent = say("Reload");
  words.append(link);
  state.replaceChildren(words);
  for (const button of all("#decide .buttons button", have)) button.disabled = true;
}

let refreshing = false, again = false;

async function refresh() {
  if (refreshing) {
    again = true;
    return;
  }
  refreshing = true;
  try {
    do {
      again = false;
      const next = await fetched(location.href);
      if (next) patch(next);
    } while (again);
  } catch {
    // the next news, or the next connection, asks again
  } finally {
    refreshing = false;
  }
}

// news: while the page is seen, and no longer (a browser has few connections for one server),
// unless the person asked to be notified

let source = null;

const notifies = () => localStorage.getItem("copydesk.notify") === "on" && self.Notification?.permission === "granted";

function notify(before, now) {
  if (!document.hidden || !notifies() || now <= before) return;
  const words = now === 1 ? say("1 plan is waiting for you.") : say("{count} plans are waiting for you.", { count: now });
  const shown = new Notification("copydesk", { body: words, tag: "copydesk" });
  shown.onclick = () => (focus(), (location.href = "/"));
}

function listen() {
  const lamp = one("#live");
  if (!lamp || source || (document.hidden && !notifies())) return;
  source = new EventSource("/events");
  source.addEventListener("hello", () => {
    lamp.classList.add("on");
    lamp.title = say("live");
    lamp.setAttribute("aria-label", say("live"));
    refresh();
  });
  source.addEventListener("news", refresh);
  source.addEventListener("error", () => {
    lamp.classList.remove("on");
    lamp.title = say("not connected");
    lamp.setAttribute("aria-label", say("not connected"));
    if (source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(listen, 3000);
    }
  });
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden || notifies()) return listen();
  if (source) source.close();
  source = null;
});

// links that change how a diff is looked at

async function swap(link) {
  const id = link.dataset.swap;
  const next = await fetched(link.href);
  const part = next && next.getElementById(id);
  if (!part) {
    location.href = link.href;
    return;
  }
  const sign = one("#review"), now = one("#review", next);
  if (sign && now && sign.dataset.sign !== now.dataset.sign) {
    patchReview(next);
    return;
  }
  document.getElementById(id).replaceWith(document.adoptNode(part));
  history.replaceState(null, "", link.href);
  const view = new URL(link.href).searchParams.get("view");
  if (view) localStorage.setItem("copydesk.view", view);
  tellTimes();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-swap]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  swap(link);
});

function likedView() {
  const liked = localStorage.getItem("copydesk.view");
  if (!liked || new URL(location.href).searchParams.has("view")) return;
  const link = all(".segments a[data-swap]").find((each) => new URL(each.href).searchParams.get("view") === liked);
  if (link && !link.hasAttribute("aria-current")) swap(link);
}

// filters

let typing = 0;

function filter() {
  const form = one("#filters");
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) query.set(name, value);
  const address = location.pathname + (query.size ? `?${query}` : "");
  history.replaceState(null, "", address);
  return refresh();
}

// A row that is opened before the list is filtered leads on with the filter all the same.
document.addEventListener("click", (event) => {
  const link = event.target.closest("#rows a[href]"), form = one("#filters");
  if (!link || !form) return;
  const to = new URL(link.href), here = new URL(location.href).searchParams;
  for (const name of new FormData(form).keys()) if (here.get(name)) to.searchParams.set(name, here.get(name));
  link.href = to;
}, true);

document.addEventListener("input", (event) => {
  if (!event.target.closest("#filters")) return;
  clearTimeout(typing);
  typing = setTimeout(filter, 120);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.id === "filters") {
    event.preventDefault();
    filter();
    return;
  }
  if (form.id === "choose") {
    event.preventDefault();
    together();
    return;
  }
  if (form.method !== "post") return;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "1";
});

window.addEventListener("pageshow", () => all("form[data-sent]").forEach((form) => delete form.dataset.sent));

// what is chosen in the list

const chosen = () => all("#rows input[type=checkbox]:checked");

function tellChoice() {
  const bar = one("#chosen-bar");
  if (!bar) return;
  const boxes = chosen();
  bar.hidden = !boxes.length;
  const broken = boxes.filter((box) => box.closest("[data-breaks]")).length;
  const facts = { count: boxes.length, broken };
  one("#chosen-count").textContent = say("{count} selected", facts) + (broken ? say(", {broken} with new findings of checks", facts) : "");
  for (const row of all("#rows > li")) {
    row.classList.toggle("chosen", Boolean(one("input:checked", row)));
  }
}

function together() {
  const query = new URLSearchParams(location.search);
  for (const box of chosen()) query.append("hunk", box.value);
  if (query.has("hunk")) location.href = `/together?${query}`;
}

let last = null;

document.addEventListener("click", (event) => {
  const box = event.target.closest("#rows input[type=checkbox]");
  if (box) {
    const boxes = all("#rows input[type=checkbox]");
    if (event.shiftKey && last) {
      const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
      for (const each of boxes.slice(from, to + 1)) each.checked = box.checked;
    }
    last = box;
    tellChoice();
  }
  const group = event.target.closest("[data-select=group]");
  if (group) {
    const found = [];
    let row = group.closest("li").nextElementSibling;
    for (; row && !row.classList.contains("group"); row = row.nextElementSibling) {
      found.push(one("input[type=checkbox]", row));
    }
    const checked = !found.every((each) => each.checked);
    for (const each of found) each.checked = checked;
    tellChoice();
  }
  if (event.target.closest("#chosen-clear")) {
    for (const each of chosen()) each.checked = false;
    tellChoice();
  }
  if (event.target.closest("#help-button")) help();
});

// a line number that is clicked is that of the comment, whose form comes to the line

document.addEventListener("click", (event) => {
  const number = event.target.closest("#review .diff td.number"), details = one("#comment");
  if (!number || !details || !number.textContent.trim()) return;
  const row = number.parentElement, cells = all("td.number", row);
  const isOld = cells.indexOf(number) === 0;
  one(".said.form")?.replaceWith();
  const made = document.createElement("tr"), cell = document.createElement("td");
  made.className = "said form";
  cell.colSpan = cells.length > 1 && all("td.text", row).length > 1 ? 4 : 3;
  made.append(cell);
  cell.append(details);
  row.after(made);
  open(details);
  one("[name=line]", details).value = number.textContent.trim();
  one("[name=side]", details).value = isOld ? "old" : "new";
  const texts = all("td.text", row), text = texts.length > 1 && !isOld ? texts[1] : texts[0];
  const copy = text.cloneNode(true);
  for (const mark of all(".sign, .ending", copy)) mark.remove();
  const suggest = one("[data-suggest]", details);
  suggest.hidden = false;
  suggest.dataset.suggest = copy.textContent;
});

document.addEventListener("click", (event) => {
  const suggest = event.target.closest("[data-suggest]"), field = suggest && one("textarea", suggest.form);
  if (!suggest) return;
  const start = field.value + (field.value && !field.value.endsWith("\n") ? "\n" : "") + "```suggestion\n";
  field.value = `${start}${suggest.dataset.suggest}\n\`\`\`\n`;
  field.focus();
  field.setSelectionRange(start.length, start.length + suggest.dataset.suggest.length);
});

// several together: a plan that was viewed is collapsed, until it is another

const viewedKey = (plan) => `copydesk.viewed ${plan.id} ${plan.dataset.sign}`;

function tellViewed(plan, isViewed) {
  plan.classList.toggle("collapsed", isViewed);
  one("[data-viewed]", plan).setAttribute("aria-pressed", String(isViewed));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-viewed]");
  if (!button) return;
  const plan = button.closest(".plan"), isViewed = button.getAttribute("aria-pressed") !== "true";
  if (isViewed) sessionStorage.setItem(viewedKey(plan), "1");
  else sessionStorage.removeItem(viewedKey(plan));
  tellViewed(plan, isViewed);
});

// keys

function help() {
  const dialog = one("#help");
  if (dialog && !dialog.open) dialog.showModal();
}

const keysOn = () => localStorage.getItem("copydesk.keys") !== "off";

function move(step) {
  const rows = all("#rows .open");
  if (!rows.length) return false;
  const at = rows.findIndex((row) => row.closest("li").contains(document.activeElement));
  const next = rows[at < 0 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

// the change that keys are for: the one in the address, which an action names for the next page,
// or where the last key or click led, or the first

const changes = () => all("#rows > .change");
let at = 0;

function changeHere() {
  const rows = changes(), focused = document.activeElement?.closest(".change");
  if (focused) at = rows.indexOf(focused);
  at = Math.max(Math.min(at, rows.length - 1), 0);
  return rows[at];
}

// the change in the address may come with the rest of a long page

let sought = location.hash, isFirst = true;

function seek() {
  const index = changes().findIndex((row) => `#${row.id}` === sought);
  if (sought && index >= 0) {
    at = index;
    if (!isFirst) changes()[at].scrollIntoView({ block: "start" });
    sought = "";
  }
  isFirst = false;
}

function tellHere() {
  const change = changeHere();
  for (const row of changes()) row.classList.toggle("here", row === change);
}

function moveTo(index) {
  const row = changes()[Math.max(Math.min(index, changes().length - 1), 0)];
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: "start" });
  tellHere();
}

function moveFile(step) {
  const rows = changes(), groups = all("#rows > .group");
  const group = groups.findLast((each) => each.compareDocumentPosition(rows[at]) & Node.DOCUMENT_POSITION_FOLLOWING);
  const next = groups[groups.indexOf(group) + step];
  if (next) moveTo(rows.indexOf(next.nextElementSibling));
}

document.addEventListener("focusin", tellHere);

let here = -1;

function moveChange(step) {
  const starts = all(".diff tr.changed").filter((row) => !row.previousElementSibling?.classList.contains("changed"));
  if (!starts.length) return;
  here = Math.min(Math.max(here + step, 0), starts.length - 1);
  for (const row of all(".diff tr.here")) row.classList.remove("here");
  starts[here].classList.add("here");
  starts[here].scrollIntoView({ block: "center" });
}

function open(details) {
  details.open = true;
  const field = one("textarea", details);
  field.focus();
  field.scrollIntoView({ block: "nearest" });
}

function early(key) {
  if (one("#early")) return;
  const words = document.createElement("p");
  words.className = "notice warn";
  words.id = "early";
  words.textContent = say("The key {key} was ignored: this page had only just appeared. Press it again.", { key });
  one("#notices").append(words);
}

function press(key, scope = document) {
  const target = all(`[data-key="${CSS.escape(key)}"]`, scope).find((each) => !each.disabled);
  if (!target) return false;
  // Not in the first moment of a page: the key may have been meant for the one before.
  if (target.tagName === "BUTTON" && !document.body.dataset.ready) return early(key), true;
  target.click();
  return true;
}

function keyed(event) {
  const key = event.key;
  if (key === "?") return help(), true;
  if (!keysOn()) return false;
  const page = { 1: "/", 2: "/changes", 3: "/history", 4: "/trends" }[key];
  if (page) return (location.href = page), true;
  const change = changeHere(), scope = change || document;
  if (change && key === "j") return moveTo(changes().indexOf(change) + 1), true;
  if (change && one("#rows > .group") && (key === "n" || key === "p")) return moveFile(key === "n" ? 1 : -1), true;
  const opens = `[data-opens="${CSS.escape(key)}"]`, details = one(opens, scope) || one(opens);
  if (details) return open(details), true;
  if (press(key, scope) || (change && press(key))) return true;
  if (change && key === "k") return moveTo(changes().indexOf(change) - 1), true;
  if (key === "j") return move(1);
  if (key === "k") return move(-1);
  if (key === "n") return moveChange(1), true;
  if (key === "p") return moveChange(-1), true;
  if (key === "/" && one("#filter")) return one("#filter").focus(), true;
  if (key === "A" && chosen().length) return together(), true;
  if (key === "x") {
    const box = document.activeElement?.closest("#rows > li")?.querySelector("input[type=checkbox]");
    if (box) box.click();
    return Boolean(box);
  }
  return false;
}

document.addEventListener("keydown", (event) => {
  const field = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && field) return field.blur();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && field?.form) {
    event.preventDefault();
    return field.form.requestSubmit();
  }
  if (field || event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return undefined;
  if (keyed(event)) event.preventDefault();
  return undefined;
});

document.addEventListener("change", (event) => {
  const { id, checked } = event.target;
  if (id === "keys-on") localStorage.setItem("copydesk.keys", checked ? "on" : "off");
  if (id !== "notify-on") return;
  localStorage.setItem("copydesk.notify", checked ? "on" : "off");
  if (checked) Notification.requestPermission().then((answer) => (event.target.checked = answer === "granted"));
});

if (one("#keys-on")) one("#keys-on").checked = keysOn();
if (one("#notify-on")) {
  one("#notify-on").checked = notifies();
  one("#notify-on").disabled = !self.Notification;
}
if (one("#filter") && one("#filter").value !== one("#filter").defaultValue) filter(); // typed before this script ran
if (one(".narrow") && matchMedia("(max-width: 52rem)").matches && !one("#filters [name=path]").value) one(".narrow").open = false;
for (const plan of all(".plan[data-sign]")) if (sessionStorage.getItem(viewedKey(plan))) tellViewed(plan, true);
if (one("#files") && matchMedia("(max-width: 64rem)").matches) one("#files").open = false;
for (const plot of all(".timeline")) plot.scrollLeft = plot.scrollWidth; // the newest first
seek();
tellTimes();
tellChoice();
tellHere();
likedView();
listen();
setInterval(tellTimes, 1000);
setTimeout(() => (document.body.dataset.ready = "1"), 400);
