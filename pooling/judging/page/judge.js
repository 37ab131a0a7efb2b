"use strict";
// Texts reach the page through textContent alone; nothing here makes markup of a string.

const SETTLE = 200;      // ms after a document appears in which no key judges it: a second tap was meant for the last one
const RETRY = 2000;      // ms between attempts to reach the server
const LOOK_AGAIN = 5000; // ms between looks for a document while there is none

const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 52rem)");
let state = null;
let ready = false;
let lookAgain = 0;

function element(name, content, attributes = {}) {
  const made = document.createElement(name);
  made.append(...[content].flat());
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// An id by which the server knows a request that it gets twice. (randomUUID is missing where a page comes by plain HTTP.)
function requestId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function problem(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// Send until there is an answer. A judgement whose answer was lost is sent again under the same id.
async function post(path, content) {
  for (;;) {
    try {
      const answer = await fetch(path, {
        method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(content),
      });
      const json = (answer.headers.get("Content-Type") || "").startsWith("application/json");
      const body = json ? await answer.json() : {message: (await answer.text()).slice(0, 200)};
      if (answer.status < 500) return {status: answer.status, body};
      problem(`${body.message || "The server failed."} Not saved yet; trying again …`);
    } catch {
      problem("The server can't be reached. Not saved yet; trying again …");
    }
    await wait(RETRY);
  }
}

async function ask(path, content = {}, says = "") {
  if (!ready && path !== "next") return;
  ready = false;
  clearTimeout(lookAgain);
  $("main").setAttribute("aria-busy", "true");
  const {status, body} = await post(path, content);
  problem("");
  if (status === 401) return showSignIn(body.assessors);
  const before = state && state.document && `${state.topic.name} ${state.document.name}`;
  if (status === 200) state = body;
  else if (body.state) state = body.state;
  if (status !== 200) problem(body.message);
  if (state) show(before, status === 200 ? says : "");
  await wait(state && state.document ? SETTLE : 0);
  ready = true;
  $("main").setAttribute("aria-busy", "false");
}

function onDocument(path, more, says) {
  if (!state || !state.document) return;
  ask(path, {topic: state.topic.name, document: state.document.name, request: requestId(), ...more}, says);
}

function judge(grade) {
  const known = state && state.grades.find((each) => each.grade === grade);
  if (known) onDocument("judge", {grade}, `Saved: ${known.name}.`);
}

// The next topic that has documents left for this assessor, in either direction.
function turn(step) {
  const topics = state.topics;
  const here = topics.findIndex((each) => state.topic && each.name === state.topic.name);
  for (let away = 1; away < topics.length; away++) {
    const there = topics[(here + step * away + topics.length * away) % topics.length];
    if (there.left) return ask("turn", {topic: there.name});
  }
  $("said").textContent = "No other topic has documents left for you.";
}

function show(before, says) {
  const {topic, document: doc} = state;
  document.title = topic ? `${topic.name} · ${state.title}` : state.title;
  $("sign-in").hidden = true;
  $("work").hidden = false;
  $("title").textContent = state.title;
  $("assessor").textContent = state.assessor;
  $("undo").disabled = !state.undo;
  $("skip").disabled = !doc;
  $("disagreements").hidden = !state.agreement;
  showTopics();
  showGrades(!doc);
  $("topic").hidden = $("figures").hidden = !topic;
  if (topic) { showTopic(topic); showFigures(topic); }
  $("document").hidden = !doc;
  $("nothing").hidden = !!doc;
  if (doc) showDocument(doc, topic);
  else showNothing(topic);
  if (`${doc && topic.name} ${doc && doc.name}` !== before) {
    scrollTo(0, 0);
    (doc ? $("document") : $("nothing")).focus({preventScroll: true});
    $("said").textContent = `${says} ${doc ? `Topic ${topic.name}, document ${doc.name}.` : $("nothing-title").textContent}`;
  }
}

function showTopics() {
  const options = state.topics.map((each) => element(
    "option", `${each.left ? "" : "✓ "}${each.name}${each.title ? ` · ${each.title}` : ""} (${each.judged}/${each.limit})`,
    {value: `=${each.name}`},
  ));
  if (state.by_method) options.unshift(element("option", "as the method chooses", {value: ""}));
  $("topics").replaceChildren(...options);
  $("topics").value = state.turned === null ? "" : `=${state.turned}`;
}

function showGrades(disabled) {
  $("grades").replaceChildren(...state.grades.map((each) => {
    const key = each.grade >= 0 && each.grade <= 9 ? [" ", element("kbd", String(each.grade))] : [` (${each.grade})`];
    const button = element("button", [each.name, ...key], {type: "button"});
    if (each.grade >= 0 && each.grade <= 9) button.setAttribute("aria-keyshortcuts", each.grade);
    if (each.relevant) button.className = "primary";
    button.disabled = disabled;
    button.addEventListener("click", () => judge(each.grade));
    return button;
  }));
}

function showTopic(topic) {
  if ($("topic-name").textContent !== topic.name) $("more").open = !narrow.matches;
  $("topic-name").textContent = topic.name;
  $("topic-title").textContent = topic.title || topic.description || "This topic has no text.";
  $("description").textContent = topic.title ? topic.description : "";
  $("narrative").textContent = topic.narrative;
  $("more").hidden = !(topic.title && topic.description) && !topic.narrative;
}

function showFigures(topic) {
  const own = state.topics.find((each) => each.name === topic.name);
  $("judged").textContent = own.judged;
  $("limit").textContent = own.limit;
  $("progress").max = Math.max(own.limit, 1);
  $("progress").value = own.judged;
  $("found").textContent = topic.known.judged
    ? `${own.relevant} (+ ${topic.known.relevant} known before)` : String(own.relevant);
  const ahead = topic.ahead;
  $("ahead-label").textContent = ahead ? `Expected in the next ${ahead.documents}` : "Expected ahead";
  $("ahead").textContent = ahead ? `${ahead.mean.toFixed(1)} (${ahead.low}–${ahead.high})` : "–";
  $("total").textContent = `${state.total.judged} of ${state.total.limit}`;
  $("pace").textContent = state.pace === null ? "–" : `${state.pace < 10 ? state.pace.toFixed(1) : Math.round(state.pace)} s a document`;
  showCurve(topic.curve, own.limit);
  $("agreement").hidden = !state.agreement || !state.agreement.length;
  $("pairs").replaceChildren(...(state.agreement || []).map((pair) => {
    const kappa = (value) => (value === null ? "not defined" : value.toFixed(2));
    const graded = state.grades.length > 2 ? `, of relevance ${kappa(pair.kappa_relevance)}` : "";
    return element("li", `${pair.assessors.join(" and ")}: κ ${kappa(pair.kappa)}${graded}; `
      + `${pair.equal} of ${pair.documents} equal`);
  }));
}

// Relevant documents found after each judgement; the dashed line is what an even yield would have found.
function showCurve(curve, limit) {
  const [width, height, edge] = [240, 72, 6];
  const found = curve.length ? curve[curve.length - 1] : 0;
  const x = (judged) => edge + (width - 2 * edge) * judged / Math.max(curve.length, 1);
  const y = (count) => height - edge - (height - 2 * edge) * count / Math.max(found, 1);
  const steps = curve.map((count, at) => `H${x(at + 1).toFixed(1)}V${y(count).toFixed(1)}`).join("");
  $("curve").replaceChildren(
    drawn("line", {class: "even", x1: x(0), y1: y(0), x2: x(curve.length), y2: y(found)}),
    drawn("path", {class: "steps", d: `M${x(0)} ${y(0)}${steps}`}),
  );
  $("curve-label").textContent = curve.length
    ? `${found} relevant in ${curve.length} judged (${limit - curve.length} to go)` : "Nothing judged yet";
}

function showDocument(doc, topic) {
  $("document-name").textContent = doc.name;
  $("missing").hidden = doc.pieces !== null;
  $("text").replaceChildren(...(doc.pieces || []).map(
    ([text, marked]) => (marked ? element("mark", text) : document.createTextNode(text)),
  ));
}

function showNothing(topic) {
  const own = topic && state.topics.find((each) => each.name === topic.name);
  const elsewhere = state.topics.some((each) => each.left);
  const [judged, limit] = own ? [own.judged, own.limit] : [state.total.judged, state.total.limit];
  const whose = own ? `Topic ${own.name}` : "This pool";
  if (judged < limit) {
    $("nothing-title").textContent = "Nothing for you just now";
    $("nothing-text").textContent = `The last documents of ${own ? "this topic" : "this pool"} are with other assessors. `
      + "If one comes back, it appears here.";
  } else {
    $("nothing-title").textContent = `${whose} is done`;
    $("nothing-text").textContent = own
      ? `${own.judged} documents judged, ${own.relevant} of them relevant.` : `${judged} documents judged.`;
    if (topic && topic.waiting) $("nothing-text").textContent += ` ${topic.waiting} wait for a second assessor.`;
  }
  if (own) $("nothing-text").textContent += elsewhere ? " Press n for the next topic." : " No other topic has any left for you.";
  lookAgain = setTimeout(() => ready && !document.hidden && ask("next"), LOOK_AGAIN);
}

function showSignIn(assessors) {
  state = null;
  ready = false;
  $("work").hidden = true;
  $("sign-in").hidden = false;
  $("name").hidden = !!assessors;
  $("name").required = !assessors;
  $("names").hidden = !assessors;
  $("names").replaceChildren(...(assessors || []).map((name) => element("option", name, {value: name})));
  (assessors ? $("names") : $("name")).focus();
}

$("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = $("names").hidden ? $("name").value : $("names").value;
  const {status, body} = await post("sign-in", {name});
  $("sign-in-problem").textContent = status === 200 ? "" : body.message;
  if (status === 200) ask("next");
});
$("topics").addEventListener("change", (event) => {
  ask("turn", {topic: event.target.value ? event.target.value.slice(1) : null});
  event.target.blur();
});
$("previous").addEventListener("click", () => turn(-1));
$("following").addEventListener("click", () => turn(1));
$("skip").addEventListener("click", () => onDocument("skip", {}, "Skipped."));
$("undo").addEventListener("click", () => ask("undo", {request: requestId()}, "Taken back."));
$("leave").addEventListener("click", () => { $("menu").open = false; ask("leave"); });
$("help-button").addEventListener("click", () => { $("menu").open = false; $("help").showModal(); });
document.addEventListener("click", (event) => { if (!$("menu").contains(event.target)) $("menu").open = false; });

const KEYS = {
  u: () => !$("undo").disabled && $("undo").click(), s: () => $("skip").click(), n: () => turn(1), p: () => turn(-1),
  "?": () => $("help").showModal(),
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") $("menu").open = false;
  const typing = event.target.closest("input, select, textarea, dialog");
  if (typing || event.repeat || event.ctrlKey || event.altKey || event.metaKey || !state || !ready) return;
  if (/^[0-9]$/.test(event.key)) judge(Number(event.key));
  else if (Object.hasOwn(KEYS, event.key)) KEYS[event.key]();
  else return;
  event.preventDefault();
});

ask("next");
