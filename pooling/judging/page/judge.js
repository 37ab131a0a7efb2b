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
  if (!ready && path !== "next") return 0;
  ready = false;
  clearTimeout(lookAgain);
  $("main").setAttribute("aria-busy", "true");
  const {status, body} = await post(path, content);
  problem("");
  if (status === 401) {
    showSignIn(body);
    return status;
  }
  const before = state && state.document && `${state.topic.name} ${state.document.name}`;
  if (status === 200) state = body;
  else if (body.state) state = body.state;
  if (status !== 200) problem(body.message);
  if (state) show(before, status === 200 ? says : "");
  await wait(state && state.document ? SETTLE : 0);
  ready = true;
  $("main").setAttribute("aria-busy", "false");
  return status;
}

function onDocument(path, more, says) {
  if (!state || !state.document) return;
  ask(path, {topic: state.topic.name, document: state.document.name, request: requestId(), ...more}, says);
}

function judge(grade) {
  const known = state && state.grades.find((each) => each.grade === grade);
  if (known) onDocument("judge", {grade, note: $("note").value}, `Saved: ${known.name}.`);
}

function cannotJudge() {
  onDocument("judge", {cannot_judge: true, note: $("note").value}, "Saved: can’t judge.");
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
  $("cannot").disabled = $("note-button").disabled = !doc;
  $("overview-button").hidden = !state.owner;
  $("search-button").hidden = $("search-key").hidden = !state.searches;
  showTopics();
  showGrades(!doc);
  showGuidelines();
  showTried();
  $("topic").hidden = $("figures").hidden = !topic;
  if (topic) { showTopic(topic); showFigures(topic); }
  $("document").hidden = !doc;
  $("nothing").hidden = !!doc;
  if (doc) showDocument(doc, topic);
  else showNothing(topic);
  if (`${doc && topic.name} ${doc && doc.name}` !== before) {
    scrollTo(0, 0);
    showNote(false);
    $("note").value = "";
    (doc ? $("document") : $("nothing")).focus({preventScroll: true});
    $("said").textContent = `${says} ${doc ? `Topic ${topic.name}, document ${doc.name}.` : $("nothing-title").textContent}`;
  }
}

function showTopics() {
  const options = state.topics.map((each) => element(
    "option", `${each.left ? (each.may_stop ? "◌ " : "") : "✓ "}${each.name}${each.title ? ` · ${each.title}` : ""} (${each.judged}/${each.limit})`,
    {value: `=${each.name}`, dir: "auto"},
  ));
  if (state.by_method) options.unshift(element("option", "as the method chooses", {value: ""}));
  $("topics").replaceChildren(...options);
  $("topics").value = state.turned === null ? "" : `=${state.turned}`;
}

function showGrades(disabled) {
  $("grades").replaceChildren(...state.grades.map((each) => {
    const key = each.grade >= 0 && each.grade <= 9 ? [" ", element("kbd", String(each.grade))] : [` (${each.grade})`];
    const button = element("button", [each.name, ...key], {type: "button"});
    if (each.grade >= 0 && each.grade <= 9) button.dataset.key = each.grade;
    if (each.relevant) button.className = "primary";
    if (each.guideline) button.title = each.guideline;
    button.disabled = disabled;
    button.addEventListener("click", () => judge(each.grade));
    return button;
  }));
  tellKeys();
}

function showGuidelines() {
  const told = state.grades.filter((each) => each.guideline);
  $("guidelines").hidden = !told.length;
  $("guideline-list").replaceChildren(...told.map((each) => element("div", [
    element("dt", `${each.grade} · ${each.name}`), element("dd", each.guideline, {dir: "auto"}),
  ])));
}

// While an assessor burns in: what is known of the gold document that they have just judged.
function showTried() {
  const tried = state.tried;
  $("tried").hidden = !tried;
  if (!tried) return;
  const name = (grade) => (state.grades.find((each) => each.grade === grade) || {name: grade === null ? "can’t judge" : String(grade)}).name;
  $("tried").textContent = tried.given === tried.known
    ? `To begin with: ${tried.document} is ${name(tried.known)}, as you said.`
    : `To begin with: ${tried.document} is ${name(tried.known)}; you said ${name(tried.given)}.`;
}

function showTopic(topic) {
  if ($("topic-name").textContent !== topic.name) $("more").open = !narrow.matches;
  $("topic-name").textContent = topic.name;
  $("topic-title").textContent = topic.title || topic.description || "This topic has no text.";
  $("description").textContent = topic.title ? topic.description : "";
  $("narrative").textContent = topic.narrative;
  $("topic-owner").hidden = !topic.owner;
  $("topic-owner").textContent = topic.owner === state.assessor ? "Your topic" : `The topic of ${topic.owner}`;
  $("more").hidden = !(topic.title && topic.description) && !topic.narrative;
}

function showFigures(topic) {
  const own = state.topics.find((each) => each.name === topic.name);
  $("judged").textContent = own.judged;
  $("limit").textContent = own.limit;
  $("progress").max = Math.max(own.limit, 1);
  $("progress").value = own.judged;
  const {judged, found, curve} = topic.figures;
  $("found-label").textContent = state.blind ? "Relevant, by you" : "Relevant found";
  $("found").textContent = topic.known.judged ? `${found} (+ ${topic.known.relevant} known before)` : String(found);
  const ahead = topic.ahead;
  $("ahead-label").textContent = ahead ? `Expected in the next ${ahead.documents}` : "Expected ahead";
  $("ahead").textContent = ahead ? `${ahead.mean.toFixed(1)} (${ahead.low}–${ahead.high})` : "–";
  $("total").textContent = `${state.total.judged} of ${state.total.limit}`;
  $("pace").textContent = state.pace === null ? "–" : `${state.pace < 10 ? state.pace.toFixed(1) : Math.round(state.pace)} s a document`;
  showRecall(topic.recall);
  showCurve(curve, judged, found);
  $("curve-label").textContent = judged
    ? `${found} relevant in ${judged} judged${state.blind ? " by you" : ""} (${own.limit - own.judged} to go)`
    : "Nothing judged yet";
}

function showRecall(recall) {
  const told = recall && recall.recall !== undefined;
  $("recall-row").hidden = $("most-row").hidden = !told;
  if (told) {
    $("recall").textContent = `at least ${percent(recall.recall)}`;
    $("most").textContent = `at most ${recall.most} (${percent(recall.sure)} sure)`;
  }
  $("may-stop").hidden = !recall || !recall.may_stop;
  if (recall) {
    $("may-stop").textContent = `You may stop: ${percent(recall.target)} of this topic’s relevant documents are `
      + `probably found (${percent(recall.sure)} sure).`;
  }
}

// Rounded down: never more than is known.
const percent = (share) => `${Math.floor(share * 100 + 1e-9)}%`;

// Relevant documents found after each judgement; the dashed line is what an even yield would have found.
function showCurve(curve, judged, found) {
  const [width, height, edge] = [240, 72, 6];
  const x = (at) => (edge + (width - 2 * edge) * at / Math.max(judged, 1)).toFixed(1);
  const y = (count) => (height - edge - (height - 2 * edge) * count / Math.max(found, 1)).toFixed(1);
  const steps = curve.map(([at, count]) => `H${x(at)}V${y(count)}`).join("");
  $("curve").replaceChildren(
    drawn("line", {class: "even", x1: x(0), y1: y(0), x2: x(judged), y2: y(found)}),
    drawn("path", {class: "steps", d: `M${x(0)} ${y(0)}${steps}H${x(judged)}`}),
  );
}

function showDocument(doc, topic) {
  $("document-name").textContent = doc.name;
  $("missing").hidden = doc.pieces !== null;
  $("text").replaceChildren(...pieces(doc.pieces || []));
  const fields = Object.entries(doc.fields || {});
  $("fields").hidden = !fields.length;
  $("fields").replaceChildren(...fields.map(([name, value]) => element("div", [
    element("dt", name), element("dd", value, {dir: "auto"}),
  ])));
}

const pieces = (all) => all.map(([text, marked]) => (marked ? element("mark", text) : document.createTextNode(text)));

function showNothing(topic) {
  const own = topic && state.topics.find((each) => each.name === topic.name);
  const elsewhere = state.topics.some((each) => each.left);
  const [judged, limit] = own ? [own.judged, own.limit] : [state.total.judged, state.total.limit];
  const whose = own ? `Topic ${own.name}` : "This pool";
  if (own && topic.owner && topic.owner !== state.assessor && judged < limit) {
    $("nothing-title").textContent = `The topic of ${topic.owner}`;
    $("nothing-text").textContent = "Nothing here waits for a second assessor.";
  } else if (judged + (own ? topic.unjudgeable : 0) < limit) {
    $("nothing-title").textContent = "Nothing for you just now";
    $("nothing-text").textContent = `The last documents of ${own ? "this topic" : "this pool"} are with other assessors. `
      + "If one comes back, it appears here.";
  } else {
    $("nothing-title").textContent = `${whose} is done`;
    $("nothing-text").textContent = own
      ? `${own.judged} documents judged, ${topic.figures.found} of them relevant${state.blind ? " by you" : ""}.`
      : `${judged} documents judged.`;
    if (own && topic.unjudgeable) $("nothing-text").textContent += ` ${topic.unjudgeable} nobody could judge.`;
    else if (topic && topic.waiting) $("nothing-text").textContent += ` ${topic.waiting} wait for a second assessor.`;
  }
  if (own) $("nothing-text").textContent += elsewhere ? " Press n for the next topic." : " No other topic has any left for you.";
  lookAgain = setTimeout(() => ready && !document.hidden && ask("next"), LOOK_AGAIN);
}

function showSignIn({assessors, owner}) {
  state = null;
  $("look").hidden = !owner;
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
$("cannot").addEventListener("click", cannotJudge);
$("note-button").addEventListener("click", () => showNote($("note-box").hidden));
$("leave").addEventListener("click", () => { $("menu").open = false; ask("leave"); });
$("help-button").addEventListener("click", () => showDialog("help"));
$("judged-button").addEventListener("click", listJudged);
$("judged-more").addEventListener("click", () => addJudged());
$("judged-topic").addEventListener("change", () => { $("judged-items").replaceChildren(); addJudged(); });
for (const id of ["overview-button", "look"]) $(id).addEventListener("click", overview);
document.addEventListener("click", (event) => { if (!$("menu").contains(event.target)) $("menu").open = false; });

function showDialog(id) {
  $("menu").open = false;
  $(id).showModal();
}

function showNote(open) {
  $("note-box").hidden = !open;
  $("note-button").setAttribute("aria-expanded", String(open));
  if (open) $("note").focus();
}

// The whole collection: what no run found can be judged too.
function openSearch() {
  if (!state.searches) return;
  $("search-said").textContent = "";
  showDialog("search");
  $("query").select();
}

async function search(event) {
  event.preventDefault();
  $("search-said").textContent = "Searching …";
  const {status, body} = await post("search", {query: $("query").value});
  problem("");
  $("found-items").replaceChildren(...(status === 200 ? body.found.map((each) => foundItem(each, body.topic)) : []));
  if (status !== 200) $("search-said").textContent = body.message || "Please sign in again.";
  else $("search-said").textContent = body.found.length ? `${body.found.length} found, the best first.` : "Nothing found.";
}

function foundItem(each, topic) {
  const take = element("button", each.judged ? "Judged by you" : "Judge this too", {
    type: "button", "aria-label": `${each.judged ? "Judged by you" : "Judge this too"}: ${each.document}`,
  });
  take.disabled = each.judged || topic === null;
  take.addEventListener("click", async () => {
    const status = await ask("take", {topic, document: each.document});
    if (status === 200) {
      $("search").close();
      $("document").focus({preventScroll: true});
    } else $("search-said").textContent = $("problem").textContent || "Please try again.";
  });
  return element("li", [
    element("p", each.document, {class: "label", dir: "auto"}), element("p", each.snippet, {dir: "auto"}),
    element("div", [take], {class: "row"}),
  ]);
}

$("search-form").addEventListener("submit", search);
$("search-button").addEventListener("click", openSearch);

// What an assessor judged, latest first, each with its grade and note to be corrected in place.
async function listJudged() {
  $("judged-topic").replaceChildren(
    element("option", "all", {value: ""}),
    ...state.topics.map((each) => element("option", `${each.name} ${each.title}`, {value: `=${each.name}`, dir: "auto"})),
  );
  $("judged-items").replaceChildren();
  showDialog("judged-list");
  await addJudged();
}

async function addJudged() {
  const chosen = $("judged-topic").value;
  const last = $("judged-items").lastElementChild;
  const asked = {topic: chosen ? chosen.slice(1) : null, before: last ? Number(last.dataset.id) : null};
  const {status, body} = await post("judged", asked);
  problem("");
  if (status !== 200) {
    $("judged-said").textContent = body.message || "Please sign in again.";
    return;
  }
  $("judged-items").append(...body.judgements.map(judgedItem));
  $("judged-more").hidden = !body.more;
  const listed = $("judged-items").childElementCount;
  $("judged-said").textContent = listed ? `${listed} listed, the latest first.` : "Nothing judged yet.";
}

function judgedItem(made) {
  const grade = element("select", [
    ...state.grades.map((each) => element("option", `${each.name} (${each.grade})`, {value: each.grade})),
    element("option", "can’t judge", {value: "cannot"}),
  ], {"aria-label": `Grade of ${made.document}`});
  grade.value = made.grade === null ? "cannot" : made.grade;
  const note = element("input", [], {
    "aria-label": `Note to ${made.document}`, placeholder: "note", maxlength: 2000, dir: "auto", value: made.note,
  });
  const save = element("button", "Save", {type: "button", disabled: ""});
  const said = element("span", "", {role: "status"});
  for (const each of [grade, note]) each.addEventListener("input", () => { save.disabled = false; said.textContent = ""; });
  save.addEventListener("click", async () => {
    const given = grade.value === "cannot" ? {cannot_judge: true} : {grade: Number(grade.value)};
    const status = await ask("correct", {judgement: made.id, note: note.value, request: requestId(), ...given});
    said.textContent = status === 200 ? "Saved." : status ? $("problem").textContent : "Not saved; please try again.";
    save.disabled = status === 200;
  });
  const whole = element("p", [], {class: "whole", dir: "auto"});
  const text = element("details", [element("summary", "Whole text"), whole]);
  text.addEventListener("toggle", async () => {
    if (!text.open || whole.childNodes.length) return;
    const {body} = await post("document", {judgement: made.id});
    whole.replaceChildren(...(body.pieces ? pieces(body.pieces) : [body.message || "The collection has no text for it."]));
  });
  const when = new Date(made.at * 1000).toLocaleString();
  return element("li", [
    element("p", `Topic ${made.topic}${made.title ? ` · ${made.title}` : ""} · ${made.document} · ${when}`, {class: "label", dir: "auto"}),
    element("p", made.snippet, {dir: "auto"}),
    element("div", [grade, note, save, said], {class: "row"}),
    text,
  ], {"data-id": made.id});
}

// What the owner alone may see.
async function overview() {
  const {status, body} = await post("overview", {});
  problem(status === 200 ? "" : body.message);
  if (status !== 200) return;
  const row = (cells) => element("tr", cells.map((cell) => element("td", String(cell), {dir: "auto"})));
  $("overview-assessors").replaceChildren(...body.assessors.map((each) => row([
    each.listed ? each.name : `${each.name} (no longer listed)`, each.judged,
    each.pace === null ? "–" : each.pace.toFixed(1), each.last === null ? "–" : new Date(each.last * 1000).toLocaleString(),
    each.open, each.gold[1] ? `${each.gold[0]} of ${each.gold[1]}` : "–",
  ])));
  const kappa = (value) => (value === null ? "not defined" : value.toFixed(2));
  $("alpha").textContent = body.alpha === null ? "" : `Krippendorff’s α of all assessors: ${body.alpha.toFixed(2)}`;
  showDisputes(body);
  $("pairs").replaceChildren(...body.agreement.map((pair) => element("li",
    `${pair.assessors.join(" and ")}: κ ${kappa(pair.kappa)}`
    + `${body.graded ? `, of relevance ${kappa(pair.kappa_relevance)}` : ""}; ${pair.equal} of ${pair.documents} equal`)));
  if (!body.agreement.length) $("pairs").append(element("li", "No document has two judgements."));
  if (body.machine) {
    $("pairs").append(element("li", `People and the machine: κ ${kappa(body.machine.kappa)}`
      + `${body.graded ? `, of relevance ${kappa(body.machine.kappa_relevance)}` : ""}; `
      + `${body.machine.equal} of ${body.machine.documents} equal, among those judged`));
  }
  $("overview-topics").replaceChildren(...body.topics.map((each) => row([
    each.name, `${each.judged} of ${each.limit}`, each.relevant,
    each.recall ? `at least ${percent(each.recall.recall)}${each.recall.may_stop ? ", may stop" : ""}` : "–", each.owner || "–",
  ])));
  $("overview-unjudgeable").hidden = !body.unjudgeable.length;
  $("unjudgeable").replaceChildren(...body.unjudgeable.map((each) => element("li", `${each.topic} · ${each.document}`)));
  if (!$("overview").open) showDialog("overview");
}

// Documents with grades that differ; the owner says which one counts.
function showDisputes(body) {
  $("disputes").hidden = !body.disputes;
  $("disputes-said").textContent = body.disputes > body.disputed.length ? `${body.disputed.length} of ${body.disputes}` : "";
  $("disputed").replaceChildren(...body.disputed.map((each) => {
    const said = each.said.map(([name, grade, note]) => `${name}: ${grade}${note ? ` (${note})` : ""}`).join(", ");
    const buttons = body.grades.map(([grade, name]) => {
      const button = element("button", `${name} (${grade})`, {
        type: "button", "aria-label": `${name}: ${each.document}`, "aria-pressed": String(each.resolved === grade),
      });
      if (each.resolved === grade) button.className = "primary";
      button.addEventListener("click", async () => {
        const {status, body: after} = await post("resolve", {
          topic: each.topic, document: each.document, grade, request: requestId(),
        });
        if (status !== 200) $("disputes-said").textContent = after.message;
        else showDisputes(after);
      });
      return button;
    });
    return element("li", [
      element("p", `Topic ${each.topic}${each.title ? ` · ${each.title}` : ""} · ${each.document}`, {class: "label", dir: "auto"}),
      element("p", each.snippet, {dir: "auto"}), element("p", said, {dir: "auto"}),
      element("div", buttons, {class: "row"}),
    ]);
  }));
}

// Keys: of a letter or sign as it is typed; where the keyboard has no Latin letters, of where it lies.
const KEYS = {
  u: () => $("undo").click(), s: () => $("skip").click(), x: () => $("cannot").click(), c: () => showNote(true),
  n: () => turn(1), p: () => turn(-1), l: listJudged, "/": openSearch, "?": () => showDialog("help"),
};

// The digit of a key, also where it is typed with shift (French keyboards) or as another script's sign.
function digitOf(event) {
  if (/^[0-9]$/.test(event.key)) return Number(event.key);
  const there = /^Digit([0-9])$/.exec(event.code);
  return there && !event.shiftKey ? Number(there[1]) : null;
}

function letterOf(event) {
  if (/^[\x20-\x7e]$/.test(event.key)) return event.key.toLowerCase();
  const there = /^Key([A-Z])$/.exec(event.code);
  return there ? there[1].toLowerCase() : event.key;
}

let keysOn = true;
try {
  keysOn = localStorage.getItem("keys") !== "off";
} catch { /* a browser that keeps nothing */ }

function tellKeys() {
  document.body.classList.toggle("no-keys", !keysOn);
  for (const each of document.querySelectorAll("[data-key]")) {
    if (keysOn) each.setAttribute("aria-keyshortcuts", each.dataset.key);
    else each.removeAttribute("aria-keyshortcuts");
  }
}

$("keys-on").checked = keysOn;
$("keys-on").addEventListener("change", (event) => {
  keysOn = event.target.checked;
  try {
    localStorage.setItem("keys", keysOn ? "on" : "off");
  } catch { /* then it holds until the page is left */ }
  tellKeys();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    $("menu").open = false;
    if (event.target === $("note")) $("document").focus({preventScroll: true});
  }
  const elsewhere = event.target.closest("input, select, textarea, dialog") || document.querySelector("dialog[open]");
  if (!keysOn || elsewhere || event.repeat || event.ctrlKey || event.altKey || event.metaKey || !state || !ready) return;
  const digit = digitOf(event);
  const letter = letterOf(event);
  if (digit !== null) judge(digit);
  else if (Object.hasOwn(KEYS, letter)) KEYS[letter]();
  else return;
  event.preventDefault();
});

tellKeys();
ask("next");
